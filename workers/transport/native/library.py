"""The functions of librdkafka that are used here, as ``rdkafka.h`` of 2.x declares them.

They are looked up in confluent-kafka's extension module, which is linked with the library: no path is guessed, and
both clients are of one version.
"""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

from confluent_kafka import KafkaError, KafkaException, cimpl

PRODUCER = 0  # RD_KAFKA_PRODUCER
_OK = 0  # of rd_kafka_conf_set
_MOST_TEXT = 512


class Message(Structure):
    """``rd_kafka_message_t``."""

    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("opaque", c_void_p),
    )


class TopicPartition(Structure):
    """``rd_kafka_topic_partition_t``."""

    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("error", c_int),
        ("private", c_void_p),
    )


ON_DELIVERY = CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)
ON_ERROR = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
ON_STATISTICS = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
ON_LOG = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)

_library = ctypes.CDLL(cimpl.__file__)


def _function(name: str, returns: Any, *takes: Any) -> Callable[..., Any]:
    function = getattr(_library, f"rd_kafka_{name}")
    function.restype, function.argtypes = returns, takes
    return function


conf_new = _function("conf_new", c_void_p)
conf_destroy = _function("conf_destroy", None, c_void_p)
conf_set = _function("conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)
conf_set_dr_msg_cb = _function("conf_set_dr_msg_cb", None, c_void_p, ON_DELIVERY)
conf_set_error_cb = _function("conf_set_error_cb", None, c_void_p, ON_ERROR)
conf_set_stats_cb = _function("conf_set_stats_cb", None, c_void_p, ON_STATISTICS)
conf_set_log_cb = _function("conf_set_log_cb", None, c_void_p, ON_LOG)
new = _function("new", c_void_p, c_int, c_void_p, c_char_p, c_size_t)
destroy = _function("destroy", None, c_void_p)
purge = _function("purge", c_int, c_void_p, c_int)
set_log_queue = _function("set_log_queue", c_void_p, c_void_p, c_void_p)
fatal_error = _function("fatal_error", c_int, c_void_p, c_char_p, c_size_t)
poll = _function("poll", c_int, c_void_p, c_int)
outq_len = _function("outq_len", c_int, c_void_p)
topic_new = _function("topic_new", c_void_p, c_void_p, c_char_p, c_void_p)
topic_destroy = _function("topic_destroy", None, c_void_p)
topic_name = _function("topic_name", c_char_p, c_void_p)
init_transactions = _function("init_transactions", c_void_p, c_void_p, c_int)
begin_transaction = _function("begin_transaction", c_void_p, c_void_p)
send_offsets_to_transaction = _function(
    "send_offsets_to_transaction", c_void_p, c_void_p, c_void_p, c_void_p, c_int
)
commit_transaction = _function("commit_transaction", c_void_p, c_void_p, c_int)
abort_transaction = _function("abort_transaction", c_void_p, c_void_p, c_int)
topic_partition_list_new = _function("topic_partition_list_new", c_void_p, c_int)
topic_partition_list_add = _function(
    "topic_partition_list_add", POINTER(TopicPartition), c_void_p, c_char_p, c_int32
)
topic_partition_list_destroy = _function("topic_partition_list_destroy", None, c_void_p)
mem_malloc = _function("mem_malloc", c_void_p, c_void_p, c_size_t)
group_metadata_read = _function(
    "consumer_group_metadata_read", c_void_p, POINTER(c_void_p), c_char_p, c_size_t
)
group_metadata_destroy = _function("consumer_group_metadata_destroy", None, c_void_p)
error_code = _function("error_code", c_int, c_void_p)
error_string = _function("error_string", c_char_p, c_void_p)
error_is_fatal = _function("error_is_fatal", c_int, c_void_p)
error_is_retriable = _function("error_is_retriable", c_int, c_void_p)
error_txn_requires_abort = _function("error_txn_requires_abort", c_int, c_void_p)
error_destroy = _function("error_destroy", None, c_void_p)
_last_error = _function("last_error", c_int)

PRODUCEVA = ctypes.cast(_library.rd_kafka_produceva, c_void_p).value or 0
"""Address of the function."""


def take_error(error: int | None) -> KafkaError | None:
    """An ``rd_kafka_error_t *`` as confluent-kafka's error; it is freed."""
    if not error:
        return None
    try:
        return KafkaError(
            error_code(error),
            error_string(error).decode(errors="replace"),
            bool(error_is_fatal(error)),
            bool(error_is_retriable(error)),
            bool(error_txn_requires_abort(error)),
        )
    finally:
        error_destroy(error)


def check(error: int | None) -> None:
    """Raises `KafkaException` for an ``rd_kafka_error_t *``."""
    if (taken := take_error(error)) is not None:
        raise KafkaException(taken)


def last_error() -> KafkaError:
    """Why the last call of this thread gave no object."""
    return KafkaError(_last_error())


def configuration(settings: Sequence[tuple[str, object]]) -> int:
    """An ``rd_kafka_conf_t *``; raises `KafkaException` naming the setting."""
    conf: int = conf_new()
    text = ctypes.create_string_buffer(_MOST_TEXT)
    for name, value in settings:
        written = str(value).lower() if isinstance(value, bool) else str(value)
        result = conf_set(conf, name.encode(), written.encode(), text, _MOST_TEXT)
        if result != _OK:
            conf_destroy(conf)
            code = KafkaError._INVALID_ARG  # noqa: SLF001 - librdkafka's own code
            raise KafkaException(KafkaError(code, text.value.decode(errors="replace")))
    return conf


def start(kind: int, conf: int) -> int:
    """An ``rd_kafka_t *``, which owns the configuration; raises `KafkaException`."""
    text = ctypes.create_string_buffer(_MOST_TEXT)
    client: int | None = new(kind, conf, text, _MOST_TEXT)
    if not client:
        code = last_error().code()
        conf_destroy(conf)
        raise KafkaException(KafkaError(code, text.value.decode(errors="replace")))
    return client


def fatal_error_of(client: int) -> KafkaError:
    """The fatal error that an ``_FATAL`` stands for."""
    text = ctypes.create_string_buffer(_MOST_TEXT)
    return KafkaError(fatal_error(client, text, _MOST_TEXT), text.value.decode(errors="replace"), fatal=True)
