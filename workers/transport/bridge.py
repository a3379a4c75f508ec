"""The bridge to Faust: one Faust event per slice.

Of Faust are used: agents, life cycle, services, tasks and timers, command line, web, logging. Its fetcher, acks,
commits, tables, leader, assignor, replies and producer are off; what belongs to them raises NotImplementedError.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from faust.app.base import App, BootStrategy
from faust.sensors import Sensor
from faust.transport.base import Transport
from faust.transport.conductor import Conductor
from faust.types.transports import ConsumerT
from faust.types.tuples import TP, ConsumerMessage
from mode import Service
from mode.utils.futures import notify

from features.errors import Misdeclared
from workers.transport.assignments import Delivered
from workers.transport.hooks import StateHooks, Stateless
from workers.transport.intake import Intake
from workers.transport.outputs import OutputBatch
from workers.transport.progress import Span
from workers.transport.settings import TransportSettings
from workers.transport.slices import Records, Slice
from workers.transport.stats import TransportStats, TransportStatus


def install(app: App, settings: TransportSettings, state_hooks: StateHooks | None = None) -> "SliceTransport":
    """Let a Faust app read and write through this transport; call it before the first topic or agent.

    Args:
        app: The app; its agents receive :class:`~workers.transport.slices.Slice` objects.
        settings: The group and the guarantee.
        state_hooks: The keyed state; None when there is none.

    Returns:
        The transport, for its counters and its status.
    """
    transport = SliceTransport(app.conf.broker_consumer, app)
    transport.intake = Intake(settings, state_hooks or Stateless())
    app.transport = app.producer_transport = transport
    app.sensors.add(SliceSensor(transport.intake.begin))
    app.boot_strategy = SliceBoot(app)
    return transport


class SliceMessage(ConsumerMessage):  # type: ignore[misc]  # Faust comes without types
    """What Faust's streams look at: one per slice."""

    __slots__ = ("span",)

    def __init__(self, records: Records, span: Span) -> None:
        self.span = span
        partition = TP(*span.partition)
        super().__init__(
            *partition, span.first, 0.0, 0, (), None, records, None,
            serialized_key_size=0, serialized_value_size=span.size, tp=partition,
        )  # fmt: skip

    @property
    def generation_id(self) -> int:
        """Not the app's, which is 0, once the span is dropped: streams then skip it."""
        return -1 if self.span.is_dropped else 0

    @generation_id.setter
    def generation_id(self, _: int | None) -> None:
        """Set by the constructor; it follows from the span."""


class SliceSensor(Sensor):  # type: ignore[misc]  # Faust comes without types
    """Hears from Faust's streams which slice an agent takes up.

    Args:
        begin: Told so.
    """

    def __init__(self, begin: Callable[[Span], None], **options: Any) -> None:
        super().__init__(**options)
        self._begin = begin

    def on_stream_event_in(self, tp: TP, offset: int, stream: Any, event: Any) -> None:  # noqa: ARG002
        """A stream hands an event to its agent."""
        self._begin(event.message.span)


class FaustAgents:
    """Puts slices into the queues of the agents of their topics, an event to each agent.

    Args:
        app: The app.
        channels: The queues' owners per topic.
        loop: The loop the agents run on.
        finish: Told when an agent is done with a slice.
    """

    def __init__(
        self,
        app: App,
        channels: Mapping[str, Sequence[Any]],
        loop: asyncio.AbstractEventLoop,
        finish: Callable[[Span, Sequence[OutputBatch]], None],
    ) -> None:
        self._app = app
        self._channels = channels
        self._loop = loop
        self._finish = finish

    def shares(self, topic: str) -> int:
        """How many agents get each slice of a topic."""
        return len(self._channels[topic])

    def deliver(self, delivered: Delivered) -> None:
        """From the poller's thread."""
        self._loop.call_soon_threadsafe(self._put, delivered)

    def _put(self, delivered: Delivered) -> None:
        for records, span in delivered:
            message = SliceMessage(records, span)
            for channel in self._channels[span.partition.topic]:
                event = self._app.create_event(None, Slice(records, span, self._finish), (), message)
                channel.queue.force_put_nowait(event)


def _refuses(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(
            f"Faust's {name} is off in this transport: outputs and offsets go through Slice.done()"
        )

    return refuse


_OFFERED = {"__init__", "subscribe", "on_task_error", "assignment", "close", "unacked"}
# Faust wants all of these to exist; none is called in a worker that uses what the module's docstring lists.
_NotOffered = type(
    "_NotOffered",
    (),
    {name: _refuses(f"consumer.{name}") for name in ConsumerT.__abstractmethods__ - _OFFERED},
)


class SliceConsumer(Service, _NotOffered, ConsumerT):  # type: ignore[misc,valid-type]  # Faust comes without types
    """What the rest of Faust sees of the consumer."""

    def __init__(self, transport: "SliceTransport", *_: object, **options: Any) -> None:
        self._unacked_messages: set[object] = set()  # streams read it while this class is being made
        self.transport = transport
        self.randomly_assigned_topics: set[str] = set()
        for seam in ("callback", "on_partitions_revoked", "on_partitions_assigned"):
            options.pop(seam, None)
        Service.__init__(self, **options)

    @property
    def unacked(self) -> set[object]:
        """Nothing: a slice is done when its agents say so."""
        return self._unacked_messages

    def assignment(self) -> set[TP]:
        """Empty: else a stopping app would clear the agents' queues before they are drained."""
        return set()

    def close(self) -> None:
        """Nothing: closing is part of the drain."""

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Start reading; called once, when every agent has started."""
        app, loop = self.transport.app, asyncio.get_running_loop()
        channels = {topic: tuple(app.topics._topic_name_index[topic]) for topic in topics}  # noqa: SLF001
        if not channels:
            raise Misdeclared("the app has no agent that reads a topic: add one")
        app.flow_control.resume()  # stock Faust does this when its tables have recovered
        app.on_before_shutdown.connect(self._drain)
        intake = self.transport.intake
        agents = FaustAgents(app, channels, loop, intake.finish)
        intake.start(channels, agents, loop, _crasher(app, loop))

    async def on_task_error(self, error: BaseException) -> None:
        """An agent raised: its slice is not skipped, the process ends."""
        self.transport.intake.abandon()
        await self.transport.app.crash(error)

    async def _drain(self, *_: object, **__: object) -> None:
        await self.transport.intake.stop()


def _crasher(app: App, loop: asyncio.AbstractEventLoop) -> Callable[[BaseException], None]:
    """Ends the app from any thread; the task is kept until it has run."""
    tasks: set[asyncio.Task[None]] = set()

    def begin(error: BaseException) -> None:
        task = loop.create_task(app.crash(error))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def crash(error: BaseException) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(begin, error)

    return crash


class SliceConductor(Conductor):  # type: ignore[misc]  # Faust comes without types
    """Subscribes once: the stock one waits for tables first, and subscribes again after 45 s."""

    @Service.task  # type: ignore[untyped-decorator]  # Faust comes without types
    async def _subscriber(self) -> None:
        await self.app.agents.wait_until_agents_started()
        topics = await self._update_indices()
        self._acking_topics.clear()  # a slice is done when its agents say so, not at the end of the loop's body
        await self.app.consumer.subscribe(topics)
        notify(self._subscription_done)


class SliceBoot(BootStrategy):  # type: ignore[misc]  # Faust comes without types
    """Starts no producer, leader, reply consumer or table."""

    enable_kafka_producer = False

    def kafka_consumer(self) -> Iterable[Service]:
        """The consumer alone."""
        return [self.app.consumer]

    def tables(self) -> Iterable[Service]:
        """None."""
        return []


class SliceTransport(Transport):  # type: ignore[misc]  # Faust comes without types
    """What Faust asks for consumers and producers; :func:`install` makes it."""

    Consumer = SliceConsumer
    Conductor = SliceConductor
    driver_version = "headrace"
    intake: Intake

    @property
    def stats(self) -> TransportStats:
        """The counters."""
        return self.intake.stats

    def status(self) -> TransportStatus:
        """How the transport is now."""
        return self.intake.status()

    def create_producer(self, **_: object) -> NoReturn:
        """Refused: what is sent beside Slice.done() would have no place in the guarantee."""
        _refuses("producer")()
