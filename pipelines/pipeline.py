"""A pipeline: one declaration that joins source, schema, feature sets, model, labels and sinks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from features.engine import Engine
from features.errors import Misdeclared
from features.expressions import Expression
from features.featureset import FeatureSet
from features.schema import Schema
from models.labels import Labels
from models.microbatch import BatchRule
from models.training.plan import TrainingPlan

_TOPIC_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The topic that events come from.

    Args:
        topic: Its name.
        schema: What its records look like.
        partitions: How many partitions ``headrace topics --create`` gives it and its sinks.
        on_partitions_added: What workers do when the topic has got more partitions, so that keys have moved to others
            and their state has not: ``stop``, or go on with moved keys ``cold``.
    """

    topic: str
    schema: Schema
    partitions: int = 3
    on_partitions_added: Literal["stop", "cold"] = "stop"

    def __post_init__(self) -> None:
        _check_topic("Source topic", self.topic)
        if self.on_partitions_added not in {"stop", "cold"}:
            raise Misdeclared(
                f"Source on_partitions_added is {self.on_partitions_added!r}; give 'stop' or 'cold'"
            )
        if self.partitions < 1:
            raise Misdeclared(f"Source partitions is {self.partitions}; at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRule:
    """When so many records can't be used that the worker had better stop.

    Args:
        max_ratio: Of the last ``window`` records, the share that may be dead letters.
        window: Over how many records the share is taken.
        max_run: How many dead letters may follow one another in a partition.
    """

    max_ratio: float = 0.5
    window: int = 1000
    max_run: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.max_ratio <= 1:
            raise Misdeclared(f"DeadLetterRule max_ratio is {self.max_ratio}; a share over 0, up to 1")
        if self.window < 1 or self.max_run < 1:
            raise Misdeclared("DeadLetterRule window and max_run are at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Everything a worker, replay and training need to know.

    Args:
        name: Names the consumer group, the sinks and the catalog entry.
        source: Where events come from.
        features: What is computed for each scored event; the columns follow one another.
        model: Name of the model in the registry.
        score_when: Which events are scored; all by default. Every event is folded.
        labels: Where outcomes come from.
        training: How ``headrace train`` makes the model; needs labels.
        batch: How rows meet in micro-batches.
        dead_letter_rule: When the worker stops because too much can't be used.
        predictions: Topic of the predictions; by default ``name.predictions``.
        dead_letters: Topic of the dead letters; by default ``name.dead-letters``.
        example: Gives example events as a table of `pipelines.example.RECORDS`, for ``headrace publish`` and
            ``headrace train`` without ``--from``: a function, or `pipelines.example.MadeUp`.
    """

    name: str
    source: Source
    features: Sequence[FeatureSet]
    model: str
    score_when: Expression | None = None
    labels: Labels | None = None
    training: TrainingPlan | None = None
    batch: BatchRule = field(default_factory=BatchRule)
    dead_letter_rule: DeadLetterRule = field(default_factory=DeadLetterRule)
    predictions: str = ""
    dead_letters: str = ""
    example: Callable[[], pa.Table] | None = None
    engine: Engine = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.features, FeatureSet) or not all(
            isinstance(declared, FeatureSet) for declared in self.features
        ):
            raise Misdeclared(
                f"Pipeline {self.name!r} has features={self.features!r}; write a list of FeatureSets"
            )
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "predictions", self.predictions or f"{self.name}.predictions")
        object.__setattr__(self, "dead_letters", self.dead_letters or f"{self.name}.dead-letters")
        for what in ("name", "model", "predictions", "dead_letters"):
            _check_topic(f"Pipeline {what}", getattr(self, what))
        topics = [self.source.topic, self.predictions, self.dead_letters]
        if len(set(topics)) != len(topics):
            raise Misdeclared(
                f"Pipeline {self.name!r} uses one topic twice among {', '.join(topics)}; sinks need topics of their own"
            )
        object.__setattr__(self, "engine", Engine(self.source.schema, self.features, self.score_when))
        if self.labels is not None:
            self.labels.check(self.source.schema)
        if self.training is not None and self.labels is None:
            raise Misdeclared(
                f"Pipeline {self.name!r} has training= and no labels=; say where outcomes come from"
            )


def _check_topic(what: str, name: str) -> None:
    if not name or len(name) > 249 or name in {".", ".."} or not set(name) <= _TOPIC_LETTERS:
        raise Misdeclared(f"{what} {name!r} can't name a Kafka topic; use letters, digits, '.', '_' and '-'")
