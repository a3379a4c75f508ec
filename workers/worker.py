"""A score worker: what it is made of, how it starts and ends. `workers.app` puts it into a Faust app."""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from features.errors import HeadraceError
from models.labels import Labels
from models.loading import load_model
from models.manifest import Output
from models.model import Model
from models.registry import ModelRef, Registry
from pipelines.pipeline import Pipeline
from workers.checkpoints.store import CheckpointStore
from workers.health import Check, Health
from workers.inference import Inference
from workers.lag import LogEnds
from workers.log import LogReader, committed
from workers.predictions import LoggedFeatures, PredictionEncoder, PredictionForm
from workers.recovery import Means, Recovery
from workers.scorer import Scorer
from workers.settings import Settings
from workers.sinks import check_sinks, client_id
from workers.states import StateKeeper
from workers.topics import Topics
from workers.transport import (
    Guarantee,
    Limits,
    Partition,
    Retries,
    SliceTransport,
    Timeouts,
    TransportSettings,
    TransportStatus,
)

_log = logging.getLogger(__name__)

_MODEL_PATIENCE = 2.0
"""Seconds that the inference thread has for the deep check."""
_DRAIN_PATIENCE = 5.0


class Worker:
    """The parts of a score worker; constructing one touches nothing outside.

    Args:
        pipeline: What it scores.
        settings: Where, with what, and how.
        clock: Seconds, monotonic.

    Attributes:
        transport: Set by `workers.app` when the Faust app is made.
        model: Loaded by `check`.
        inference: Made by `start`.
    """

    transport: SliceTransport
    model: Model
    inference: Inference

    def __init__(
        self, pipeline: Pipeline, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pipeline, self.settings, self._clock = pipeline, settings, clock
        means = Means(
            pipeline=pipeline.name,
            engine=pipeline.engine,
            reader=self._reader,
            identify=lambda topic: Topics(settings.clients()).identity(topic),
            notes=self._notes,
            store=None if settings.checkpoints == "none" else CheckpointStore.at(settings.checkpoints),
            retries=Retries(deadline=settings.retry_for),
            clock=clock,
            cold_start=settings.cold_start,
            on_partitions_added=pipeline.source.on_partitions_added,
        )
        self.states = StateKeeper(Recovery(means), settings.checkpoint_interval, clock)
        self.scorer = Scorer(pipeline, self.states, clock)
        self.health = Health(self, clock)
        self._ends = LogEnds(settings.clients())
        self._failure: BaseException | None = None
        self._is_checked = self._is_started = False

    def transport_settings(self) -> TransportSettings:
        """The transport's part of the settings."""
        settings, group = self.settings, self.group
        exactly_once = settings.delivery == "exactly_once"
        return TransportSettings(
            bootstrap=settings.bootstrap,
            group=group,
            guarantee=Guarantee(settings.delivery),
            transactional_id=f"{group}.{settings.slot}" if exactly_once else None,
            slice_records=settings.slice_records,
            commit_interval=settings.commit_interval,
            limits=Limits(open_bytes=settings.max_open_bytes),
            timeouts=Timeouts(drain=settings.drain_timeout, stuck=settings.stuck_after),
            retries=Retries(deadline=settings.retry_for),
            kafka={"client.id": client_id(self.pipeline), **settings.kafka},
        )

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.settings.group or f"headrace.{self.pipeline.name}"

    def check(self) -> None:
        """Check everything that is declared against what is there, and load and warm the model.

        Raises:
            Misdeclared: Something does not agree; the message names it and the fix.
            Unavailable: The brokers or the registry do not answer.
        """
        if self._is_checked:
            return
        pipeline, settings = self.pipeline, self.settings
        ref = ModelRef.parse(settings.model or pipeline.model)
        self.model = load_model(Registry.at(settings.registry), ref, pipeline.engine, pipeline.batch)
        topics = Topics(settings.clients())
        topics.check(pipeline)
        for misfit in topics.misfits(pipeline):
            _log.warning("%s", misfit)
        self.scorer.limits = topics.limits(pipeline)
        with ThreadPoolExecutor() as aside:  # the model warms up while the brokers are asked
            sinks = aside.submit(check_sinks, pipeline, settings.clients())
            self.model.warm()
            sinks.result()
        self._is_checked = True

    def start(self, on_error: Callable[[BaseException], None]) -> None:
        """Start the inference thread; ``on_error`` is called in it if it fails."""
        pipeline = self.pipeline
        self.scorer.encoder = PredictionEncoder(_form(pipeline, self.model, self.settings))
        self.inference = Inference(
            self.model.predict,
            pipeline.batch,
            check=self.model.check_sample,
            finish=self.scorer.finish,
            on_error=self._failed(on_error),
            clock=self._clock,
        )
        self.scorer.submit = self.inference.submit
        self.inference.start()
        self._is_started = True
        _log.info(
            "%s scores with %s, columns %s", pipeline.name, self.model.ref, pipeline.engine.column_fingerprint
        )

    async def write_checkpoints(self) -> None:
        """Write checkpoints until cancelled."""
        await self.states.checkpointer.run(
            lambda: {each.partition: each.committed for each in self.status().partitions}
        )

    def close(self) -> None:
        """End the inference thread, after the drain."""
        if self._is_started:
            self.inference.stop(_DRAIN_PATIENCE)
            self.model.close()

    def status(self) -> TransportStatus:
        """The transport's."""
        return self.transport.status()

    def has_joined(self) -> bool:
        """Whether the group has given partitions, or none, since the start."""
        return self.transport.stats.rebalances > 0

    def refresh_lags(self) -> None:
        """Ask the brokers where the logs end; blocks."""
        self._ends.refresh([each.partition for each in self.status().partitions])

    def lags(self) -> Mapping[Partition, int | None]:
        """Offsets behind by partition, as of the last refresh; ``None`` is unknown."""
        return {
            each.partition: self._ends.lag(each.partition, each.committed)
            for each in self.status().partitions
        }

    def recovery(self) -> str:
        """How far the recovery of state is, for people."""
        return self.states.recovery.progress()

    def is_model_right(self) -> Check:
        """The deep check: a real inference with a known answer, in the thread that serves."""
        if not self._is_started:
            return Check(False, "the model is not loaded yet")
        try:
            self.inference.ask(self.model.check_sample, _MODEL_PATIENCE)
        except TimeoutError:
            return Check(False, f"the inference thread did not answer within {_MODEL_PATIENCE:.0f} s")
        except HeadraceError as error:
            return Check(False, str(error))
        return Check(True, f"{self.model.ref} gave its known answer")

    def failure(self) -> str | None:
        """Why the inference thread has ended, or ``None``."""
        return None if self._failure is None else f"{type(self._failure).__name__}: {self._failure}"

    def _failed(self, on_error: Callable[[BaseException], None]) -> Callable[[BaseException], None]:
        def failed(error: BaseException) -> None:
            self._failure = error
            on_error(error)

        return failed

    def _notes(self, topic: str) -> list[str]:
        return [metadata for _, metadata in committed(self.settings.clients(), self.group, topic).values()]

    def _reader(self, topic: str) -> LogReader:
        return LogReader(self.settings.clients(), topic)


def _form(pipeline: Pipeline, model: Model, settings: Settings) -> PredictionForm:
    labels: Labels | None = pipeline.labels
    return PredictionForm(
        pipeline=pipeline.name,
        topic=pipeline.source.topic,
        model=model.manifest.name,
        version=str(model.manifest.version),
        key=pipeline.source.schema.key,
        label_key=None if labels is None else labels.key,
        outputs={output.published: _width(output) for output in model.manifest.outputs},
        logged=LoggedFeatures.of(pipeline.engine, settings.log_features),
    )


def _width(output: Output) -> int:
    """Numbers in the list of an output, 0 for a single number."""
    rest = [size for size in output.shape[1:] if isinstance(size, int)]
    return 0 if output.column is not None or rest in ([], [1]) else rest[0]
