"""``headrace check`` on what can't be right: it fails with a sentence that names the field and the fix."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from onnx import TensorProto, helper, numpy_helper

from tests.workers.topics_seen import wait_for
from workers.brokers import EmbeddedBroker, KafkaBroker
from workers.cli import main

PIPELINE = """
from datetime import timedelta

from features.expressions import col
from features.featureset import FeatureSet, over
from features.kinds import category, count, last, mean, ratio, raw, sum_
from features.schema import EventTime, Field, Schema
from features.windows import Window
from models.labels import Labels
from pipelines.pipeline import Pipeline, Source

H = timedelta(hours=1)
schema = Schema(
    fields=[
        Field(name="card", type=str),
        Field(name="at", type=int),
        Field(name="kind", type=str),
        Field(name="amount", type=float, optional=True),
        Field(name="shop", type=str, optional=True),
    ],
    key="card",
    time=EventTime(field="at", unit="ms", max_late=timedelta(seconds=30)),
)
pipeline = Pipeline(
    name="checked",
    source=Source(topic="checked-events", schema=schema, partitions=2),
    features=[
        FeatureSet(features={"amount": raw("amount"), "shop": category("shop")}),
        FeatureSet(key="card", features={"n": count(window=H), "mean": mean("amount", window=H, where=col("kind") == "buy")}),
    ],
    model="checked",
)
"""

Said = Callable[..., tuple[int, str]]


@pytest.fixture
def headrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs the command line in a folder with that pipeline; gives the exit code and what it said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checked.py").write_text(PIPELINE)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["headrace", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out + captured.err

    return run


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('raw("amount")', 'raw("amuont")', "Feature 'amount' of 'the event': There is no field 'amuont' in the schema; did you mean 'amount'?"),
        ('mean("amount"', 'mean("amout"', "Feature 'mean' of 'card': There is no field 'amout' in the schema; did you mean 'amount'?"),
        ('mean("amount"', 'mean("shop"', "mean of the text shop; it needs numbers"),
        ('raw("amount")', 'raw("shop")', "raw of the text shop; it needs numbers"),
        ('category("shop")', 'category("amount")', "category of 'amount', which is a float; use raw() for numbers"),
        ('category("shop")', 'category("shop', "checked.py can't be loaded: SyntaxError: unterminated string literal (detected at line 28)"),
        ("count(window=H)", "count(window=Window(H, 2 * H))", "Window tile 2h is longer than its length 1h; make it shorter"),
        ("count(window=H)", "count(window=Window(H, timedelta(minutes=7)))", "Window length 1h is no multiple of its tile 7m; choose a tile that divides it"),
        ("count(window=H)", "count()", "Feature 'n' of 'card': count has no window; give window= or put it into over(windows, ...)"),
        ("count(window=H)", "count(window=3600)", "Feature 'n' of 'card': window=3600 is no length of time; write timedelta(...), or Window(length, tile)"),
        ("count(window=H)", "count(window=Window(3600))", "Window length is 3600; write timedelta(...)"),
        ("count(window=H)", "count(window=H, where='buy')", "Feature 'n' has where='buy'; write an expression, such as col('amount') > 100"),
        ("count(window=H)", "count(window=H, where=col('kimd') == 'buy')", "Feature 'n' of 'card': There is no field 'kimd' in the schema; did you mean 'kind'?"),
        ("count(window=H)", "count(window=H, where=col('amount'))", "where=amount is neither true nor false; compare it with something"),
        ("count(window=H)", "count(window=H, where=col('kind') > 3)", "(kind > 3) compares text with something else; both sides need one type"),
        ("count(window=H)", "count(window=H, where=(col('kind') == 'a') and (col('shop') == 'b'))", "use &, | and ~ for and, or and not"),
        ("count(window=H)", "ratio(col('amount'), window=H)", "ratio of amount, which is neither true nor false; compare it with something"),
        ("count(window=H)", "mean(3, window=H)", "Feature 'n' has of=3; write an expression"),
        ("count(window=H)", "last('amount', missing='no')", "Feature 'n' has missing='no'; write a number, or float('nan')"),
        ('"n": count(window=H)', '"mean": count(window=H)', "this dict has 'mean' twice, and the first would be lost; rename one"),
        ('raw("amount")', "count(window=H)", "Feature 'amount' is a count of earlier events, and its FeatureSet has no key="),
        ("count(window=H)", "raw('amount')", "put it into a FeatureSet without key="),
        ("count(window=H)", "'count'", "Feature 'n' is 'count'; use a kind of features.kinds"),
        ('FeatureSet(key="card", features={', 'FeatureSet(key="card", name="", features={"n": last("amount")}), FeatureSet(key="card", features={', "Two features have the name 'card.n'; give one FeatureSet a name=, or rename the feature"),
        ('FeatureSet(key="card"', 'FeatureSet(key="shop"', "FeatureSet 'shop' is keyed by shop without the partition key 'card': its events are spread over partitions; add 'card' to the key"),
        ('FeatureSet(key="card"', 'FeatureSet(key=("card", "shp")', "FeatureSet 'card_shp' key: There is no field 'shp' in the schema; did you mean 'shop'?"),
        ('FeatureSet(key="card"', 'FeatureSet(key=("card", "amount")', "FeatureSet 'card_amount' key: field 'amount' is a float; use str or int"),
        ('FeatureSet(key="card"', 'FeatureSet(key=("card", "card")', "FeatureSet 'card_card' has 'card' in its key twice; name it once"),
        ('FeatureSet(key="card"', 'FeatureSet(key="card", ttl=60', "FeatureSet 'card' has ttl 60; write timedelta(...)"),
        ('FeatureSet(features={"amount": raw("amount"), "shop": category("shop")})', 'FeatureSet(features=[raw("amount")])', "FeatureSet features is [Raw(field='amount', missing=nan)]; write a dict of name to kind"),
        ("max_late=timedelta(seconds=30)", "max_late=30", "EventTime max_late is 30; write timedelta(...)"),
        ('unit="ms"', 'unit="iso8601"', "Schema time.field: field 'at' is a int; it has to be str"),
        ('EventTime(field="at"', 'EventTime(field="time"', "Schema time.field: There is no field 'time' in the schema"),
        ('key="card",\n    time', 'key="cart",\n    time', "Schema key: There is no field 'cart' in the schema; did you mean 'card'?"),
        ('name="kind", type=str', 'name="kind", type="str"', "Field 'kind' has type 'str'; use one of str, int, float, bool"),
        ('Field(name="kind", type=str)', '"kind"', "Schema fields holds 'kind'; write Field(name=..., type=...)"),
        ('name="kind", type=str', 'name="nan", type=str', "Field name 'nan' is a constant in expressions; name it and give its path="),
        ('model="checked"', 'model="checked", score_when=col("kimd") == "buy"', "score_when=(kimd == 'buy'): There is no field 'kimd' in the schema; did you mean 'kind'?"),
        ('model="checked"', 'model="checked", predictions="checked-events"', "uses one topic twice"),
        ('model="checked"', 'model="checked", labels=Labels(key="crd", when=col("kind") == "x", value=col("amount") > 1, horizon=H, without="missing")', "There is no field 'crd' in the schema; did you mean 'card'?"),
        ("features=[\n", "features=[\n        'amount',\n", "Pipeline 'checked' has features="),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_refused_with_the_field_and_the_fix(
    headrace: Said, tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    assert right in PIPELINE
    (tmp_path / "checked.py").write_text(PIPELINE.replace(right, wrong, 1))
    code, said = headrace("check", "checked.py")
    assert (code, "Traceback" in said) == (1, False)
    assert message in said
    assert said.startswith("headrace: ")
    assert said.count("\n") == 1


# ---------------------------------------------------------------- the model


def write_model(path: Path, floats: int = 3) -> Path:
    """A sum of the float columns and a code."""
    nodes = [
        helper.make_node("IsNaN", ["x"], ["missing"]),
        helper.make_node("Where", ["missing", "zero", "x"], ["known"]),
        helper.make_node("ReduceSum", ["known", "axis"], ["a"], keepdims=1),
        helper.make_node("Cast", ["codes"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["numbers", "axis"], ["b"], keepdims=1),
        helper.make_node("Add", ["a", "b"], ["sum"]),
    ]
    graph = helper.make_graph(
        nodes,
        "checked",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", floats]),
            helper.make_tensor_value_info("codes", TensorProto.INT64, ["rows", 1]),
        ],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["rows", 1])],
        [
            numpy_helper.from_array(np.zeros((), np.float32), "zero"),
            numpy_helper.from_array(np.array([1]), "axis"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def registered(headrace: Said, tmp_path: Path, embedded_broker: EmbeddedBroker) -> Said:
    """``headrace check`` of a changed pipeline, whose model was registered before."""
    events = [{"card": "x", "at": 1000 * i, "kind": "buy", "amount": i, "shop": "a"} for i in range(9)]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert headrace("replay", "checked.py", "--from", "events.jsonl", "--to", "rows.parquet")[0] == 0
    write_model(tmp_path / "checked.onnx")
    vocabulary = ("--vocabulary-from", "rows.parquet")
    assert headrace("models", "register", "checked.onnx", "--pipeline", "checked.py", *vocabulary)[0] == 0

    def check(right: str = "", wrong: str = "") -> tuple[int, str]:
        assert right in PIPELINE
        (tmp_path / "checked.py").write_text(PIPELINE.replace(right, wrong, 1))
        return headrace("check", "checked.py", "--bootstrap", embedded_broker.bootstrap)

    return check


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('"mean": mean', '"men": mean', "Model checked:1 needs the column 'card.mean', and the pipeline has none: rename the feature, or train the model again; did you mean 'card.men'?"),
        ('"amount": raw("amount")', '"amount": category("kind")', "was made for 'amount' as float32, and the pipeline's is int64; change the feature's kind back, or train the model again"),
        ('"n": count(window=H), "mean": mean("amount", window=H, where=col("kind") == "buy")', '"mean": mean("amount", window=H, where=col("kind") == "buy"), "n": count(window=H)', "the pipeline's are in another order; change the features back, or train the model again"),
        ('"n": count(window=H)', '"n": count(window=H), "more": count(window=H)', "the pipeline also has 'card.more'; change the features back, or train the model again"),
        ("count(window=H)", "count(window=2 * H)", "the columns have the same names and another meaning (a window, field, predicate, key or time zone changed)"),
        ('col("kind") == "buy"', 'col("kind") == "bye"', "another meaning"),
        ('unit="ms"', 'unit="s"', "another meaning"),
        ('key="card", features', 'key="card", ttl=H, features', "another meaning"),
        ('key="card", features', 'key=("card", "shop"), name="card", features', "another meaning"),
        ('model="checked"', 'model="checkd"', "no version of 'checkd' in"),
    ],
)  # fmt: skip
def test_a_model_of_other_columns_is_refused_with_both_sides_and_the_fix(
    registered: Said, right: str, wrong: str, message: str
) -> None:
    code, said = registered(right, wrong)
    assert code == int("no version" not in message)
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("right", "right_too"),
    [
        ("", ""),
        ('Field(name="kind", type=str),', 'Field(name="kind", type=str), Field(name="more", type=bool, optional=True),'),
        ('name="checked",', 'name="renamed",'),
        ('    model="checked"', '    score_when=col("kind") == "buy",\n    model="checked"'),
    ],
)  # fmt: skip
def test_a_pure_addition_keeps_the_model(registered: Said, right: str, right_too: str) -> None:
    code, said = registered(right, right_too)
    assert code == 0
    assert "checked:1 takes" in said
    assert "gives its known answer" in said


def test_what_cant_be_wired_is_refused_when_it_is_registered(headrace: Said, tmp_path: Path) -> None:
    write_model(tmp_path / "wide.onnx", floats=4)
    code, said = headrace("models", "register", "wide.onnx", "--pipeline", "checked.py")
    assert code == 1
    assert "'x'" in said
    assert "--input x=" in said
    write_model(tmp_path / "coded.onnx")
    code, said = headrace("models", "register", "coded.onnx", "--pipeline", "checked.py")
    assert code == 1
    assert "there is no vocabulary for it" in said
    assert "--vocabulary-from" in said


# ---------------------------------------------------------------- the topics


def create(bootstrap: str, *topics: NewTopic) -> None:
    """These topics, and none of before."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = {"checked-events", "checked.predictions", "checked.dead-letters"}
    if there := names & set(admin.list_topics(timeout=10).topics):
        for future in admin.delete_topics(list(there)).values():
            future.result(30)
    wait_for(lambda: not names & set(admin.list_topics(timeout=10).topics), "topics to go")
    for future in admin.create_topics(list(topics)).values():
        future.result(30)
    wanted = {topic.topic for topic in topics}
    wait_for(lambda: wanted <= set(admin.list_topics(timeout=10).topics), "topics to come")


def test_topics_that_do_not_fit_are_refused_with_both_numbers(
    headrace: Said, embedded_broker: EmbeddedBroker
) -> None:
    at = embedded_broker.bootstrap
    check = ("check", "checked.py", "--bootstrap", at)
    create(at, NewTopic("checked-events", 2))
    code, said = headrace(*check)
    assert (code, "headrace topics checked.py --create" in said) == (0, True)
    assert headrace(*check, "--strict")[0] == 1
    create(
        at,
        *(
            NewTopic(f"checked{name}", n)
            for name, n in (("-events", 2), (".predictions", 3), (".dead-letters", 2))
        ),
    )
    code, said = headrace(*check)
    assert code == 1
    assert "Topic 'checked.predictions' has 3 partitions and its source 2" in said


@pytest.mark.kafka
def test_a_compacted_source_is_refused(headrace: Said, kafka_broker: KafkaBroker) -> None:
    at, compact = kafka_broker.bootstrap, {"cleanup.policy": "compact"}
    create(
        at, NewTopic("checked-events", 2, config=compact), NewTopic("checked.predictions", 2), NewTopic("checked.dead-letters", 2)
    )  # fmt: skip
    code, said = headrace("check", "checked.py", "--bootstrap", at)
    assert code == 1
    assert "Source topic 'checked-events' is compacted" in said
    assert "use cleanup.policy=delete" in said


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("sink", "config", "what"),
    [
        ("predictions", {"max.message.bytes": "90000"}, "takes batches of at most 90000 bytes (max.message.bytes)"),
        ("dead-letters", {"max.message.bytes": "90000"}, "--kafka producer.batch.size=90000"),
        ("dead-letters", {"cleanup.policy": "compact"}, "of the dead letters of a key only the newest would stay"),
    ],
)  # fmt: skip
def test_a_sink_that_would_refuse_or_forget_records_is_refused(
    headrace: Said, kafka_broker: KafkaBroker, sink: str, config: dict[str, str], what: str
) -> None:
    at = kafka_broker.bootstrap
    configs = {"predictions": {}, "dead-letters": {}, sink: config}
    sinks = [NewTopic(f"checked.{name}", 2, config=each) for name, each in configs.items()]
    create(at, NewTopic("checked-events", 2), *sinks)
    code, said = headrace("check", "checked.py", "--bootstrap", at)
    assert (code, what in said) == (1, True), said
    if "max.message.bytes" in config:
        code, said = headrace(
            "check", "checked.py", "--bootstrap", at, "--kafka", "producer.batch.size=90000"
        )
        assert code == 0, said


@pytest.mark.kafka
def test_dead_letters_get_room_for_the_largest_record_of_their_source(
    headrace: Said, kafka_broker: KafkaBroker
) -> None:
    at = kafka_broker.bootstrap
    source = NewTopic("checked-events", 2, config={"max.message.bytes": "5000000"})
    create(at, source)
    headrace("topics", "checked.py", "--create", "--bootstrap", at)
    assert "would be cut" not in headrace("check", "checked.py", "--bootstrap", at)[1]
    create(at, source, NewTopic("checked.predictions", 2), NewTopic("checked.dead-letters", 2))
    code, said = headrace("check", "checked.py", "--bootstrap", at)
    assert (code, "would be cut in their dead letters; give it 5065536" in said) == (0, True)
