"""Progress against a model that keeps every span for ever and computes everything from scratch."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Commit, Partition
from workers.transport.progress import Progress, Span

PARTITIONS = [Partition("a", 0), Partition("a", 1), Partition("b", 0)]


@dataclass
class Kept:
    """What the model knows of a span."""

    span: Span
    shares: int
    is_open: bool = False
    is_begun: bool = False
    is_produced: bool = False
    is_durable: bool = False
    is_committed: bool = False


@dataclass
class Model:
    """All spans of one assignment, in order."""

    spans: list[Kept] = field(default_factory=list)
    position: int = 0
    note: str | None = None

    def done_prefix(self) -> list[Kept]:
        prefix = []
        for kept in self.spans:
            if kept.shares:
                break
            prefix.append(kept)
        return prefix


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.progress = Progress()
        self.models: dict[Partition, Model] = {}
        self.left: list[Span] = []
        self.now = 0.0
        self.is_abandoned = False

    def _all(self) -> list[Kept]:
        return [kept for model in self.models.values() for kept in model.spans]

    @initialize()
    def begin(self) -> None:
        self.assign(PARTITIONS[0], 5)

    @precondition(lambda self: not self.is_abandoned)
    @rule(partition=st.sampled_from(PARTITIONS), start=st.integers(0, 100))
    def assign(self, partition: Partition, start: int) -> None:
        if partition in self.models:
            with pytest.raises(ValueError, match="assigned already"):
                self.progress.assign(partition, start)
            return
        self.progress.assign(partition, start)
        self.models[partition] = Model(position=start)

    @rule(data=st.data(), note=st.text(max_size=2))
    def annotate(self, data: Any, note: str) -> None:
        if self.models:
            partition = data.draw(st.sampled_from(sorted(self.models)))
            self.progress.annotate(partition, note)
            self.models[partition].note = note

    @precondition(lambda self: self.models and not self.is_abandoned)
    @rule(data=st.data(), gap=st.integers(0, 3), length=st.integers(1, 5), shares=st.integers(1, 3))
    def add(self, data: Any, gap: int, length: int, shares: int) -> None:
        partition = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[partition]
        first = model.position + gap
        span = self.progress.add(
            partition, first=first, end=first + length, records=length, size=10 * length, shares=shares
        )
        model.spans.append(Kept(span, shares))
        model.position = first + length

    @precondition(lambda self: self.models and not self.is_abandoned)
    @rule(data=st.data(), offset=st.integers(0, 200))
    def skip(self, data: Any, offset: int) -> None:
        partition = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[partition]
        self.progress.skip_to(partition, offset)
        if offset > model.position:
            model.spans.append(Kept(self.progress.tracks[partition].spans[-1], 0))
            model.position = offset

    @rule(data=st.data())
    def open(self, data: Any) -> None:
        closed = [kept for kept in self._all() if kept.shares and not kept.is_open]
        if closed:
            kept = data.draw(st.sampled_from(closed))
            self.now += 1
            self.progress.open(kept.span, self.now)
            kept.is_open = True

    @rule(data=st.data())
    def begin_one(self, data: Any) -> None:
        if spans := [*(kept.span for kept in self._all()), *self.left]:
            span = data.draw(st.sampled_from(spans))
            self.progress.begin(span)
            for kept in self._all():
                kept.is_begun |= kept.span is span and kept.is_open

    @rule(data=st.data())
    def finish(self, data: Any) -> None:
        working = [kept for kept in self._all() if kept.shares and kept.is_open]
        if working:
            kept = data.draw(st.sampled_from(working))
            batch = OutputBatch(topic="out", values=[b"x"])
            self.progress.finish(kept.span, [batch], self.now)
            kept.shares -= 1
            kept.is_begun = True
            assert kept.span.outputs[-1] is batch

    @rule(data=st.data())
    def finish_what_has_left(self, data: Any) -> None:
        if self.left:
            span = data.draw(st.sampled_from(self.left))
            self.progress.open(span, self.now)
            self.progress.finish(span, [OutputBatch(topic="out", values=[b"x"])], self.now)
            assert span.outputs == []

    @rule()
    def produce(self) -> None:
        expected = []
        for model in self.models.values():
            expected += [
                kept for kept in model.done_prefix() if not kept.is_produced and not kept.is_committed
            ]
        assert self.progress.has_fresh() is bool(expected)
        assert self.progress.take_fresh() == [kept.span for kept in expected]
        for kept in expected:
            kept.is_produced = True

    @rule()
    def settle(self) -> None:
        settled = self.progress.settle()
        news = [kept for kept in self._all() if kept.is_produced and not kept.is_durable]
        assert settled == [kept.span for kept in news]
        for kept in news:
            kept.is_durable = True

    @rule()
    def rewind(self) -> None:
        self.progress.rewind()
        for kept in self._all():
            kept.is_produced = kept.is_durable

    @rule()
    def commit(self) -> None:
        self.progress.commit(self._commit_what_is_durable())

    @rule(offset=st.integers(0, 3))
    def a_commit_of_an_earlier_assignment_changes_nothing(self, offset: int) -> None:
        starts = {partition: track.committed for partition, track in self.progress.tracks.items()}
        self.progress.commit([Commit(p, min(start, offset), "") for p, start in starts.items()])
        self.progress.commit([Commit(Partition("never", 0), 7, "")])
        assert {p: track.committed for p, track in self.progress.tracks.items()} == starts

    def _commit_what_is_durable(self) -> list[Commit]:
        commits = self.progress.durable_commits()
        expected = {}
        for partition, model in self.models.items():
            durable = [kept for kept in model.spans if kept.is_durable and not kept.is_committed]
            if durable and model.note is not None:
                expected[partition] = Commit(partition, durable[-1].span.end, model.note)
                for kept in durable:
                    kept.is_committed = True
        assert {commit.partition: commit for commit in commits} == expected
        return commits

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def drop(self, data: Any) -> None:
        partition = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models.pop(partition)
        kept = [kept for kept in model.spans if not kept.is_committed]
        assert self.progress.drop([partition, Partition("never", 0)]) == len(kept)
        self.left += [each.span for each in kept]

    @precondition(lambda self: not self.is_abandoned)
    @rule()
    def abandon(self) -> None:
        self.progress.drop_unfinished()
        self.is_abandoned = True
        for model in self.models.values():
            prefix = model.done_prefix()
            self.left += [kept.span for kept in model.spans[len(prefix) :]]
            model.spans = prefix

    @invariant()
    def the_sums_are_those_of_the_model(self) -> None:
        working = [kept for kept in self._all() if kept.is_open and kept.shares]
        waiting = [kept for kept in self._all() if not kept.shares and not kept.is_committed]
        assert self.progress.open_slices == len(working)
        untouched = [kept.span for kept in working if not kept.is_begun]
        assert self.progress.waiting_slices == len(untouched)
        assert self.progress.waiting_records == sum(span.records for span in untouched)
        assert self.progress.open_bytes == sum(kept.span.size for kept in working)
        assert self.progress.uncommitted_records == sum(kept.span.records for kept in waiting)

    @invariant()
    def each_track_is_that_of_the_model(self) -> None:
        assert set(self.progress.tracks) == set(self.models)
        for partition, model in self.models.items():
            track = self.progress.tracks[partition]
            assert track.position == model.position
            assert track.unfinished == sum(bool(kept.shares) for kept in model.spans)
            ages = [
                self.now - opened for kept in model.spans if kept.shares and (opened := kept.span.opened_at)
            ]
            assert track.oldest_age(self.now) == (ages[0] if ages else None)
            is_settled = all(kept.is_durable for kept in model.spans if not kept.is_committed)
            assert self.progress.is_settled(partition) is is_settled

    @invariant()
    def a_commit_never_passes_what_is_not_durable(self) -> None:
        for partition, model in self.models.items():
            undone = [kept.span.first for kept in model.spans if not kept.is_durable]
            for commit in self.progress.durable_commits():
                assert commit.partition != partition or not undone or commit.offset <= min(undone)

    @invariant()
    def what_has_left_is_marked(self) -> None:
        assert all(span.is_dropped for span in self.left)


Machine.TestCase.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
TestProgress = Machine.TestCase


def test_a_span_that_does_not_follow_the_position_is_refused() -> None:
    progress = Progress()
    progress.assign(PARTITIONS[0], 10)
    with pytest.raises(ValueError, match="does not follow position 10"):
        progress.add(PARTITIONS[0], first=9, end=12, records=3, size=1, shares=1)


def test_a_span_can_not_be_finished_by_more_agents_than_have_it() -> None:
    progress = Progress()
    progress.assign(PARTITIONS[0], 0)
    span = progress.add(PARTITIONS[0], first=0, end=2, records=2, size=1, shares=1)
    progress.open(span, 0.0)
    progress.finish(span, (), 0.0)
    with pytest.raises(ValueError, match="finished by every agent before"):
        progress.finish(span, (), 0.0)


def test_a_partition_whose_state_is_loading_is_not_committed() -> None:
    progress = Progress()
    progress.assign(PARTITIONS[0], 0)
    progress.skip_to(PARTITIONS[0], 3)
    progress.take_fresh()
    progress.settle()
    assert progress.durable_commits() == []
    progress.annotate(PARTITIONS[0], "ready")
    assert progress.durable_commits() == [Commit(PARTITIONS[0], 3, "ready")]
