"""Sinks belong to one pipeline: a topic that another one writes to is refused."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from confluent_kafka import KafkaException

from features.errors import Misdeclared
from pipelines.pipeline import Pipeline
from workers.clients import Clients, make_admin
from workers.log import LogReader

_LOOK_BACK = 10
"""Offsets at the end of each partition that are looked at; the last ones may be control markers."""

_PATIENCE = 5.0
_MARK = "headrace"


class _Owned(msgspec.Struct):
    pipeline: str


def client_id(pipeline: Pipeline) -> str:
    """The Kafka client id of a pipeline's workers: it tells other workers, and the brokers' logs, who writes where."""
    return ":".join((_MARK, pipeline.name, *_sinks(pipeline)))


def check_sinks(pipeline: Pipeline, clients: Clients) -> None:
    """Raise `Misdeclared` if another pipeline writes to a sink, or the newest predictions are another one's.

    A worker of another pipeline is seen while it is in its group, where the brokers let its group be described.

    Args:
        pipeline: The pipeline that is to write.
        clients: librdkafka settings, as every client gets them.
    """
    _check_writers(pipeline, _members(clients))
    _check_newest(pipeline, LogReader(clients, pipeline.predictions))


def _sinks(pipeline: Pipeline) -> tuple[str, str]:
    return pipeline.predictions, pipeline.dead_letters


def _check_writers(pipeline: Pipeline, members: Iterable[tuple[str, str]]) -> None:
    for group, member in members:
        mark, *rest = member.split(":")
        if mark != _MARK or rest[:1] == [pipeline.name]:
            continue
        if taken := set(rest[1:]) & set(_sinks(pipeline)):
            raise Misdeclared(
                f"Topic {min(taken)!r} is written to by a worker of pipeline {rest[0]!r} (group {group!r}); give pipeline "
                f"{pipeline.name!r} a topic of its own with predictions= or dead_letters="
            )


def _members(clients: Clients) -> Iterator[tuple[str, str]]:
    """Group and client id of every member of every group that may be seen."""
    admin = make_admin(clients)
    try:
        found = admin.list_consumer_groups(request_timeout=_PATIENCE).result(_PATIENCE).valid
        groups = [each.group_id for each in found]
        described = admin.describe_consumer_groups(groups, request_timeout=_PATIENCE) if groups else {}
    except KafkaException:  # not every broker lets itself be asked
        return
    for group, future in described.items():
        try:
            members = future.result(_PATIENCE).members
        except KafkaException:
            continue
        for member in members:
            yield group, member.client_id


def _check_newest(pipeline: Pipeline, reader: LogReader) -> None:
    marks: Mapping[int, tuple[int, int]] = reader.watermarks()
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
