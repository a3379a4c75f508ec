"""A worker process: copies each source topic to another one, with the accidents its plan asks for."""

# ruff: noqa: E402 -- the handler comes before imports that take a second
from workers.sigterm import leave_quietly_on_sigterm

leave_quietly_on_sigterm()

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import faust

from tests.workers.transport.plan import Plan
from workers.transport import (
    AssignedPartition,
    Guarantee,
    Limits,
    OutputBatch,
    Partition,
    Slice,
    Timeouts,
    TransportSettings,
    install,
)


class Diary:
    """Writes down what happens, for the test to read."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a", buffering=1)  # noqa: SIM115 -- open as long as the process

    def note(self, what: str, **details: object) -> None:
        self._file.write(json.dumps({"what": what, "at": time.time(), **details}) + "\n")


class DiaryHooks:
    """State hooks that note their calls and commit the plan's note."""

    def __init__(self, plan: Plan, diary: Diary) -> None:
        self._plan = plan
        self._diary = diary

    async def on_assign(self, assigned: Sequence[AssignedPartition]) -> Mapping[Partition, str]:
        for each in assigned:
            self._diary.note("assign", **asdict(each))
        try:
            await asyncio.sleep(self._plan.loading_seconds)
        except asyncio.CancelledError:
            self._diary.note("cancelled", partitions=[each.partition for each in assigned])
            raise
        self._diary.note("assigned", partitions=[each.partition for each in assigned])
        return {each.partition: self._plan.note for each in assigned}

    async def on_revoke(self, partitions: Sequence[Partition]) -> None:
        self._diary.note("revoke", partitions=list(partitions))

    async def on_lost(self, partitions: Sequence[Partition]) -> None:
        self._diary.note("lost", partitions=list(partitions))


def make_app(plan: Plan, diary: Diary) -> faust.App:
    app = faust.App(
        plan.group, broker=f"kafka://{plan.bootstrap}", web_enabled=False, topic_disable_leader=True,
        datadir=f"{plan.events}.d",
    )  # fmt: skip
    transport = install(app, _settings(plan), DiaryHooks(plan, diary))
    for source, target in plan.routes.items():
        for index in range(plan.agents):
            _add_agent(app, plan, diary, source=source, target=target, index=index)

    async def count(*_: object, **__: object) -> None:
        diary.note("stats", **asdict(transport.stats))

    app.on_before_shutdown.connect(count)
    return app


def _settings(plan: Plan) -> TransportSettings:
    exactly_once = plan.transactional_id is not None
    return TransportSettings(
        bootstrap=plan.bootstrap,
        group=plan.group,
        guarantee=Guarantee.EXACTLY_ONCE if exactly_once else Guarantee.AT_LEAST_ONCE,
        transactional_id=plan.transactional_id,
        slice_records=plan.slice_records,
        limits=Limits(open_slices=plan.open_slices),
        timeouts=Timeouts(
            drain=timedelta(seconds=plan.drain_seconds),
            stuck=timedelta(seconds=plan.stuck_seconds),
            crash=timedelta(seconds=plan.crash_seconds),
        ),
        kafka=plan.kafka,
    )


def _add_agent(app: faust.App, plan: Plan, diary: Diary, *, source: str, target: str, index: int) -> None:
    async def copy(slices: AsyncIterable[Slice]) -> None:
        async for each in slices:
            diary.note(
                "slice", agent=index, partition=each.partition, first=each.first_offset, next=each.next_offset
            )
            await _have_accidents(plan, each)
            each.done([_copied(plan, each, target)] if index == 0 else ())

    app.agent(app.topic(source), name=f"copy_{source}_{index}")(copy)


async def _have_accidents(plan: Plan, each: Slice) -> None:
    if plan.seconds_a_slice:
        await asyncio.sleep(plan.seconds_a_slice)
    if _holds(each, plan.raise_at):
        raise RuntimeError("this slice can't be worked on")
    if _holds(each, plan.hang_at):
        await asyncio.Event().wait()
    if _holds(each, plan.block_at):
        time.sleep(3600)  # noqa: ASYNC251 -- an agent that blocks the event loop is the accident


def _copied(plan: Plan, each: Slice, target: str) -> OutputBatch:
    values = each.values
    if _holds(each, plan.bloat_at):
        values = [b"x" * 900_000, *values[1:]]
    headers = each.headers if any(each.headers) else None
    return OutputBatch(
        topic=target, values=values, keys=each.keys, headers=headers, partition=each.partition.number
    )


def _holds(each: Slice, place: tuple[int, int] | None) -> bool:
    return (
        place is not None
        and each.partition.number == place[0]
        and each.first_offset <= place[1] < each.next_offset
    )


def main(text: str) -> None:
    plan = Plan.decode(text)
    diary = Diary(plan.events)
    worker: Any = faust.Worker(make_app(plan, diary), loglevel="info")
    diary.note("begin")
    worker.execute_from_commandline()


if __name__ == "__main__":
    main(sys.argv[1])
