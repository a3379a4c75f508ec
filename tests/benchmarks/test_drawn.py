from pathlib import Path

import numpy as np
import pytest

from benchmarks.contender import AT_LEAST_ONCE, TWO_WORKERS, drawn_of
from benchmarks.contenders.task import Task
from benchmarks.drawn import FEATURES, described, drawn, reference
from benchmarks.events import made_up, scored_offsets
from benchmarks.model import register_fitted
from benchmarks.predicted import Predicted, Stretch, WrongAnswers, expected
from features.kinds.kind import all_kinds
from pipelines import catalog
from pipelines.replay import replay

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_twelve_features_are_drawn_of_different_kinds(seed: int) -> None:
    kinds = [description["kind"] for description in described(drawn(seed)).values()]
    assert len(kinds) == len(set(kinds)) == FEATURES


def test_every_kind_is_drawn_by_some_seed() -> None:
    drawn_kinds = {description["kind"] for seed in SEEDS for description in described(drawn(seed)).values()}
    assert drawn_kinds == {kind.__name__ for kind in all_kinds()}


def test_a_worker_loads_the_same_features_by_reference() -> None:
    fresh = drawn.__wrapped__(11)
    assert catalog.load(reference(11)).engine.column_fingerprint == fresh.engine.column_fingerprint


@pytest.mark.parametrize("seed", [0, 7, 8])
def test_no_value_is_missing_and_the_model_tells_events_apart(seed: int, tmp_path: Path) -> None:
    events, pipeline = made_up(6000, cards=200), drawn(seed)
    rows = replay(pipeline, events)
    for name in pipeline.engine.float_columns:
        assert np.isfinite(rows[name].to_numpy()).all(), name
    register_fitted(pipeline, tmp_path, rows)
    right = expected(pipeline, tmp_path, rows)
    right.check(drawn_of(seed), scored_offsets(events), right, all_of=True)
    scores = np.concatenate([stretch.scores for stretch in right.stretches.values()])
    assert scores.std() > 0.01


def test_scores_of_other_features_are_wrong(tmp_path: Path) -> None:
    events, pipeline = made_up(2000, cards=200), drawn(7)
    rows = replay(pipeline, events)
    register_fitted(pipeline, tmp_path, rows)
    right = expected(pipeline, tmp_path, rows)
    wrong = Predicted(
        {
            number: Stretch(each.offsets, each.sources, each.scores[::-1], 0)
            for number, each in right.stretches.items()
        }
    )
    with pytest.raises(WrongAnswers, match="differ from the right ones"):
        wrong.check(drawn_of(7), scored_offsets(events), right, all_of=True)


def test_a_contender_is_told_which_features() -> None:
    task = Task(bootstrap="b", group="g", source="s", sink="t", registry="r", model="m", admin_port=1)
    assert reference(11) in drawn_of(11).command(task)


def test_each_of_two_workers_has_a_port_of_its_own_and_the_same_group() -> None:
    task = Task(bootstrap="b", group="g", source="s", sink="t", registry="r", model="m", admin_port=1)
    tasks = TWO_WORKERS.tasks(task)
    assert tasks[0] == task
    assert len({each.admin_port for each in tasks}) == len(tasks) == 2
    assert {each.group for each in tasks} == {"g"}
    assert AT_LEAST_ONCE.tasks(task) == [task]
