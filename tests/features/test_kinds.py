import dataclasses
import math

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from features.columns import Columns, Int64s
from features.engine import Engine, PartitionState
from features.kinds import count, mean, quantile
from features.kinds.count import Count
from features.kinds.kind import Kind, Taken, all_kinds
from features.rows import Rows
from features.saving import Snapshot
from features.windows import Window
from tests.features import laws
from tests.features.laws import Declared, Law, S

WINDOW = Window(10 * S, 5 * S)


@pytest.mark.parametrize("law", laws.all_laws(), ids=lambda law: law.__name__)
@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_every_kind_obeys_every_law(kind: type[Kind], law: Law) -> None:
    declarations = laws.declarations(kind)

    @settings(max_examples=10 if "memory" in law.__name__ else 25)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        law(data, data.draw(laws.settings_of(data.draw(declarations))))

    holds()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OffByOne(Count):
    """Says that it counts one more than it does."""

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - as its base
        return len(taken) + 1


class ForgetsBetweenSlices(PartitionState):
    def process(self, columns: Columns, heights: Int64s | None = None) -> Rows:
        return Engine.new_partition(self.engine).process(columns, heights)


class ForgetsOnRestore(PartitionState):
    def restore(self, snapshot: Snapshot) -> None:
        super().restore(dataclasses.replace(snapshot, parts=[]))


class SavesTooLate(PartitionState):
    """Events change what is still to be saved."""

    def process(self, columns: Columns, heights: Int64s | None = None) -> Rows:
        self._saving = None
        return super().process(columns, heights)


class CountsTheOthers(PartitionState):
    """Everything but the first key is one entity with it."""

    def process(self, columns: Columns, heights: Int64s | None = None) -> Rows:
        place, valid = columns.schema.place("card"), columns.valid.copy()
        words = columns.words.copy()
        words[place][valid[place] != 0] = words[place][valid[place] != 0][:1]
        return super().process(dataclasses.replace(columns, words=words, valid=valid), heights)


class Hoards(PartitionState):
    kept = 0

    def process(self, columns: Columns, heights: Int64s | None = None) -> Rows:
        self.kept += 64 * len(columns)
        return super().process(columns, heights)

    @property
    def size(self) -> int:
        return super().size + self.kept


@pytest.mark.parametrize(
    ("kind", "state", "law"),
    [
        (OffByOne(window=WINDOW), PartitionState, laws.law_rows_are_those_of_brute_force),
        (count(window=WINDOW), ForgetsBetweenSlices, laws.law_cuts_change_nothing),
        (quantile("amount", 0.5, window=WINDOW), ForgetsOnRestore, laws.law_a_restored_state_goes_on_alike),
        (count(window=WINDOW), SavesTooLate, laws.law_a_saving_is_of_its_beginning_and_changes_make_it_whole),
        (mean("amount", window=WINDOW), CountsTheOthers, laws.law_other_keys_change_nothing),
        (count(window=WINDOW), Hoards, laws.law_one_key_takes_bounded_memory),
        (count(window=WINDOW), Hoards, laws.law_keys_that_expire_give_memory_back),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_wrong_kind_breaks_its_law(kind: Kind, state: type[PartitionState], law: Law) -> None:
    @settings(max_examples=200, database=None, phases=(Phase.generate,), report_multiple_bugs=False)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        law(data, Declared(kind, state=state))

    with pytest.raises(AssertionError):
        holds()


def test_every_law_is_broken_by_a_wrong_kind() -> None:
    marks = [mark for mark in test_a_wrong_kind_breaks_its_law.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    assert {law for _, _, law in marks[0].args[1]} == set(laws.all_laws())


def test_a_kind_says_how_to_declare_it() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Odd(Count):
        oddness: int

    with pytest.raises(AssertionError, match="oddness: give it metadata"):
        laws.declarations(Odd)
    assert math.isnan(count(window=WINDOW).missing)
