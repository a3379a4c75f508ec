"""What an error of the Kafka client means for us."""

from confluent_kafka import KafkaError

_REJOINING = frozenset({
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
})  # fmt: skip
_TRANSIENT = frozenset({
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 -- librdkafka's own codes begin with an underscore
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._WAIT_COORD,  # noqa: SLF001
    KafkaError._DESTROY_BROKER,  # noqa: SLF001
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,  # also a topic whose leader is being elected
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.KAFKA_STORAGE_ERROR,
})  # fmt: skip
_HOPELESS = frozenset({
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.POLICY_VIOLATION,
    KafkaError.OFFSET_METADATA_TOO_LARGE,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._FENCED,  # noqa: SLF001
    KafkaError._FATAL,  # noqa: SLF001
})  # fmt: skip


_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001


def is_purged(error: KafkaError) -> bool:
    """True for a record that an abort took back."""
    return error.code() in _PURGED


def is_rejoining(error: KafkaError) -> bool:
    """True when the group is changing generations: the same commit may pass in the next one."""
    return error.code() in _REJOINING


def is_transient(error: KafkaError) -> bool:
    """True when the brokers or the way to them are at fault, and the client goes on trying by itself."""
    return not error.fatal() and (error.retriable() or error.code() in _TRANSIENT)


def is_hopeless(error: KafkaError) -> bool:
    """True when trying the same again can't help."""
    return error.fatal() or error.code() in _HOPELESS
