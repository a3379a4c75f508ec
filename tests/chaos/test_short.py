"""The campaign's short form; ``make chaos`` runs the long one."""

import pytest

from tests.chaos.campaign import Form, run

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("kafka_broker")
@pytest.mark.parametrize(
    ("delivery", "protocol", "seed"), [("at_least_once", "consumer", 3), ("exactly_once", "classic", 4)]
)
def test_nothing_is_lost_and_exactly_once_nothing_comes_twice(
    delivery: str, protocol: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = run(Form(rounds=4, seed=seed, delivery=delivery, protocol=protocol), print)
    assert outcome.broken == [], f"{outcome}\n{capsys.readouterr().out}"
    assert outcome.scored > 20_000
    assert outcome.least_in_flight >= 1_000
