"""Where a value stands in an event: ``card.id``, ``items[0].price``, ``["a name.with dots"]``.

JSONPath's child steps (RFC 9535) without the ``$``; indexes begin at 0.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from features.errors import Misdeclared

FieldPath = tuple[str | int, ...]
"""Names, and indexes of arrays, from the outermost object to the value."""

MOST_STEPS = 32
LARGEST_INDEX = 255

_PLAIN = re.compile(r"[^.\[\]]+")
_BRACKETS = re.compile(r'\[(?:(\d+)|("(?:[^"\\]|\\.)*"))\]')
_UNREADABLE = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
_FIX = 'write card.id, items[0].price or ["a name.with dots"]'


def parse_path(text: str) -> FieldPath:
    """The steps of a path; raises `Misdeclared` saying what to write instead."""
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        at, step = _step(text, at)
        steps.append(step)
    if not steps or text.endswith("."):
        raise Misdeclared(f"path={text!r} has an empty name in it; {_FIX}")
    if isinstance(steps[0], int):
        raise Misdeclared(f"path={text!r} begins with an index, and an event is an object; {_FIX}")
    if not can_read(steps):
        raise Misdeclared(
            f"path={text!r} has a name with a quote, backslash or control character, which can't be read"
        )
    if len(steps) > MOST_STEPS:
        raise Misdeclared(f"path={text!r} has {len(steps)} steps; at most {MOST_STEPS} can be followed")
    return tuple(steps)


def can_read(steps: Sequence[str | int]) -> bool:
    """Whether no name has a quote, backslash or control character: msgspec looks for names as they are written."""
    return not any(isinstance(step, str) and _UNREADABLE.search(step) for step in steps)


def _step(text: str, at: int) -> tuple[int, str | int]:
    """One step of a path, and where the next one begins."""
    step: str | int
    if bracket := _BRACKETS.match(text, at):
        step, end = int(bracket[1]) if bracket[1] else json.loads(bracket[2]), bracket.end()
        if isinstance(step, int) and step > LARGEST_INDEX:
            raise Misdeclared(f"path={text!r} has the index {step}; at most {LARGEST_INDEX} can be read")
    elif plain := _PLAIN.match(text, at):
        step, end = plain[0], plain.end()
        if fix := _foreign(step):
            raise Misdeclared(
                f"path={text!r} has the name {step!r}; {fix}, or [{json.dumps(step)}] if it is one"
            )
    else:
        what = "is no path" if text[at] in "[]" else "has an empty name in it"
        raise Misdeclared(f"path={text!r} {what}; {_FIX}")
    return end + (text[end : end + 1] == "." and end + 1 < len(text)), step


def _foreign(name: str) -> str | None:
    """What to write instead where a name looks like a path of another language."""
    if name.isdigit():
        return f"write [{name}] for an array's item"
    if name == "$":
        return "leave out the '$'"
    if "->" in name:
        return "write '.' for '->', and indexes from 0"
    return "write 'card.id' for '/card/id'" if name.startswith("/") else None


def path_text(path: FieldPath) -> str:
    """The path as `parse_path` reads it, each name plain where it can be."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN.fullmatch(step) and not _foreign(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def look_up(event: Any, path: FieldPath) -> Any:
    """The value in decoded JSON; ``None`` where there is none."""
    for step in path:
        if isinstance(step, int):
            event = (
                event[step]
                if isinstance(event, Sequence) and not isinstance(event, str) and step < len(event)
                else None
            )
        else:
            event = event.get(step) if isinstance(event, Mapping) else None
    return event


def put(event: dict[str, Any], path: FieldPath, value: Any) -> None:
    """Put a value where its path says, with the objects and arrays around it."""
    node: Any = event
    step: Any
    for step, inner in zip(path, (*path[1:], None), strict=True):
        if isinstance(node, list) and isinstance(step, int):
            node.extend([None] * (step + 1 - len(node)))
        if inner is None:
            node[step] = value
        elif (node[step] if isinstance(node, list) else node.get(step)) is None:
            node[step] = [] if isinstance(inner, int) else {}
        node = node[step]
