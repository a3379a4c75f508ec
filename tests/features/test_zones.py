from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Misdeclared
from features.expressions import TIME_PARTS
from features.kernels.prepare import time_part
from features.zones import zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(
    moment=st.datetimes(datetime(1900, 1, 2), datetime(2099, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001
    name=st.sampled_from(
        ["America/New_York", "Asia/Kathmandu", "Europe/Dublin", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]
    ),
)
def test_local_time_and_its_parts_are_zoneinfos(moment: datetime, name: str) -> None:
    local = moment.astimezone(ZoneInfo(name))
    millis = zone(name).local(np.array([(moment - EPOCH) // timedelta(milliseconds=1)]))
    found = [int(time_part(part, int(millis[0]))) for part in range(len(TIME_PARTS))]
    assert found == [
        local.hour, local.minute, local.hour * 60 + local.minute, local.weekday(), local.day, local.timetuple().tm_yday, local.month,
    ]  # fmt: skip


def test_clocks_change_at_the_second() -> None:
    new_york = zone("America/New_York")
    for moment in (datetime(2013, 3, 10, 7, tzinfo=UTC), datetime(2013, 11, 3, 6, tzinfo=UTC)):
        at = (moment - EPOCH) // timedelta(milliseconds=1)
        before, after = new_york.local(np.array([at - 1, at]))
        assert abs(after - before - 1) == 3_600_000


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(Misdeclared, match="'America/Newyork' is unknown; use an IANA name"):
        zone("America/Newyork")
