"""Is this card payment fraud? Asked for every payment, with what its card did in the last day.

Two kinds of event share one topic: *payment*, and hours to days later, for those that were fraud, *chargeback*.
Payments are folded and scored; a payment without a chargeback within four days is taken to be good.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from features.expressions import col
from features.featureset import FeatureSet, over
from features.kinds import count, mean, raw, seconds_since_last, sum_, time_part
from features.schema import EventTime, Field, Schema
from models.labels import Labels
from models.training.plan import TrainingPlan
from pipelines.example import MadeUp
from pipelines.pipeline import Pipeline, Source

WINDOWS = (timedelta(minutes=10), timedelta(hours=1), timedelta(hours=24))
DAY = 86_400.0

schema = Schema(
    fields=[
        Field(name="kind", type=str),
        Field(name="payment_id", type=str),
        Field(name="card", type=str),
        Field(name="ts", type=int),
        Field(name="amount", type=float, optional=True),
        Field(name="merchant", type=str, optional=True),
        Field(name="category", type=str, optional=True),
        Field(name="device", type=str, optional=True),
        Field(name="country", type=str, optional=True),
        Field(name="online", type=bool, optional=True),
    ],
    key="card",
    time=EventTime(field="ts", unit="ms", max_late=timedelta(minutes=1)),
)

is_payment = col("kind") == "payment"
is_chargeback = col("kind") == "chargeback"

payment = FeatureSet(features={"amount": raw("amount"), "hour": time_part("hour", "UTC")})

by_card = FeatureSet(
    key="card",
    features={
        **over(
            WINDOWS,
            count=count(where=is_payment),
            sum=sum_("amount"),
            mean=mean("amount", missing=0.0),
        ),
        "since_last": seconds_since_last(where=is_payment, missing=DAY),
    },
)


def example_events(events: int, seed: int) -> Iterator[pa.Table]:
    """Payments of 20,000 cards, about four a day of each, with rings of fraudsters."""
    from pipelines.datasets import card_payments_json  # noqa: PLC0415 - workers never make any

    return card_payments_json.records(events, seed)


pipeline = Pipeline(
    name="card_fraud",
    source=Source(topic="payments", schema=schema, partitions=4),
    features=[payment, by_card],
    score_when=is_payment,
    model="card_fraud",
    labels=Labels(
        key="payment_id",
        when=is_chargeback,
        value=is_chargeback,
        horizon=timedelta(days=4),
        without="negative",
    ),
    training=TrainingPlan(
        train_until=datetime(2020, 1, 9, tzinfo=UTC),
        choose_until=datetime(2020, 1, 11, tzinfo=UTC),
        output="fraud",
    ),
    example=MadeUp(make=example_events, events=1_500_000, seed=7),
)
