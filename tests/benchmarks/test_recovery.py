import pytest

from benchmarks.events import made_up
from benchmarks.recovery import Recovered, lines, measure_replay, measure_restore
from pipelines.card_fraud import pipeline
from workers.brokers import KafkaBroker
from workers.publisher import FlatOut, Publisher
from workers.topics import Topics, topic_specs


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_broker")
def test_a_state_is_saved_and_loaded_and_a_topic_replayed_beside_a_bare_loop() -> None:
    restored = measure_restore(2000)
    assert 1800 < restored.keys <= 2000
    assert 100 < restored.size / restored.keys < 1000
    with KafkaBroker() as broker:
        clients = {"bootstrap.servers": broker.bootstrap}
        Topics(clients).create(topic_specs(pipeline))
        Publisher(clients, pipeline.source.topic).publish([made_up(3000)], FlatOut())
        replay = measure_replay(pipeline, clients, repetitions=2)
    assert len(replay.bare_seconds) == len(replay.replay_seconds) == 2
    assert replay.records == 3000
    assert len(lines(Recovered(restored=restored, replay=replay))) == 2
    assert len(lines(Recovered(restored=restored, replay=None))) == 1
