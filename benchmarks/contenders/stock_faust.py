"""Stock Faust: an agent on the default driver, an event at a time, as its documentation teaches.

Windows are in plain memory: a ``faust.Table`` would write a changelog record for every event and be slower.
"""

import logging
from pathlib import Path

import faust
import numpy as np
import onnxruntime as ort

from benchmarks.contenders.plain_windows import PlainWindows
from benchmarks.contenders.task import PIPELINE, Task


class Event(faust.Record, serializer="json"):  # type: ignore[call-arg,misc]  # Faust comes without types
    """A payment or a chargeback."""

    kind: str
    payment_id: str
    card: str
    ts: int
    amount: float | None = None
    merchant: str | None = None
    category: str | None = None
    device: str | None = None
    country: str | None = None
    online: bool | None = None


class Prediction(faust.Record, serializer="json", include_metadata=False):  # type: ignore[call-arg,misc]
    """What is published for it."""

    id: str
    key: str
    event_time: int
    pipeline: str
    model: str
    model_version: str
    outputs: dict[str, float]
    label_key: str | None
    source: dict[str, str | int]
    degraded: str | None


def make_app(task: Task) -> faust.App:
    """The app of one run."""
    app = faust.App(
        task.group,
        broker=f"kafka://{task.bootstrap}",
        web_enabled=False,
        topic_disable_leader=True,
        store="memory://",
        datadir=str(Path(task.model).with_name("faust")),
    )
    source = app.topic(task.source, value_type=Event, key_type=bytes)
    sink = app.topic(task.sink, value_type=Prediction, key_type=bytes)
    session = ort.InferenceSession(task.model, providers=["CPUExecutionProvider"])
    windows = PlainWindows()

    @app.agent(source)
    async def score(stream: faust.Stream[Event]) -> None:
        async for event in stream.events():
            payment, message = event.value, event.message
            row = windows.row(payment.card, payment.ts, payment.amount)
            if payment.kind != "payment":
                continue
            (scores,) = session.run(None, {"features": np.array([row], np.float32)})
            await sink.send(
                key=message.key,
                partition=message.partition,
                value=Prediction(
                    id=f"{task.source}:{message.partition}:{message.offset}:{PIPELINE}",
                    key=payment.card,
                    event_time=payment.ts,
                    pipeline=PIPELINE,
                    model=PIPELINE,
                    model_version="1",
                    outputs={"score": float(scores[0, 0])},
                    label_key=payment.payment_id,
                    source={"topic": task.source, "partition": message.partition, "offset": message.offset},
                    degraded=None,
                ),
            )

    return app


def main() -> None:
    """Run until SIGTERM."""
    app = make_app(Task.from_arguments())
    faust.Worker(app, loglevel=logging.WARNING, quiet=True).execute_from_commandline()


if __name__ == "__main__":
    main()
