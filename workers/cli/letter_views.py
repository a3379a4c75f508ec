"""Dead letters for people and as JSON."""

import base64
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from pipelines.pipeline import Pipeline
from workers.cli.table import table
from workers.dead_letter_log import DeadLetter, Survey

_ERROR_SHOWN = 90


class LetterCount(msgspec.Struct):
    """Letters of one stage and reason; times in ms since the epoch."""

    letters: int = 0
    replayed: int = 0
    first: int = sys.maxsize
    last: int = 0

    def add(self, letter: DeadLetter, *, is_replayed: bool) -> None:
        """One more."""
        self.letters += 1
        self.replayed += is_replayed
        self.first, self.last = min(self.first, letter.time), max(self.last, letter.time)


def as_list(
    pipeline: Pipeline,
    counts: Mapping[tuple[str, str], LetterCount],
    newest: list[DeadLetter],
    survey: Survey,
) -> Iterator[str]:
    """The list for people."""
    if not counts:
        yield (
            f"no such dead letters in {pipeline.dead_letters}"
            if survey.reasons
            else f"no dead letters in {pipeline.dead_letters}"
        )
        return
    yield from table(
        [
            ("stage", "reason", "letters", "replayed", "first", "last"),
            *(
                (
                    stage,
                    reason,
                    str(count.letters),
                    str(count.replayed),
                    _moment(count.first),
                    _moment(count.last),
                )
                for (stage, reason), count in sorted(counts.items())
            ),
        ]
    )
    if newest:
        yield ""
        yield from table(
            [
                ("letter", "at", "source", "key", "reason", "attempts", "replayed to", "error"),
                *(
                    (
                        f"{letter.position.partition}:{letter.position.offset}",
                        _moment(letter.time),
                        letter.source,
                        "-" if letter.key is None else _shortened(repr(_text(letter.key)), 24),
                        letter.reason,
                        str(letter.attempts),
                        ", ".join(sorted(survey.targets(letter))) or "-",
                        _shortened(letter.error, _ERROR_SHOWN),
                    )
                    for letter in newest
                ),
            ]
        )


def as_page(letter: DeadLetter, survey: Survey) -> Iterator[str]:
    """A letter for people."""
    truncated = (
        [("truncated", f"{letter.truncated}; it stands whole at its source")] if letter.truncated else []
    )
    yield from table(
        [
            ("letter", str(letter.position)),
            ("at", _moment(letter.time)),
            ("pipeline", letter.pipeline),
            ("stage", letter.stage),
            ("reason", letter.reason),
            ("error", letter.error),
            ("source", letter.source),
            ("attempts", str(letter.attempts)),
            ("replayed to", ", ".join(sorted(survey.targets(letter))) or "-"),
            *truncated,
            ("key", "-" if letter.key is None else repr(_text(letter.key))),
            *(
                (f"header {name}", "-" if value is None else repr(_text(value)))
                for name, value in letter.headers
            ),
        ]
    )
    yield ""
    yield from _content(letter.value)


def _content(value: bytes | None) -> Iterator[str]:
    """A value as text, or else as bytes in hex with what can be read of them."""
    if value is None:
        yield "no value (a tombstone)"
        return
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if all(letter.isprintable() or letter in "\n\r\t" for letter in text):
        yield f"value, {len(value)} bytes of text:"
        yield text
        return
    yield f"value, {len(value)} bytes:"
    for place in range(0, len(value), 16):
        row = value[place : place + 16]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{place:08x}  {row.hex(' '):<47}  {readable}"


def as_dict(letter: DeadLetter, survey: Survey) -> dict[str, object]:
    """A letter as JSON has it, its value left out."""
    position = letter.position
    return {
        "partition": position.partition,
        "offset": position.offset,
        "time": letter.time,
        "stage": letter.stage,
        "reason": letter.reason,
        "error": letter.error,
        "source": letter.source,
        "pipeline": letter.pipeline,
        "attempts": letter.attempts,
        "truncated": letter.truncated or None,
        "replayed_to": sorted(survey.targets(letter)),
        "key": readable(letter.key),
        "headers": [[name, readable(content)] for name, content in letter.headers],
        "value_bytes": None if letter.value is None else len(letter.value),
    }


def readable(data: bytes | None) -> str | dict[str, str] | None:
    """Text where it is UTF-8, else an object with the bytes in base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
