"""The transport: slices in, outputs and offsets out, on librdkafka; a transport for Faust apps.

A minimal app::

    transport = install(app, TransportSettings(bootstrap="localhost:9092", group="copy"))

    @app.agent(app.topic("events"))
    async def copy(slices):
        async for each in slices:
            each.done([OutputBatch(topic="copies", keys=each.keys, values=each.values)])
"""

from workers.transport.bridge import SliceTransport, install
from workers.transport.hooks import StateHooks, Stateless
from workers.transport.outputs import OutputBatch
from workers.transport.partitions import AssignedPartition, Partition
from workers.transport.retries import Retries
from workers.transport.settings import Guarantee, Limits, Timeouts, TransportSettings
from workers.transport.slices import Slice
from workers.transport.stats import PartitionStatus, TransportStats, TransportStatus

__all__ = [
    "AssignedPartition",
    "Guarantee",
    "Limits",
    "OutputBatch",
    "Partition",
    "PartitionStatus",
    "Retries",
    "Slice",
    "SliceTransport",
    "StateHooks",
    "Stateless",
    "Timeouts",
    "TransportSettings",
    "TransportStats",
    "TransportStatus",
    "install",
]
