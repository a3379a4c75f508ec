"""Dead letters: records that can't be used, kept as they are with the reason beside them."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from features.errors import Malformed, Misdeclared
from pipelines.pipeline import DeadLetterRule
from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Partition
from workers.transport.slices import Slice

LONGEST_ERROR = 2000
"""Bytes of ``headrace.error``."""

_RECORD_OVERHEAD = 100
"""Bytes at most of a batch of one record beside its key, value and headers (Kafka's message format, v2)."""

REASONS = (
    "invalid_json", "wrong_type", "missing_field", "out_of_range", "unusable_time", "time_ahead", "key_mismatch", "tombstone",
    "too_large", "model_failed", "output_not_finite",
)  # fmt: skip
"""Every ``headrace.reason``."""

STAGES = ("decode", "infer", "encode")
"""Every ``headrace.stage``."""

REPLAYED, ATTEMPTS = "headrace.replayed", "headrace.attempts"
"""What a record carries that was published again: the letter it comes from, and how often it failed before."""

Headers = list[tuple[str, bytes]]


def dead_letters(  # noqa: PLR0913, PLR0917 - what a letter says
    topic: str, pipeline: str, slice_: Slice, malformed: Mapping[int, Malformed], stage: str, largest: int
) -> OutputBatch:
    """The records of a slice that can't be used, for the pipeline's dead-letter topic.

    Key, value and headers are the original's; ``headrace.*`` headers say reason, stage, error, source
    (``topic:partition:offset``), pipeline and attempts, which are counted on where a replayed record fails again. A
    record that would make its letter larger than the topic takes is cut to fit, and ``headrace.truncated`` gives its
    sizes: it stands whole at its source.

    Args:
        topic: Where they go.
        pipeline: Its name.
        slice_: The slice.
        malformed: By index in the slice, what is wrong.
        stage: ``decode``, ``infer`` or ``encode``.
        largest: Bytes of the largest batch that the topic takes, its ``max.message.bytes``.
    """
    rows = sorted(malformed)
    where = slice_.partition
    records = []
    for row in rows:
        headers = slice_.headers[row] or []
        own = [
            ("headrace.reason", malformed[row].reason.encode()),
            ("headrace.stage", stage.encode()),
            ("headrace.error", malformed[row].detail.encode()[:LONGEST_ERROR]),
            ("headrace.source", f"{where.topic}:{where.number}:{slice_.offsets[row]}".encode()),
            ("headrace.pipeline", pipeline.encode()),
            (ATTEMPTS, b"%d" % (1 + _failures(headers))),
        ]
        room = largest - _RECORD_OVERHEAD - _size(None, None, own)
        key, value, kept = _fitting(slice_.keys[row], slice_.values[row], headers, room)
        records.append((key, value, [*kept, *own]))
    return OutputBatch(
        topic=topic,
        keys=[key for key, _, _ in records],
        values=[value for _, value, _ in records],
        headers=[headers for _, _, headers in records],
    )


def _failures(headers: Headers) -> int:
    """How often a record that was published again had failed before; 0 of any other."""
    known = dict(headers)
    before = known.get(ATTEMPTS) or b""
    return int(before) if REPLAYED in known and before.isdigit() else 0


def _fitting(
    key: bytes | None, value: bytes | None, headers: Headers, room: int
) -> tuple[bytes | None, bytes | None, Headers]:
    """Key, value and headers of a record, cut where they take more bytes than there is room for."""
    if _size(key, value, headers) <= room:
        return key, value, headers
    sizes = len(key or b""), len(value or b""), sum(len(name) + len(each or b"") for name, each in headers)
    note = ("headrace.truncated", b"key %d, value %d, headers %d bytes" % sizes)
    key = None if key is None else key[: room // 10]
    headers = [*(headers if _size(None, None, headers) <= room // 10 else []), note]
    left = max(0, room - _size(key, None, headers) - _varint(room))
    return key, None if value is None else value[:left], headers


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes of key, value and headers with their lengths, as a record has them."""
    texts = [each for each in (key, value) if each is not None]
    texts += [text for name, content in headers for text in (name.encode(), content or b"")]
    return sum(_varint(len(text)) + len(text) for text in texts)


def _varint(number: int) -> int:
    """Bytes of a number, zigzag-encoded."""
    return max(1, ((2 * number).bit_length() + 6) // 7)


class DeadLetterGuard:
    """Stops the worker when dead letters say that it reads, or computes, what was not declared.

    What it says does not depend on how the records are cut into slices.

    Args:
        rule: The limits.
        what: What is counted: ``records``, or ``rows`` of the model.
    """

    def __init__(self, rule: DeadLetterRule, what: str) -> None:
        self._rule, self._what = rule, what
        self._seen = 0
        self._dead: deque[tuple[int, str]] = deque()
        self._runs: Counter[Partition] = Counter()

    def observe(self, partition: Partition, count: int, malformed: Mapping[int, Malformed]) -> None:
        """Count so many more, with those at fault by index; raises `Misdeclared` when a limit is passed."""
        longest, self._runs[partition] = _runs(count, sorted(malformed), self._runs[partition])
        first_end = self._rule.window - self._seen - 1  # of the first window
        for row in sorted({*malformed, first_end} if 0 <= first_end < count else malformed):
            if row in malformed:
                self._dead.append((self._seen + row, malformed[row].reason))
            while self._dead and self._dead[0][0] <= self._seen + row - self._rule.window:
                self._dead.popleft()
            if row >= first_end:
                self._judge()
        self._seen += count
        if longest > self._rule.max_run:
            raise Misdeclared(
                f"{longest} dead letters follow one another in {partition} ({self._why()}); dead_letter_rule.max_run is "
                f"{self._rule.max_run}: {self._fix}"
            )

    def _judge(self) -> None:
        """Raises if too many of the window that ends here are dead letters; only a new one can make it so."""
        if len(self._dead) > self._rule.max_ratio * self._rule.window:
            raise Misdeclared(
                f"{len(self._dead)} of the last {self._rule.window} {self._what} are dead letters ({self._why()}); "
                f"dead_letter_rule.max_ratio is {self._rule.max_ratio}: {self._fix}"
            )

    @property
    def _fix(self) -> str:
        against = "the schema with the topic" if self._what == "records" else "the model with its inputs"
        return f"compare {against}, or raise the limit"

    def _why(self) -> str:
        reasons = Counter(reason for _, reason in self._dead)
        return ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common(3))


def _runs(records: int, rows: Sequence[int], before: int) -> tuple[int, int]:
    """The longest run of dead letters, ``before`` of them right before the slice, and the one at its end."""
    run, previous, longest = before, -1, 0
    for row in rows:
        run = run + 1 if row == previous + 1 else 1
        previous, longest = row, max(longest, run)
    if not records:
        return longest, before
    return longest, run if previous == records - 1 else 0
