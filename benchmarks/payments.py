"""The benchmark pipeline: is this payment odd for its user? Declared as a user would declare it."""

from datetime import timedelta

from features.expressions import col
from features.featureset import FeatureSet, over
from features.kinds import count, mean, ratio, raw, seconds_since_last, sum_, time_part
from features.schema import EventTime, Field, Schema
from pipelines.pipeline import Pipeline, Source

PARTITIONS = 4
WINDOWS = (timedelta(minutes=10), timedelta(hours=1), timedelta(hours=24))

schema = Schema(
    fields=[
        Field(name="event_id", type=str),
        Field(name="user_id", type=str),
        Field(name="ts", type=int),
        Field(name="amount", type=float),
        Field(name="balance", type=float),
        Field(name="items", type=int),
        Field(name="is_online", type=bool),
        Field(name="merchant", type=str),
        Field(name="currency", type=str),
        Field(name="country", type=str),
    ],
    key="user_id",
    time=EventTime(field="ts", unit="ms"),
)

payment = FeatureSet(features={"amount": raw("amount"), "hour": time_part("hour", "UTC", of="ts")})

by_user = FeatureSet(
    key="user_id",
    features={
        **over(
            WINDOWS,
            count=count(),
            sum=sum_("amount"),
            mean=mean("amount", missing=0.0),
            online=ratio(col("is_online"), missing=0.0),
        ),
        "since_last": seconds_since_last(missing=-1.0),
    },
)

pipeline = Pipeline(
    name="payments",
    source=Source(topic="payments", schema=schema, partitions=PARTITIONS),
    features=[payment, by_user],
    model="payments",
)
