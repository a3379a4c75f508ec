import numpy as np

from benchmarks.events import payments
from benchmarks.payments import schema
from features.decode import RecordDecoder
from features.records import Records


def test_the_same_seed_makes_the_same_bytes() -> None:
    assert payments(500, seed=3).equals(payments(500, seed=3))
    assert not payments(500, seed=3).equals(payments(500, seed=4))


def test_every_event_is_well_formed_and_they_come_in_event_time_order() -> None:
    table = payments(2000)
    times = table["time"].to_numpy()
    decoded = RecordDecoder(schema).decode(
        Records(
            values=table["value"].to_pylist(),
            keys=table["key"].to_pylist(),
            offsets=np.arange(2000),
            timestamps=times,
        )
    )
    assert not decoded.malformed
    assert decoded.columns.times.tolist() == times.tolist()
    assert (np.diff(times) >= 0).all()
