"""What a contender is told, and the record that all of them read and write."""

import math
import sys
from typing import ClassVar

import msgspec

PIPELINE = "card_fraud"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a contender.

    Args:
        bootstrap: Of the brokers.
        group: The consumer group, a new one.
        source: Topic of the events.
        sink: Topic of the predictions.
        registry: Folder of the registry.
        model: Path of the model's file in it.
        admin_port: Where Headrace answers health and metrics.
    """

    bootstrap: str
    group: str
    source: str
    sink: str
    registry: str
    model: str
    admin_port: int

    @classmethod
    def from_arguments(cls) -> "Task":
        """The task that this process was started with."""
        return msgspec.json.decode(sys.argv[1], type=cls)

    def as_argument(self) -> str:
        """What `from_arguments` reads."""
        return msgspec.json.encode(self).decode()


class Payment(msgspec.Struct, gc=False, tag_field="kind", tag="payment"):
    """An event that is scored, all its fields typed and so checked, as Headrace does."""

    payment_id: str
    card: str
    ts: int
    amount: float
    merchant: str
    category: str
    device: str
    country: str
    online: bool


class Chargeback(msgspec.Struct, gc=False, tag_field="kind", tag="chargeback"):
    """An event that is not scored; it has no amount, by which a loop over columns can tell."""

    payment_id: str
    card: str
    ts: int
    amount: ClassVar[float] = math.nan


class Position(msgspec.Struct, gc=False):
    """Where an event stands."""

    topic: str
    partition: int
    offset: int


class Prediction(msgspec.Struct, gc=False):
    """Headrace's prediction without the digest of the row, which nobody writes by hand."""

    id: str
    key: str
    event_time: int
    pipeline: str
    model: str
    model_version: str
    outputs: dict[str, float]
    label_key: str | None
    source: Position
    degraded: str | None
