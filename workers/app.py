"""The Faust app of a worker: agents, life cycle, web and command line are Faust's, the rest is ours.

``headrace worker PIPELINE`` runs it; so does ``HEADRACE_PIPELINE=PIPELINE faust -A workers.faust_app worker``,
and a file of your own that adds agents and timers::

    from workers.app import worker_app

    app = worker_app("flights")

    @app.timer(60)
    async def say_hello(): ...
"""

import asyncio
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import faust
from faust.web import Request, Response, View
from faust.web.base import BlueprintManager
from mode import Service
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from pipelines import catalog
from pipelines.pipeline import Pipeline
from workers.health import Checks, as_json
from workers.ports import free_port
from workers.settings import Settings, load_settings
from workers.telemetry import WorkerCollector
from workers.transport import install
from workers.transport.bridge import SliceBoot
from workers.worker import Worker

_REFRESH_SECONDS = 2.0


def worker_app(pipeline: Pipeline | str, settings: Settings | None = None) -> faust.App:
    """A Faust app that scores a pipeline.

    Args:
        pipeline: The declaration, or a reference to one as `pipelines.catalog.load` takes it.
        settings: By default those in force.
    """
    pipeline = catalog.load(pipeline) if isinstance(pipeline, str) else pipeline
    settings = settings or load_settings({})
    worker = Worker(pipeline, settings)
    app = faust.App(
        worker.group,
        broker=f"kafka://{settings.bootstrap}",
        autodiscover=False,
        datadir=Path(tempfile.gettempdir(), "headrace"),  # Faust makes it, for tables; ours stay empty
        topic_disable_leader=True,
        web_bind=settings.admin_host,
        web_port=settings.admin_port or free_port(),
        web_in_thread=False,
        stream_wait_empty=False,
    )
    worker.transport = install(app, worker.transport_settings(), worker.states)
    app.boot_strategy = _Boot(app, _Preparation(app, worker))
    _add_agent(app, worker)
    _add_pages(app, worker)
    app.headrace = worker
    return app


# Faust's decorators look up the file of every module that is loaded, a tenth of a second, for a scan that is off here:
# agent, pages and timer are added without, and Faust's own pages, of tables and a router that are off too, not at all.


def _add_agent(app: faust.App, worker: Worker) -> None:
    async def score(slices: Any) -> None:
        async for slice_ in slices:
            worker.scorer.score(slice_)

    async def on_error(agent: Any, error: BaseException) -> None:  # noqa: ARG001 - Faust's signature
        await app.consumer.on_task_error(error)

    topic = app.topic(worker.pipeline.source.topic)
    app.agents["score"] = app.conf.Agent(score, name="score", app=app, channel=topic, on_error=on_error)


def _add_pages(app: faust.App, worker: Worker) -> None:
    registry = CollectorRegistry()
    registry.register(WorkerCollector(worker))

    async def live(view: View, request: Request) -> Response:  # noqa: ARG001 - Faust's signature
        return _answer(view, worker.health.live())

    async def ready(view: View, request: Request) -> Response:  # noqa: ARG001
        return _answer(view, await asyncio.to_thread(worker.health.ready))

    async def metrics(view: View, request: Request) -> Response:  # noqa: ARG001
        return view.bytes(
            await asyncio.to_thread(generate_latest, registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app.web.blueprints = BlueprintManager()
    for handler in (live, ready, metrics):
        page = View.from_handler(handler)
        page.view_name, page.view_path = handler.__name__, f"/{handler.__name__}"
        app.web.add_view(page)


def _answer(view: View, checks: Checks) -> Response:
    is_ok = all(check.is_ok for check in checks.values())
    return view.json({"ok": is_ok, "checks": as_json(checks)}, status=200 if is_ok else 503)


class _Preparation(Service):  # type: ignore[misc]  # Faust comes without types
    """Starts before the consumer and ends after the drain: the model and its thread, and a look around at times."""

    def __init__(self, app: faust.App, worker: Worker) -> None:
        self._app, self._worker = app, worker
        super().__init__()

    async def on_start(self) -> None:
        """Check and load everything; nothing was read yet."""
        loop = asyncio.get_running_loop()

        def on_error(error: BaseException) -> None:
            loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._app.crash(error)))

        await asyncio.to_thread(self._worker.check)
        self._worker.start(on_error)

    @Service.task
    async def _write_checkpoints(self) -> None:
        await self._worker.write_checkpoints()

    @Service.timer(_REFRESH_SECONDS)
    async def look_around(self) -> None:
        """Keep lags and health fresh, whoever asks."""
        await asyncio.to_thread(self._worker.refresh_lags)
        await asyncio.to_thread(self._worker.health.ready)

    async def on_stop(self) -> None:
        """End the inference thread."""
        await asyncio.to_thread(self._worker.close)


class _Boot(SliceBoot):
    """Starts the preparation between the web server and the consumer."""

    def __init__(self, app: faust.App, preparation: _Preparation) -> None:
        super().__init__(app)
        self._preparation = preparation

    def kafka_consumer(self) -> Iterable[Service]:
        """The preparation, then the consumer."""
        return [self._preparation, *super().kafka_consumer()]
