import numpy as np
import pytest

from benchmarks.contender import AT_LEAST_ONCE, EXACTLY_ONCE, TWO_WORKERS
from benchmarks.predicted import Predicted, Stretch, WrongAnswers
from benchmarks.throughput import Sample, is_telling, measured


def stretch(sources: list[int], offsets: list[int] | None = None, repeated: int = 0) -> Stretch:
    at = np.arange(len(sources)) if offsets is None else np.array(offsets)
    return Stretch(at, np.array(sources), np.array(sources, np.float64), repeated)


def test_the_span_runs_from_the_warm_up_to_the_last_prediction() -> None:
    predicted = Predicted({0: stretch(list(range(100)))})
    samples = [
        Sample(at, (end,), cpu, 0.0, 2 * at)
        for at, end, cpu in (
            (0, 0, 9.0),
            (1, 4, 10.0),
            (2, 10, 11.0),
            (4, 60, 12.0),
            (5, 100, 13.0),
            (9, 100, 20.0),
        )
    ]
    run = measured(AT_LEAST_ONCE, samples, predicted, 100, 1)
    assert (run.events, run.seconds, run.events_per_second) == (90, 3, 30)
    assert run.cpu_us_per_event == pytest.approx(2e6 / 90)
    assert run.other_cores == pytest.approx((6 - 2) / 3)


def test_control_markers_are_not_counted() -> None:
    predicted = Predicted({0: stretch([0, 1, 2, 3], offsets=[0, 1, 3, 5])})
    assert [predicted.visible((end,)) for end in (2, 3, 4, 5, 6)] == [2, 2, 3, 3, 4]


def test_a_lost_event_is_found() -> None:
    predicted = Predicted({0: stretch([0, 1, 3])})
    with pytest.raises(WrongAnswers, match=r"3 payments of partition 0 have a prediction, of 4.* begin at 2"):
        predicted.check(AT_LEAST_ONCE, {0: np.arange(4)}, None, all_of=True)
    with pytest.raises(WrongAnswers, match="of 4"):
        predicted.check(AT_LEAST_ONCE, {0: np.arange(9)}, None, all_of=False)
    predicted.check(AT_LEAST_ONCE, {0: np.array([0, 1, 3, 8])}, None, all_of=False)


def test_a_prediction_for_a_chargeback_is_wrong() -> None:
    predicted = Predicted({0: stretch([0, 1, 2])})
    with pytest.raises(WrongAnswers, match="begin at 1"):
        predicted.check(AT_LEAST_ONCE, {0: np.array([0, 2])}, None, all_of=True)


def test_repeated_predictions_are_wrong_only_exactly_once() -> None:
    predicted = Predicted({0: stretch([1, 0], repeated=1)})
    predicted.check(AT_LEAST_ONCE, {0: np.arange(2)}, None, all_of=True)
    with pytest.raises(WrongAnswers, match="1 predictions came twice"):
        predicted.check(EXACTLY_ONCE, {0: np.arange(2)}, None, all_of=True)


def test_another_score_is_wrong() -> None:
    right = Predicted({0: stretch([0, 1, 2])})
    other = Predicted({0: Stretch(np.arange(2), np.arange(2), np.array([0.0, 1.1]), 0)})
    with pytest.raises(WrongAnswers, match="first at offset 1"):
        other.check(AT_LEAST_ONCE, {0: np.arange(3)}, right, all_of=False)


def test_the_span_of_several_processes_begins_when_each_has_predicted_something() -> None:
    predicted = Predicted({0: stretch(list(range(100)))})
    samples = [
        Sample(at, (end,), 10.0 + at, 0.0, 2 * at, all_predict)
        for at, end, all_predict in ((0, 0, False), (1, 20, False), (2, 40, True), (4, 100, True))
    ]
    run = measured(TWO_WORKERS, samples, predicted, 100, 1)
    assert (run.events, run.seconds) == (60, 2)
    assert is_telling(run, 240)
    assert not is_telling(run, 241)


def test_processes_of_which_one_was_done_before_the_other_began_tell_nothing() -> None:
    predicted = Predicted({0: stretch(list(range(100)))})
    samples = [Sample(at, (10 * at,), 0.0, 0.0, 0.0, False) for at in range(11)]
    run = measured(TWO_WORKERS, samples, predicted, 100, 1)
    assert not is_telling(run, 100)


def test_too_few_samples_are_no_measurement() -> None:
    predicted = Predicted({0: stretch(list(range(100)))})
    samples = [Sample(0, (0,), 0.0, 0.0, 0.0), Sample(1, (100,), 0.0, 0.0, 0.0)]
    with pytest.raises(WrongAnswers, match="too few samples"):
        measured(TWO_WORKERS, samples, predicted, 100, 1)
