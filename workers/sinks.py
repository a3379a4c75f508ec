"""Sinks belong to one pipeline: a topic that another one writes to is refused."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
from confluent_kafka import KafkaException, Message

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
    """Raise `Misdeclared` if another pipeline writes to a sink, or the newest records in one are another one's.

    A worker of another pipeline is seen while it is in its group, where the brokers let its group be described.

    Args:
        pipeline: The pipeline that is to write.
        clients: librdkafka settings, as every client gets them.
    """
    predictions, letters = (LogReader(clients, topic) for topic in _sinks(pipeline))
    with ThreadPoolExecutor() as looks:  # each waits for the brokers
        found = (
            looks.submit(_check_writers, pipeline, _members(clients)),
            looks.submit(_check_newest, pipeline, predictions, _of_prediction),
            looks.submit(_check_newest, pipeline, letters, _of_dead_letter),
        )
    for look in found:
        look.result()


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


def _check_newest(pipeline: Pipeline, reader: LogReader, owner_of: Callable[[Message], str | None]) -> None:
    marks = reader.watermarks()
    ends = {
        number: (max(low, high - _LOOK_BACK), None) for number, (low, high) in marks.items() if high > low
    }
    for _, messages in reader.messages(ends):
        for owner in map(owner_of, messages):
            if owner != pipeline.name:
                what = "records of somebody else" if owner is None else f"records of pipeline {owner!r}"
                raise Misdeclared(
                    f"Topic {reader.topic!r} holds {what}, and pipeline {pipeline.name!r} is to write there; "
                    "give it a topic of its own with predictions= or dead_letters="
                )


def _of_prediction(message: Message) -> str | None:
    try:
        return msgspec.json.decode(message.value() or b"", type=_Owned).pipeline
    except msgspec.DecodeError:
        return None


def _of_dead_letter(message: Message) -> str | None:
    owner = dict(message.headers() or ()).get("headrace.pipeline")
    return None if owner is None else owner.decode(errors="replace")
