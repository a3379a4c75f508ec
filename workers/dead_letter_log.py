"""The dead letters of a pipeline as they stand on its topic, and which of them were published again.

Beside the letters stand *marks*, one for each letter that was published again, written in the same transaction, to
the letter's own partition: retention never removes a mark before its letter.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from confluent_kafka import Message

from features.errors import Misdeclared
from pipelines import catalog
from pipelines.pipeline import Pipeline
from workers.clients import Clients
from workers.dead_letters import ATTEMPTS, REPLAYED
from workers.log import LogReader, Ranges

_MARK, _TARGET, _DIGEST = "headrace.mark", "headrace.target", "headrace.digest"
_REASON, _TRUNCATED = "headrace.reason", "headrace.truncated"

Progress = Callable[[int], object]
Headers = list[tuple[str, bytes | None]]


class Position(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> "Position | None":
        """Of ``topic:partition:offset``; ``None`` of anything else."""
        topic, _, offset = text.rpartition(":")
        topic, _, partition = topic.rpartition(":")
        if not (topic and partition.isdecimal() and offset.isdecimal()):
            return None
        return cls(topic, int(partition), int(offset))

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


class Identity(NamedTuple):
    """What two letters of one failure share: the record's place, and its bytes should that place be used twice."""

    source: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that could not be used, and why.

    Args:
        position: Where the letter stands.
        time: Its Kafka timestamp, ms since the epoch.
        key: The record's key.
        value: Its value.
        headers: Its headers, those of the letter left out.
        reason: Why it can't be used.
        stage: Where that was found.
        error: A sentence.
        source: Where the record stands, ``topic:partition:offset``.
        pipeline: Whose letter it is.
        attempts: How often it has failed.
        truncated: Its sizes where the letter does not hold all of it, else empty.
        identity: Equal for two letters that a worker wrote of one record, as it may at least once.
    """

    position: Position
    time: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: str
    stage: str
    error: str
    source: str
    pipeline: str
    attempts: int
    truncated: str
    identity: Identity

    @classmethod
    def of(cls, message: Message) -> "DeadLetter | None":
        """The letter in a message; ``None`` if it is none, such as a mark."""
        headers: Headers = message.headers() or []
        begin = max((place for place, (name, _) in enumerate(headers) if name == _REASON), default=None)
        if begin is None:
            return None
        own = {name: (value or b"").decode(errors="replace") for name, value in headers[begin:]}
        truncated = b""
        if begin and headers[begin - 1][0] == _TRUNCATED:
            begin -= 1
            truncated = headers[begin][1] or b""
        attempts = own.get(ATTEMPTS, "")
        return cls(
            position=Position(message.topic(), message.partition(), message.offset()),
            time=message.timestamp()[1],
            key=message.key(),
            value=message.value(),
            headers=headers[:begin],
            reason=own[_REASON],
            stage=own.get("headrace.stage", ""),
            error=own.get("headrace.error", ""),
            source=own.get("headrace.source", ""),
            pipeline=own.get("headrace.pipeline", ""),
            attempts=int(attempts) if attempts.isdecimal() else 1,
            truncated=truncated.decode(errors="replace"),
            identity=Identity(own.get("headrace.source", ""), _digest(message.key(), message.value())),
        )

    def republished(self) -> Headers:
        """The record's headers, and which letter it comes from, for publishing it again."""
        return [
            *((name, value) for name, value in self.headers if name not in {REPLAYED, ATTEMPTS}),
            (REPLAYED, str(self.position).encode()),
            (ATTEMPTS, b"%d" % self.attempts),
        ]

    def mark(self, target: str) -> Headers:
        """The headers of the mark that says that it was published again to a topic."""
        return [
            (_MARK, b"replayed"),
            ("headrace.pipeline", self.pipeline.encode()),
            ("headrace.letter", str(self.position).encode()),
            ("headrace.source", self.identity.source.encode()),
            (_DIGEST, self.identity.digest.encode()),
            (_TARGET, target.encode()),
        ]


def _digest(key: bytes | None, value: bytes | None) -> str:
    sizes = b"%d:%d:" % tuple(-1 if each is None else len(each) for each in (key, value))
    return hashlib.sha256(sizes + (key or b"") + (value or b"")).hexdigest()[:32]


def is_mark(message: Message) -> bool:
    """Whether a record of a dead-letter topic is a mark."""
    return any(name == _MARK for name, _ in message.headers() or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters are meant; what is left empty leaves none out.

    Args:
        reasons: Of these reasons.
        stages: Of these stages.
        keys: Of these keys.
        since: Not before, ms since the epoch.
        until: Before, ms since the epoch.
    """

    reasons: frozenset[str] = frozenset()
    stages: frozenset[str] = frozenset()
    keys: frozenset[bytes] = frozenset()
    since: int | None = None
    until: int | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a letter is meant."""
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.stages or letter.stage in self.stages)
            and (not self.keys or letter.key in self.keys)
            and (self.since is None or letter.time >= self.since)
            and (self.until is None or letter.time < self.until)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a dead-letter topic holds at a moment.

    Args:
        ranges: The stretch of each partition.
        replayed: The topics that a letter was published to again.
        reasons: Every reason that a letter has.
    """

    ranges: Ranges
    replayed: Mapping[Identity, set[str]] = field(default_factory=dict)
    reasons: frozenset[str] = frozenset()

    @property
    def offsets(self) -> int:
        """How many offsets there are to read."""
        return sum((end or first) - first for first, end in self.ranges.values())

    def targets(self, letter: DeadLetter) -> set[str]:
        """Where a letter was published again."""
        return self.replayed.get(letter.identity, set())


class DeadLetterLog:
    """Reads a pipeline's dead letters.

    Args:
        clients: librdkafka settings, as every client gets them.
        pipeline: Whose.
    """

    def __init__(self, clients: Clients, pipeline: Pipeline) -> None:
        self._reader = LogReader(clients, pipeline.dead_letters)
        self._reference = catalog.reference(pipeline)

    def survey(self, progress: Progress = lambda _: None) -> Survey:
        """Read everything that is there, once: which letters were published again, and where the log ends.

        Waits for transactions that are open: a mark may stand behind one.
        """
        held = self._reader.watermarks(isolation="read_uncommitted")
        ends = {number: low for number, (low, _) in held.items()}
        replayed: dict[Identity, set[str]] = {}
        reasons = set()
        # The embedded broker's own word on the end counts the last batch as one record: read on from there.
        rest = {number: (high, None) for number, (_, high) in held.items()}
        for number, messages in chain(self._reader.messages(held), self._reader.messages(rest)):
            ends[number] = messages[-1].offset() + 1
            for message in messages:
                headers = {
                    name: (value or b"").decode(errors="replace") for name, value in message.headers() or ()
                }
                if _MARK in headers:
                    identity = Identity(headers.get("headrace.source", ""), headers.get(_DIGEST, ""))
                    replayed.setdefault(identity, set()).add(headers.get(_TARGET, ""))
                elif _REASON in headers:
                    reasons.add(headers[_REASON])
            progress(len(messages))
        ranges = {number: (low, ends[number]) for number, (low, _) in held.items()}
        return Survey(ranges=ranges, replayed=replayed, reasons=frozenset(reasons))

    def letters(
        self, survey: Survey, chosen: LetterFilter, progress: Progress = lambda _: None
    ) -> Iterator[DeadLetter]:
        """The letters of a survey that are meant, each partition's in offset order."""
        for _, messages in self._reader.messages(survey.ranges):
            yield from filter(chosen.takes, filter(None, map(DeadLetter.of, messages)))
            progress(len(messages))

    def at(self, partition: int, offset: int) -> DeadLetter:
        """The letter at a place.

        Raises:
            Misdeclared: There is none.
        """
        held = self._reader.watermarks()
        if partition not in held:
            raise Misdeclared(
                f"{self._reader.topic} has no partition {partition}; its partitions are {min(held)} to {max(held)}"
            )
        low, high = held[partition]
        stretch = (offset, offset + 1) if offset < high else (high, None)  # see `survey`
        found = self._reader.messages({partition: stretch} if offset >= low else {})
        letters = [
            DeadLetter.of(message)
            for _, messages in found
            for message in messages
            if message.offset() == offset
        ]
        if not letters or letters[0] is None:
            what = "no dead letter" if not letters else "a record that is no dead letter"
            raise Misdeclared(
                f"There is {what} at {partition}:{offset} of {self._reader.topic}, which holds offsets {low} to "
                f"{held[partition][1] - 1} of that partition; headrace dlq {self._reference} list shows where letters are"
            )
        return letters[0]
