"""``headrace dlq``: what it says of letters, and what a reader outside sees of those that it replays."""

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Message, Producer

from features.errors import HeadraceError, Malformed, Unavailable
from pipelines.pipeline import Pipeline
from tests.workers import anyones
from tests.workers.letters_there import fresh_pipeline, letter_batch, some, write_letters
from tests.workers.topics_seen import produce, read_all, wait_for
from workers.brokers import EmbeddedBroker, KafkaBroker
from workers.cli import headrace as cli
from workers.dead_letter_log import LetterFilter
from workers.dead_letter_replay import DeadLetterReplay, Replayed
from workers.processes import WorkerProcess, headrace

WRONG = Malformed("wrong_type", "Expected `int`, got `str` - at `$.machine.number`")
BROKEN = Malformed("invalid_json", "no JSON")
ALL = LetterFilter()


def run(*arguments: str | Path, code: int = 0) -> str:
    """What ``headrace`` says, in this process: the way through ``main`` is that of every command."""
    done = CliRunner().invoke(cli, [str(each) for each in arguments])
    said = done.output + (str(done.exception) if isinstance(done.exception, HeadraceError) else "")
    assert done.exit_code == code, (said, done.exception)
    return said


def at(bootstrap: str) -> tuple[str, str]:
    return "--bootstrap", bootstrap


def source_of(bootstrap: str, pipeline: Pipeline) -> list[Message]:
    return read_all(bootstrap, pipeline.source.topic, 2)


def numbers(messages: list[Message]) -> list[int]:
    return sorted(json.loads(message.value())["number"] for message in messages)


def replay_of(bootstrap: str, pipeline: Pipeline, at_once: int = 500) -> DeadLetterReplay:
    again = DeadLetterReplay({"bootstrap.servers": bootstrap}, pipeline, pipeline.source.topic, at_once)
    again.check()
    return again


def test_a_replayed_record_is_the_original_and_is_recognised(
    tmp_path: Path, broker: EmbeddedBroker | KafkaBroker
) -> None:
    path, pipeline = fresh_pipeline(tmp_path, broker.bootstrap)
    where = at(broker.bootstrap)
    records = some(10)
    records[10] = (None, b"\xff\x00", [])
    records[11] = (b"\xfe", None, [("headrace.reason", b"of somebody else"), ("empty", b"")])
    write_letters(
        broker.bootstrap,
        letter_batch(pipeline, {offset: records[offset] for offset in range(6)}, WRONG),
        letter_batch(
            pipeline, {offset: records[offset] for offset in range(6, 12)}, BROKEN, "infer", partition=1
        ),
    )
    assert "12 dead letters would be replayed" in run("dlq", path, "replay", "--dry-run", *where)
    assert not source_of(broker.bootstrap, pipeline)
    said = run("dlq", path, "replay", *where)
    assert f"12 dead letters replayed to {pipeline.source.topic}, 0 were before" in said
    seen = source_of(broker.bootstrap, pipeline)
    letters = {
        f"{message.topic()}:{message.partition()}:{message.offset()}": dict(message.headers())[
            "headrace.source"
        ]
        for message in read_all(broker.bootstrap, pipeline.dead_letters, 2)
    }
    found = {}
    for message in seen:
        *headers, (replayed, letter), (attempts, count) = message.headers()
        assert (replayed, attempts, count) == ("headrace.replayed", "headrace.attempts", b"1")
        topic, partition, offset = letters[letter.decode()].decode().split(":")
        assert (topic, int(partition)) == (pipeline.source.topic, message.partition())
        found[int(offset)] = (message.key(), message.value(), headers)
    assert found == records
    said = run("dlq", path, "replay", *where)
    assert "0 dead letters replayed" in said
    assert "12 were before" in said
    assert len(source_of(broker.bootstrap, pipeline)) == 12


def test_letters_are_chosen_and_go_to_another_topic(
    tmp_path: Path, broker: EmbeddedBroker | KafkaBroker
) -> None:
    path, pipeline = fresh_pipeline(tmp_path, broker.bootstrap)
    _, other = fresh_pipeline(tmp_path, broker.bootstrap)
    path = tmp_path / "first.py"
    path.write_text((tmp_path / "machines.py").read_text().replace(other.name, pipeline.name))
    target, where = other.source.topic, at(broker.bootstrap)
    write_letters(
        broker.bootstrap,
        letter_batch(pipeline, some(20), WRONG),
        letter_batch(pipeline, some(20, 20), BROKEN, "infer"),
    )

    def replay(*flags: str) -> list[int]:
        before = numbers(read_all(broker.bootstrap, target, 2))
        said = json.loads(run("dlq", path, "replay", "--to", target, "--json", *flags, *where))
        after = numbers(read_all(broker.bootstrap, target, 2))
        new = sorted((Counter(after) - Counter(before)).elements())
        assert (said["topic"], said["published"], len(before) + len(new)) == (target, len(new), len(after))
        return new

    assert replay("--reason", "wrong_type", "--key", "3") == [3, 10, 17]
    assert replay("--stage", "infer", "--key", "3", "--key", "4") == [24, 25, 31, 32, 38, 39]
    assert replay("--until", "1h") == []
    assert replay("--since", "2999-01-01") == []
    assert len(replay("--limit", "5")) == 5
    assert replay("--reason", "wrong_type", "--stage", "infer") == []
    rest = replay("--since", "1h")
    assert len(rest) == 40 - 9 - 5
    assert replay() == []
    assert numbers(read_all(broker.bootstrap, target, 2)) == list(range(40))
    assert source_of(broker.bootstrap, pipeline) == []
    keys = {message.key(): message.partition() for message in read_all(broker.bootstrap, target, 2)}
    produce(broker.bootstrap, pipeline.source.topic, *[(key, b"{}") for key in keys])
    assert keys == {message.key(): message.partition() for message in source_of(broker.bootstrap, pipeline)}
    listed = json.loads(run("dlq", path, "list", "--json", *where))
    assert {tuple(each["replayed_to"]) for each in listed["newest"]} == {(target,)}
    assert replay_of(broker.bootstrap, pipeline).run(ALL, None).published == 40  # the source is another topic


def test_letters_are_counted_listed_and_shown(tmp_path: Path, broker: EmbeddedBroker | KafkaBroker) -> None:
    path, pipeline = fresh_pipeline(tmp_path, broker.bootstrap)
    where = at(broker.bootstrap)
    assert f"no dead letters in {pipeline.dead_letters}" in run("dlq", path, "list", *where)
    write_letters(
        broker.bootstrap, letter_batch(pipeline, some(5), WRONG), letter_batch(pipeline, some(2, 5), BROKEN)
    )
    replay_of(broker.bootstrap, pipeline).run(LetterFilter(reasons=frozenset({"invalid_json"})), 1)
    write_letters(
        broker.bootstrap,
        letter_batch(pipeline, {8: (b"k", b"\x00\xffab", [("mine", b"\xff")])}, WRONG, "encode"),
    )
    found = json.loads(run("dlq", path, "list", "--json", "--limit", "3", *where))
    assert found["letters"] == 8
    assert [(each["stage"], each["reason"], each["letters"], each["replayed"]) for each in found["counts"]] == [
        ("decode", "invalid_json", 2, 1), ("decode", "wrong_type", 5, 0), ("encode", "wrong_type", 1, 0)
    ]  # fmt: skip
    newest = found["newest"]
    assert len(newest) == 3
    assert newest[0]["source"] == f"{pipeline.source.topic}:0:8"
    assert abs(newest[0]["time"] / 1000 - time.time()) < 600
    said = run("dlq", path, "list", "--reason", "wrong_type", *where)
    assert "invalid_json" not in said
    assert f"{pipeline.source.topic}:0:4" in said
    place = f"{newest[0]['partition']}:{newest[0]['offset']}"
    for position in (place, f"{pipeline.dead_letters}:{place}", f"{pipeline.source.topic}:0:8"):
        said = run("dlq", path, "show", position, *where)
        assert "Expected `int`, got `str`" in said
        assert "header mine  '\\\\xff'" in said
        assert "00 ff 61 62" in said
        assert "..ab" in said
    raw = subprocess.run(
        headrace("dlq", path.name, "show", place, "--raw", *where),
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert raw.stdout == b"\x00\xffab"
    shown = json.loads(run("dlq", path, "show", place, "--json", *where))
    assert (shown["value"], shown["key"], shown["headers"]) == (
        {"base64": "AP9hYg=="},
        "k",
        [["mine", {"base64": "/w=="}]],
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["list", "--reason", "wrong_typ"], 2, "--reason: there is no reason 'wrong_typ'; did you mean 'wrong_type'?"),
        (["replay", "--reason", "wrong_typ"], 2, "did you mean 'wrong_type'?"),
        (["list", "--stage", "fold"], 2, "--stage"),
        (["list", "--since", "yesterday"], 2, "'yesterday' is no time; write 2024-03-09T16:00:00Z"),
        (["list", "--since", "1h", "--until", "2h"], 2, "--since is not before --until"),
        (["replay", "--to", "nowhere"], 1, "--to 'nowhere': there is no such topic"),
        (["replay", "--to", "SINK"], 1, "is a sink of pipeline"),
        (["replay", "--limit", "0"], 2, "--limit"),
        (["show", "0"], 2, "neither PARTITION:OFFSET nor TOPIC:PARTITION:OFFSET"),
        (["show", "0:99"], 1, "There is no dead letter at 0:99"),
        (["show", "7:0"], 1, "has no partition 7"),
        (["show", "elsewhere:0:7"], 1, "is of the record elsewhere:0:7"),
        (["show", "0:0", "--raw", "--json"], 2, "leave one out"),
        ([], 2, "Usage"),
        (["drop"], 2, "drop"),
    ],
)  # fmt: skip
def test_what_can_not_be_meant_is_said(
    arguments: list[str], code: int, said: str, tmp_path: Path, embedded_broker: EmbeddedBroker
) -> None:
    path, pipeline = fresh_pipeline(tmp_path, embedded_broker.bootstrap)
    write_letters(embedded_broker.bootstrap, letter_batch(pipeline, some(3), WRONG))
    arguments = [pipeline.predictions if each == "SINK" else each for each in arguments]
    where = at(embedded_broker.bootstrap) if arguments and arguments != ["drop"] else ()
    assert said in run("dlq", path, *arguments, *where, code=code)
    assert not source_of(embedded_broker.bootstrap, pipeline)


class _Died(Exception):
    pass


@pytest.mark.kafka
def test_a_replay_that_dies_at_any_step_is_made_up_for(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    _, pipeline = fresh_pipeline(tmp_path, kafka_broker.bootstrap)
    write_letters(kafka_broker.bootstrap, letter_batch(pipeline, some(12), WRONG))
    died = 0
    for step in range(1, 13):

        def die(_: int, left: list[int] = [step % 5 + 1]) -> None:  # noqa: B006 - of this step
            left[0] -= 1
            if not left[0]:
                raise _Died

        try:
            replay_of(kafka_broker.bootstrap, pipeline, at_once=3).run(ALL, None, die)
        except _Died:
            died += 1
        seen = numbers(source_of(kafka_broker.bootstrap, pipeline))
        assert len(set(seen)) == len(seen)
    assert died > 3
    replay_of(kafka_broker.bootstrap, pipeline).run(ALL, None)
    assert numbers(source_of(kafka_broker.bootstrap, pipeline)) == list(range(12))


def _has_written(process: subprocess.Popen[bytes], bootstrap: str, pipeline: Pipeline, before: int) -> bool:
    """Whether a replay has written more, committed or not, or has ended."""
    written = len(read_all(bootstrap, pipeline.source.topic, 2, "read_uncommitted"))
    return written > before or process.poll() is not None


@pytest.mark.kafka
def test_a_replay_is_killed_and_every_record_is_there_once(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    path, pipeline = fresh_pipeline(tmp_path, kafka_broker.bootstrap)
    count = 6000
    write_letters(kafka_broker.bootstrap, letter_batch(pipeline, some(count), WRONG))
    command = headrace("dlq", path.name, "replay", *at(kafka_broker.bootstrap))
    kills = 0
    for _ in range(3):
        before = len(source_of(kafka_broker.bootstrap, pipeline))
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for(
            partial(_has_written, process, kafka_broker.bootstrap, pipeline, before),
            "something to be written",
        )
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    assert kills
    run("dlq", path, "replay", *at(kafka_broker.bootstrap))
    assert numbers(source_of(kafka_broker.bootstrap, pipeline)) == list(range(count))


@pytest.mark.kafka
def test_of_two_replays_at_once_the_first_gives_up(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    _, pipeline = fresh_pipeline(tmp_path, kafka_broker.bootstrap)
    write_letters(kafka_broker.bootstrap, letter_batch(pipeline, some(20), WRONG))
    second: list[Replayed] = []

    def another(_: int) -> None:
        if not second:
            second.append(replay_of(kafka_broker.bootstrap, pipeline).run(ALL, None))

    with pytest.raises(Unavailable, match=r"another replay .* took over"):
        replay_of(kafka_broker.bootstrap, pipeline, at_once=10).run(ALL, None, another)
    assert second[0].published == 20
    assert numbers(source_of(kafka_broker.bootstrap, pipeline)) == list(range(20))


@pytest.mark.kafka
def test_a_mark_behind_an_open_transaction_is_waited_for(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """A worker's transaction hides what stands behind it from readers of committed records."""
    _, pipeline = fresh_pipeline(tmp_path, kafka_broker.bootstrap)
    write_letters(kafka_broker.bootstrap, letter_batch(pipeline, some(5), WRONG))
    worker = Producer({"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": pipeline.name})
    worker.init_transactions(30)
    opened: list[int] = []

    def open_transaction(_: int) -> None:
        if not opened:
            worker.begin_transaction()
            for partition in (0, 1):
                worker.produce(pipeline.dead_letters, b"not yet", partition=partition)
            opened.append(worker.flush(30))

    first = replay_of(kafka_broker.bootstrap, pipeline).run(ALL, None, open_transaction)
    assert (first.published, opened) == (5, [0])
    found: list[Replayed] = []
    second = threading.Thread(
        target=lambda: found.append(replay_of(kafka_broker.bootstrap, pipeline).run(ALL, None))
    )
    second.start()
    second.join(2)
    assert second.is_alive()
    worker.commit_transaction(30)
    second.join(60)
    assert [(each.published, each.recognised) for each in found] == [(0, 5)]


@pytest.mark.kafka
def test_two_letters_of_one_record_are_one_and_those_of_another_topic_of_that_name_are_not(
    tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    _, pipeline = fresh_pipeline(tmp_path, kafka_broker.bootstrap)
    letter = letter_batch(pipeline, some(1), WRONG)
    write_letters(kafka_broker.bootstrap, letter, letter)
    assert replay_of(kafka_broker.bootstrap, pipeline).run(ALL, None) == Replayed(1, 1, [])
    record = (b"0", b'{"number": 77}', list[tuple[str, bytes]]())
    write_letters(kafka_broker.bootstrap, letter, letter_batch(pipeline, {0: record}, WRONG))
    assert replay_of(kafka_broker.bootstrap, pipeline).run(ALL, None) == Replayed(1, 3, [])
    assert numbers(source_of(kafka_broker.bootstrap, pipeline)) == [0, 77]


@pytest.mark.kafka
def test_a_record_that_the_target_does_not_take_is_left_and_the_others_are_published(
    tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    path, pipeline = fresh_pipeline(tmp_path, kafka_broker.bootstrap)
    records = some(40)
    for offset in (7, 30):
        records[offset] = (b"1", b"x" * 1_048_600, [])
    write_letters(kafka_broker.bootstrap, letter_batch(pipeline, records, BROKEN, largest=1_200_000))
    said = run("dlq", path, "replay", *at(kafka_broker.bootstrap), code=1)
    assert "38 dead letters replayed" in said
    assert said.count(f"was left: {pipeline.source.topic} does not take it: ") == 2
    assert numbers(source_of(kafka_broker.bootstrap, pipeline)) == sorted({*range(40)} - {7, 30})
    assert "38 were before" in run("dlq", path, "replay", *at(kafka_broker.bootstrap), code=1)


def test_a_cut_letter_is_replayed_whole_while_its_source_holds_it(
    tmp_path: Path, broker: EmbeddedBroker | KafkaBroker
) -> None:
    path, pipeline = fresh_pipeline(tmp_path, broker.bootstrap)
    where = at(broker.bootstrap)
    large = (b"1", b"{" + b" " * 999_000, [("mine", b"x")])
    produce(broker.bootstrap, pipeline.source.topic, large[:2], headers=large[2])
    (original,) = source_of(broker.bootstrap, pipeline)
    batch = letter_batch(
        pipeline, {original.offset(): large}, BROKEN, partition=original.partition(), largest=500_000
    )
    assert len(batch.values[0] or b"") < 500_000
    write_letters(broker.bootstrap, batch, letter_batch(pipeline, {5: large}, BROKEN, largest=500_000))
    said = run("dlq", path, "replay", *where, code=1)
    assert "1 dead letters replayed" in said
    assert "1 letters could not be published" in said
    _, again = source_of(broker.bootstrap, pipeline)
    assert (again.key(), again.value(), again.headers()[0], again.partition()) == (
        large[0], large[1], ("mine", b"x"), original.partition()
    )  # fmt: skip


def test_a_record_that_fails_again_is_another_letter_with_one_attempt_more(
    tmp_path: Path, broker: EmbeddedBroker | KafkaBroker
) -> None:
    """Worker, replay, worker, replay: the whole way of two records, one of which is good in the end."""
    path, pipeline = fresh_pipeline(tmp_path, broker.bootstrap)
    anyones.write_model(tmp_path / "stops.onnx")
    where, registry = at(broker.bootstrap), ("--registry", str(tmp_path / "registry"))
    run("models", "register", tmp_path / "stops.onnx", "--pipeline", path, *registry)
    bad = b'{"machine":{"number":"1"},"at":"2024-03-09T16:00:00Z","what":"reading"}'
    produce(
        broker.bootstrap, pipeline.source.topic, (b"1", b"nonsense"), (b"1", bad), headers=[("mine", b"x")]
    )
    flags = (*registry, *where, "--kafka", "session.timeout.ms=6000")

    def letters() -> list[Message]:
        return [
            message
            for message in read_all(broker.bootstrap, pipeline.dead_letters, 2)
            if "headrace.mark" not in dict(message.headers())
        ]

    with WorkerProcess(str(path), *flags):
        wait_for(lambda: len(letters()) == 2, "the first letters")
        assert "2 dead letters replayed" in run("dlq", path, "replay", *where)
        wait_for(lambda: len(letters()) == 4, "the second letters")
    text = path.read_text()
    path.write_text(
        text.replace('type=int, path="machine.number"', 'type=int, path="machine.number", quoted=True')
    )
    run("models", "register", tmp_path / "stops.onnx", "--pipeline", path, *registry)
    with WorkerProcess(str(path), *flags):
        assert "2 dead letters replayed" in run("dlq", path, "replay", *where)
        wait_for(lambda: len(letters()) == 5, "the third letter")
        wait_for(lambda: len(read_all(broker.bootstrap, pipeline.predictions, 2)) == 1, "the prediction")
        assert "1 dead letters replayed" in run("dlq", path, "replay", *where)
        wait_for(lambda: len(letters()) == 6, "the fourth letter")
    found = json.loads(run("dlq", path, "list", "--json", *where))
    assert sorted((each["attempts"], each["reason"], len(each["replayed_to"])) for each in found["newest"]) == [
        (1, "invalid_json", 1), (1, "wrong_type", 1), (2, "invalid_json", 1), (2, "wrong_type", 1),
        (3, "invalid_json", 1), (4, "invalid_json", 0),
    ]  # fmt: skip
    report = json.loads(run("parity", path, "--json", *where))
    assert (report["rows"], report["mismatches"], report["missing"]) == (1, 0, 0)
    shown = run("tail", path, "--dead-letters", "--from-beginning", "--limit", "6", *where)
    assert sorted(json.loads(line)["attempts"] for line in shown.splitlines()) == [
        "1",
        "1",
        "2",
        "2",
        "3",
        "4",
    ]
