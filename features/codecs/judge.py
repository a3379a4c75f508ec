"""The judge of a JSON event: msgspec, and what RFC 8259 and this project ask beyond it.

What it accepts is accepted, what it refuses is malformed for the reason that it gives: a pure function of
the bytes and the schema.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np

from features.errors import Malformed
from features.kernels.scan import nesting
from features.paths import path_text
from features.schema import Field, Schema

LONGEST_RECORD = 2**24 - 1
"""Bytes; a reference holds a length of 24 bits."""

MOST_NESTED = 128
"""Objects and arrays inside one another; more than the scanner skips, less than exhausts any stack."""

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_NUMBERS: dict[type, msgspec.json.Decoder[Any]] = {
    int: msgspec.json.Decoder(_Int64),
    float: msgspec.json.Decoder(float),
}
_TYPES: dict[type, Any] = {str: str, bool: bool, int: _Int64, float: float}

_ESCAPES = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_NOT_A_NUMBER = re.compile(rb"-?(?:NaN|Infinity)")
_BYTE = re.compile(r"\(byte (\d+)\)$")

Tree = dict[str | int, "Tree | Field"]


def tree_of(fields: Sequence[Field]) -> Tree:
    """The fields under the steps of their paths: an object by names, an array by indexes."""
    tree: Tree = {}
    for field in fields:
        node = tree
        for step in field.json_path[:-1]:
            inner = node.setdefault(step, {})
            assert isinstance(inner, dict)  # the schema has no value where another path goes on
            node = inner
        node[field.json_path[-1]] = field
    return tree


class Judge:
    """Decodes the events of one schema one by one."""

    def __init__(self, schema: Schema) -> None:
        self._fields = schema.fields
        self._decoder = msgspec.json.Decoder(_container("Event", tree_of(schema.fields)))
        self._attributes = [[_attribute(step) for step in field.json_path] for field in schema.fields]
        self._quoted = [row for row, field in enumerate(schema.fields) if field.quoted]
        is_flat = all(len(field.json_path) == 1 for field in schema.fields)
        self._all: Callable[[Any], Sequence[Any]] = (
            attrgetter(*itertools.chain(*self._attributes)) if is_flat else self._follow
        )

    def values(self, event: bytes | None) -> Sequence[Any]:
        """The fields' values in the schema's order, ``None`` where missing; raises `Malformed`."""
        if event is None:
            raise Malformed("tombstone", "the record has no value")
        if not event.strip():
            raise Malformed("invalid_json", "the record's value is empty")
        if len(event) > LONGEST_RECORD:
            raise Malformed(
                "too_large", f"the record has {len(event)} bytes; at most {LONGEST_RECORD} can be read"
            )
        if event.count(b"{") + event.count(b"[") > MOST_NESTED and _nesting(event) > MOST_NESTED:
            raise Malformed("invalid_json", f"nested too deeply; at most {MOST_NESTED} levels can be read")
        try:
            event.decode()
            decoded = self._decoder.decode(event)
        except UnicodeDecodeError as error:
            raise Malformed(
                "invalid_json", f"not UTF-8: {error.reason} (byte {error.start}){_near(event, error.start)}"
            ) from error
        except msgspec.DecodeError as error:
            raise _malformed(error, event) from error
        values = self._all(decoded)
        if self._quoted:
            values = list(values)
            for row in self._quoted:
                if isinstance(values[row], str):
                    values[row] = unquoted(self._fields[row], values[row])
        return values

    def _follow(self, decoded: Any) -> list[Any]:
        """The values at the paths."""
        values = []
        for attributes in self._attributes:
            value = decoded
            for attribute in attributes:
                if value is None:
                    break
                value = getattr(value, attribute)
            values.append(value)
        return values


def _nesting(event: bytes) -> int:
    data = np.frombuffer(event, np.uint8)
    return int(nesting(data.ctypes.data, len(event)))


def _attribute(step: str | int) -> str:
    return f"f_{step if isinstance(step, int) else step.encode().hex()}"


def _container(name: str, tree: Tree) -> type[msgspec.Struct]:
    """The type of an object, or of an array by position, of which only the tree's values are looked at."""
    is_array = isinstance(next(iter(tree)), int)
    steps: list[str | int] = list(range(max(tree) + 1)) if is_array else list(tree)  # type: ignore[operator]
    last_required = max(
        (steps.index(step) for step, node in tree.items() if not _is_optional(node)), default=-1
    )
    declared = []
    for place, step in enumerate(steps):
        kind = _type(step, tree[step]) if step in tree else msgspec.Raw
        is_required = place <= last_required if is_array else not _is_optional(tree[step])
        declared.append((_attribute(step), kind, msgspec.NODEFAULT if is_required else None))
    return msgspec.defstruct(
        name,
        declared,
        rename={_attribute(step): str(step) for step in steps},
        array_like=is_array,
        kw_only=True,
        gc=False,
    )


def _type(step: str | int, node: Tree | Field) -> Any:
    if isinstance(node, Mapping):
        kind = _container(str(step), node)
    else:
        kind = _TYPES[node.type] | str if node.quoted else _TYPES[node.type]
    return kind | None if _is_optional(node) else kind


def _is_optional(node: Tree | Field) -> bool:
    return all(map(_is_optional, node.values())) if isinstance(node, Mapping) else node.optional


def unquoted(field: Field, text: str) -> int | float:
    """The number that stands in quotes, without blanks around it; raises `Malformed`."""
    where = f"got {_short(text)} in quotes - at `$.{path_text(field.json_path)}`"
    try:
        if text.strip() == text:
            return _NUMBERS[field.type].decode(text)
    except msgspec.DecodeError as error:
        if _is_out_of_range(str(error)):
            raise Malformed("out_of_range", f"Number out of range, {where}") from error
    raise Malformed("wrong_type", f"Expected `{field.type.__name__}`, {where}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


def _is_out_of_range(detail: str) -> bool:
    return detail.startswith("Expected `int` ") or "out of range" in detail


def _malformed(error: msgspec.DecodeError, event: bytes) -> Malformed:
    """The refusal in our words; msgspec's own sentence names the field."""
    detail = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return Malformed("invalid_json", _syntax(detail, event))
    if "missing required field" in detail or "got `null` - at" in detail or "of at least length" in detail:
        return Malformed("missing_field", detail)
    if _is_out_of_range(detail):
        return Malformed("out_of_range", detail)
    return Malformed("wrong_type", detail)


def _syntax(detail: str, event: bytes) -> str:
    """What is no JSON about the event, and what stands there."""
    for escape in _ESCAPES.finditer(event):
        if escape[1]:
            lone = escape[1].decode(errors="replace")
            return f"\\{lone} is half a character, a lone surrogate{_near(event, escape.start())}"
    if event.startswith(b"\xef\xbb\xbf"):
        return "it begins with a byte order mark; write UTF-8 without one"
    if (found := _BYTE.search(detail)) is None:
        return detail
    at = int(found[1])
    if number := _NOT_A_NUMBER.match(event, at - (event[at - 1 : at] == b"-")):
        return f"{number[0].decode()} is no JSON{_near(event, at)}; write null"
    return detail + _near(event, at)


def _near(event: bytes, at: int) -> str:
    """What stands around a byte, for people."""
    return f", near {event[max(0, at - 30) : at + 20].decode(errors='backslashreplace')!r}"
