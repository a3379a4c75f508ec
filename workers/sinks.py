"""Sinks belong to one pipeline: a topic that another one writes to is refused."""

import msgspec

from features.errors import Misdeclared
from pipelines.pipeline import Pipeline
from workers.log import LogReader

_LOOK_BACK = 10
"""Offsets at the end of each partition that are looked at; the last ones may be control markers."""


class _Owned(msgspec.Struct):
    pipeline: str


def check_sinks(pipeline: Pipeline, reader: LogReader) -> None:
    """Raise `Misdeclared` if the newest predictions in the topic are another pipeline's.

    Args:
        pipeline: The pipeline that is to write.
        reader: Of its predictions topic.
    """
    marks = reader.watermarks()
    ends = {
        number: (max(low, high - _LOOK_BACK), None) for number, (low, high) in marks.items() if high > low
    }
    for _, records in reader.read(ends):
        for value in records.values:
            owner = _owner(value)
            if owner != pipeline.name:
                what = (
                    "records that are no predictions"
                    if owner is None
                    else f"predictions of pipeline {owner!r}"
                )
                raise Misdeclared(
                    f"Topic {pipeline.predictions!r} holds {what}, and pipeline {pipeline.name!r} is to write there; "
                    "give it a topic of its own with predictions="
                )


def _owner(value: bytes | None) -> str | None:
    try:
        return msgspec.json.decode(value or b"", type=_Owned).pipeline
    except msgspec.DecodeError:
        return None
