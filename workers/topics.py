"""The topics of a pipeline: what they have to be like, whether they are, and making them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from features.errors import Misdeclared, Unavailable
from pipelines import catalog
from pipelines.pipeline import Pipeline
from workers.clients import make_admin
from workers.transport.clients import for_producer

_PATIENCE = 10.0
_UNKNOWN_QUESTION = {KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}  # noqa: SLF001 - librdkafka's own code
DEAD_LETTER_HEADROOM = 64 << 10
"""Bytes by which a dead letter may be larger than its record."""
_DEFAULT_MESSAGE_BYTES = 1_048_588
_BATCH_BYTES = 1_000_000
"""Of librdkafka's batches, unless ``batch.size`` says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic as the pipeline needs it.

    Args:
        name: Its name.
        role: ``source``, ``predictions`` or ``dead letters``.
        partitions: How many partitions it is created with.
        config: How it is created.
    """

    name: str
    role: str
    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic as the brokers have it: partitions, and its configuration where they tell it."""

    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLimits:
    """Bytes of the largest batch that each sink takes, its ``max.message.bytes``."""

    predictions: int = _DEFAULT_MESSAGE_BYTES
    dead_letters: int = _DEFAULT_MESSAGE_BYTES


def topic_specs(pipeline: Pipeline, largest: int = _DEFAULT_MESSAGE_BYTES) -> tuple[TopicSpec, ...]:
    """The pipeline's topics; events of 2013 have to survive retention, so time is the log's.

    Args:
        pipeline: Whose.
        largest: Bytes of the largest batch that the source takes: a dead letter has to hold it.
    """
    source, ours = pipeline.source, {"message.timestamp.type": "LogAppendTime"}
    letters = {**ours, "max.message.bytes": str(largest + DEAD_LETTER_HEADROOM)}
    return (
        TopicSpec(name=source.topic, role="source", partitions=source.partitions, config=ours),
        TopicSpec(name=pipeline.predictions, role="predictions", partitions=source.partitions, config=ours),
        TopicSpec(
            name=pipeline.dead_letters, role="dead letters", partitions=source.partitions, config=letters
        ),
    )


class Topics:
    """Looks at topics and makes them.

    Args:
        clients: librdkafka settings, as every client gets them.
    """

    def __init__(self, clients: Mapping[str, str]) -> None:
        self._bootstrap = clients["bootstrap.servers"]
        self._batch_bytes = int(for_producer(clients).get("batch.size", _BATCH_BYTES))
        self._admin = make_admin(clients)

    def states(self) -> dict[str, int]:
        """Partitions of every topic; raises `Unavailable` if no broker answers."""
        try:
            topics = self._admin.list_topics(timeout=_PATIENCE).topics
        except KafkaException as error:
            raise Unavailable(
                f"No broker answers at {self._bootstrap} (--bootstrap): {error.args[0].str()}"
            ) from error
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def state(self, name: str) -> TopicState | None:
        """A topic, or ``None`` if it is not there."""
        partitions = self.states().get(name)
        return None if not partitions else TopicState(partitions=partitions, config=self._config(name))

    def identity(self, name: str) -> tuple[str, int] | None:
        """A topic's UUID, as hexadecimal, and its number of partitions; ``None`` of brokers before Kafka 2.8.

        Raises:
            Unavailable: They don't answer, or not this question.
        """
        try:
            (future,) = self._admin.describe_topics(
                TopicCollection([name]), request_timeout=_PATIENCE
            ).values()
            found = future.result(_PATIENCE)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN_QUESTION:
                return None
            raise Unavailable(f"Topic {name!r} can't be described: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise Unavailable(f"Topic {name!r} can't be described: no broker answers") from error
        halves = found.topic_id.get_most_significant_bits(), found.topic_id.get_least_significant_bits()
        return "".join(f"{half % 2**64:016x}" for half in halves), len(found.partitions)

    def create(self, specs: Iterator[TopicSpec] | tuple[TopicSpec, ...]) -> list[str]:
        """Make the topics that are not there; returns their names."""
        there = self.states()
        missing = [spec for spec in specs if spec.name not in there]
        wanted = [
            NewTopic(s.name, num_partitions=s.partitions, replication_factor=-1, config=dict(s.config))
            for s in missing
        ]
        for name, future in (
            self._admin.create_topics(wanted, operation_timeout=_PATIENCE) if wanted else {}
        ).items():
            try:
                future.result(_PATIENCE)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise Unavailable(f"Topic {name!r} can't be created: {error.args[0].str()}") from error
        return [spec.name for spec in missing]

    def check(self, pipeline: Pipeline) -> None:
        """Raise `Misdeclared`, naming topic and fix, unless all topics are there and fit."""
        specs = topic_specs(pipeline)
        states = {spec.name: self.state(spec.name) for spec in specs}
        for spec in specs:
            if states[spec.name] is None:
                raise Misdeclared(
                    f"Topic {spec.name!r} ({spec.role} of {pipeline.name!r}) is not there; "
                    f"create it with: headrace topics {catalog.reference(pipeline)} --create"
                )
        source, predictions = (states[spec.name] for spec in specs[:2])
        assert source is not None
        assert predictions is not None
        if predictions.partitions != source.partitions:
            raise Misdeclared(
                f"Topic {pipeline.predictions!r} has {predictions.partitions} partitions and its source {source.partitions}; "
                "predictions go to the partition of their event: give both the same number"
            )
        for sink in (pipeline.predictions, pipeline.dead_letters):
            self._check_sink(sink, states[sink], pipeline)
        if "compact" in source.config.get("cleanup.policy", ""):
            raise Misdeclared(
                f"Source topic {pipeline.source.topic!r} is compacted (cleanup.policy={source.config['cleanup.policy']}): "
                "older events of a key vanish, and state is the fold of all of them; use cleanup.policy=delete"
            )

    def _check_sink(self, name: str, state: TopicState | None, pipeline: Pipeline) -> None:
        """Raise `Misdeclared` if the brokers would refuse what the worker produces, or forget dead letters."""
        if state is None:
            return
        if (largest := _largest(state)) < self._batch_bytes:
            raise Misdeclared(
                f"Topic {name!r} takes batches of at most {largest} bytes (max.message.bytes) and the producer makes them up to "
                f"{self._batch_bytes}: give the topic max.message.bytes={_DEFAULT_MESSAGE_BYTES}, or the worker "
                f"--kafka producer.batch.size={largest}"
            )
        if name == pipeline.dead_letters and "compact" in state.config.get("cleanup.policy", ""):
            raise Misdeclared(
                f"Topic {name!r} is compacted (cleanup.policy={state.config['cleanup.policy']}): of the dead letters of a key only "
                "the newest would stay; use cleanup.policy=delete"
            )

    def largest(self, name: str) -> int:
        """Bytes of the largest batch that a topic takes; Kafka's default where it is not there or the broker does not tell."""
        return _largest(self.state(name))

    def limits(self, pipeline: Pipeline) -> SinkLimits:
        """What the pipeline's sinks take."""
        return SinkLimits(
            predictions=self.largest(pipeline.predictions), dead_letters=self.largest(pipeline.dead_letters)
        )

    def misfits(self, pipeline: Pipeline) -> Iterator[str]:
        """What can be lived with: other partitions than declared, dead letters that don't hold the largest record."""
        source = pipeline.source
        there = self.states().get(source.topic)
        if there is not None and there != source.partitions:
            yield (
                f"{source.topic} has {there} partitions and Source.partitions is {source.partitions}: "
                f"set partitions={there}, else rows replayed from files are of other partitions than the stream's"
            )
        needed, has = self.largest(source.topic) + DEAD_LETTER_HEADROOM, self.largest(pipeline.dead_letters)
        if has < needed:
            yield (
                f"{pipeline.dead_letters} takes {has} bytes (max.message.bytes): the largest records of {source.topic} would be cut "
                f"in their dead letters; give it {needed}"
            )

    def _config(self, name: str) -> dict[str, str]:
        """The topic's configuration, empty where the broker does not tell."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        try:
            entries = self._admin.describe_configs([resource], request_timeout=_PATIENCE)[resource].result(
                _PATIENCE
            )
        except KafkaException:  # not every broker lets itself be asked
            return {}
        return {entry.name: entry.value for entry in entries.values() if entry.value is not None}


def _largest(state: TopicState | None) -> int:
    return (
        _DEFAULT_MESSAGE_BYTES
        if state is None
        else int(state.config.get("max.message.bytes", _DEFAULT_MESSAGE_BYTES))
    )
