"""Training of a pipeline: recorded events to a registered model version."""

from datetime import datetime

import pyarrow as pa

from features.errors import Misdeclared
from models.manifest import Stamp
from models.registry import ModelRef, Registry
from models.training.plan import Progress
from pipelines.pipeline import Pipeline
from pipelines.replay import replay


def train_pipeline(  # noqa: PLR0913 - what to do, with what, and what to say of it
    pipeline: Pipeline,
    table: pa.Table,
    registry: Registry,
    *,
    created: datetime,
    revision: str | None = None,
    progress: Progress = lambda _what, _done, _total: None,
) -> ModelRef:
    """Replay recorded events, train as the pipeline declares, and register the model.

    Args:
        pipeline: With ``training=`` and ``labels=``.
        table: Recorded events, raw or typed (see `features.archive`), or those of ``Pipeline.example``.
        registry: Where the model goes.
        created: Now, UTC.
        revision: Of the code, for the lineage.
        progress: Told of ``replay``, ``model`` and ``baseline``, how much is done, and of how much.

    Returns:
        The version; the one that it has already, if equal training gave an equal model.

    Raises:
        Misdeclared: There is no plan, torch is not installed, or the events do not fit the plan.
        Unavailable: The registry can't be reached.
    """
    if pipeline.training is None:
        raise Misdeclared(
            f"Pipeline {pipeline.name!r} declares no training; give it training=TrainingPlan(...), or register a model "
            "that was made elsewhere"
        )
    try:
        from models.training.train import train  # noqa: PLC0415 - torch is an extra
    except ImportError as error:
        raise Misdeclared(f'Training needs {error.name}; pip install "headrace[cpu,train]"') from error
    folded = 0

    def count(events: int) -> None:
        nonlocal folded
        folded += events
        progress("replay", folded, len(table))

    trained = train(
        replay(pipeline, table, count),
        pipeline.engine,
        pipeline.training,
        Stamp(name=pipeline.model, created=created, revision=revision),
        progress,
    )
    return registry.register(trained.model, trained.manifest)
