"""A Kafka producer that takes columns."""

import ctypes
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from features.byte_column import ByteColumn
from workers.transport.native import library
from workers.transport.native.kernel import produce_records
from workers.transport.outputs import HeaderColumns, OutputBatch
from workers.transport.partitions import Commit

Undelivered = Callable[[KafkaError, str, int], None]
"""Called with the error, the topic and the partition of a record that was not delivered."""

_LEVELS = (*[logging.CRITICAL] * 3, logging.ERROR, logging.WARNING, *[logging.INFO] * 2, logging.DEBUG)
"""By syslog's numbers."""


class _Callbacks:
    """What the library calls, in the thread that polls; it knows nothing of the producer, so as not to keep it alive.

    Exceptions can't pass through the library: the first is kept for the call that ran the callbacks.
    """

    def __init__(self, settings: Mapping[str, object], logger: logging.Logger) -> None:
        self._on_delivery, self._on_error, self._on_statistics = (
            settings.get(name) for name in ("on_delivery", "error_cb", "stats_cb")
        )
        self._logger = logger
        self._raised: BaseException | None = None
        # The library keeps the addresses of these: they have to live as long as the client.
        self._delivered = library.ON_DELIVERY(self._delivery)
        self._failed = library.ON_ERROR(self._error)
        self._measured = library.ON_STATISTICS(self._statistics)
        self._logged = library.ON_LOG(self._log)

    def install(self, conf: int) -> None:
        """Into an ``rd_kafka_conf_t *``."""
        library.conf_set_dr_msg_cb(conf, self._delivered)
        library.conf_set_error_cb(conf, self._failed)
        library.conf_set_stats_cb(conf, self._measured)
        library.conf_set_log_cb(conf, self._logged)

    def check(self) -> None:
        """Raise what a callback raised."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _run(self, callback: object, *arguments: object) -> None:
        try:
            if callable(callback):
                callback(*arguments)
        except BaseException as error:  # noqa: BLE001 - see `check`
            self._raised = self._raised or error

    def _delivery(self, client: int, message: "ctypes._Pointer[library.Message]", opaque: int) -> None:  # noqa: ARG002
        report = message.contents
        if report.error:
            topic = library.topic_name(report.topic).decode(errors="replace")
            self._run(self._on_delivery, KafkaError(report.error), topic, report.partition)

    def _error(self, client: int, code: int, reason: bytes, opaque: int) -> None:  # noqa: ARG002
        error = KafkaError(code, reason.decode(errors="replace"))
        if code == KafkaError._FATAL:  # noqa: SLF001 - librdkafka's own code
            error = library.fatal_error_of(client)
        self._run(self._on_error, error)

    def _statistics(self, client: int, text: int, size: int, opaque: int) -> int:  # noqa: ARG002
        self._run(self._on_statistics, ctypes.string_at(text, size).decode())
        return 0

    def _log(self, client: int, level: int, facility: bytes, text: bytes) -> None:  # noqa: ARG002
        said = facility.decode(), text.decode(errors="replace")
        self._run(self._logger.log, _LEVELS[min(level, 7)], "%s %s", *said)


class ColumnProducer:
    """librdkafka's producer, for one thread; what may be tried again raises confluent-kafka's `KafkaException`.

    Args:
        settings: Of librdkafka, and the callbacks ``on_delivery`` (see `Undelivered`), ``error_cb`` and ``stats_cb``,
            which :meth:`poll` and the calls on transactions run; what they raise, the call raises.
        logger: Where the client logs.
    """

    def __init__(self, settings: Mapping[str, object], logger: logging.Logger) -> None:
        plain = {name: value for name, value in settings.items() if not callable(value)}
        self._callbacks = _Callbacks(settings, logger)
        conf = library.configuration([*plain.items(), ("log.queue", True)])
        self._callbacks.install(conf)
        self._client = library.start(library.PRODUCER, conf)
        library.set_log_queue(self._client, None)
        self._topics: dict[str, int] = {}
        weakref.finalize(self, _close, self._client, self._topics, self._callbacks).atexit = False

    def __len__(self) -> int:
        """Records that are not done with, and calls of callbacks that wait for a poll."""
        return int(library.outq_len(self._client))

    def poll(self, seconds: float) -> None:
        """Run callbacks; returns early when some were run."""
        library.poll(self._client, int(seconds * 1000))
        self._callbacks.check()

    def produce(self, batch: OutputBatch, start: int = 0) -> int:
        """Hand records over, beginning at ``start``; returns the first for which the queue had no room.

        Raises:
            KafkaException: A record was refused for good.
        """
        n = len(batch)
        headers = batch.headers
        columns = HeaderColumns.of([None] * n) if headers is None else headers
        columns = columns if isinstance(columns, HeaderColumns) else HeaderColumns.of(columns)
        values = ByteColumn.of(batch.values)
        keys = None if batch.keys is None else ByteColumn.of(batch.keys)
        progress = np.array([start])
        error = library.take_error(
            produce_records(
                library.PRODUCEVA, self._client, self._topic(batch.topic), batch.partition, values.table,
                np.full((n, 2), -1) if keys is None else keys.table, columns.bounds, columns.names,
                columns.values.table, progress,
            )
        )  # fmt: skip
        if error is not None and error.code() != KafkaError._QUEUE_FULL:  # noqa: SLF001 - librdkafka's own code
            raise KafkaException(error)
        return int(progress[0])

    def init_transactions(self, seconds: float) -> None:
        """Take over the transactional id."""
        self._check(library.init_transactions(self._client, int(seconds * 1000)))

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._check(library.begin_transaction(self._client))

    def send_offsets_to_transaction(self, commits: Sequence[Commit], group: bytes, seconds: float) -> None:
        """Add source offsets to the transaction, in the name of a member of the group."""
        metadata = ctypes.c_void_p()
        library.check(library.group_metadata_read(ctypes.byref(metadata), group, len(group)))
        offsets = _offsets(commits)
        try:
            self._check(
                library.send_offsets_to_transaction(self._client, offsets, metadata, int(seconds * 1000))
            )
        finally:
            library.topic_partition_list_destroy(offsets)
            library.group_metadata_destroy(metadata)

    def commit_transaction(self, seconds: float) -> None:
        """Make what was produced, and the offsets, visible together."""
        self._check(library.commit_transaction(self._client, int(seconds * 1000)))

    def abort_transaction(self, seconds: float) -> None:
        """Make none of it visible, ever."""
        self._check(library.abort_transaction(self._client, int(seconds * 1000)))

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            topic = library.topic_new(self._client, name.encode(), None)
            if not topic:
                raise KafkaException(library.last_error())
            self._topics[name] = topic
        return self._topics[name]

    def _check(self, error: int | None) -> None:
        taken = library.take_error(error)
        self._callbacks.check()
        if taken is not None:
            raise KafkaException(taken)


def _offsets(commits: Sequence[Commit]) -> int:
    """An ``rd_kafka_topic_partition_list_t *``."""
    offsets: int = library.topic_partition_list_new(len(commits))
    for commit in commits:
        entry = library.topic_partition_list_add(
            offsets, commit.partition.topic.encode(), commit.partition.number
        ).contents
        entry.offset = commit.offset
        if commit.note:
            note = commit.note.encode() + b"\0"  # copied by its size, written up to the zero byte
            entry.metadata = library.mem_malloc(None, len(note))  # the list frees it
            entry.metadata_size = len(note)
            ctypes.memmove(entry.metadata, note, len(note))
    return offsets


def _close(client: int, topics: Mapping[str, int], callbacks: object) -> None:
    """What is still queued is given up."""
    del callbacks  # kept until the client is gone
    for topic in topics.values():
        library.topic_destroy(topic)
    library.purge(client, 3)  # queued and in flight
    library.destroy(client)
