from pathlib import Path

import pytest

from features.errors import Misdeclared
from pipelines import catalog

MINIMAL = """
from features.featureset import FeatureSet
from features.kinds import raw
from features.schema import EventTime, Field, Schema
from pipelines.pipeline import Pipeline, Source

schema = Schema(fields=[Field(name="k", type=str), Field(name="t", type=int)], key="k", time=EventTime(field="t"))
pipeline = Pipeline(name="mine", source=Source(topic="events", schema=schema), model="mine",
                    features=[FeatureSet(features={"t": raw("t")})])
"""


def test_flights_come_with_headrace() -> None:
    assert "flights" in catalog.names()
    assert [pipeline.name for pipeline in catalog.catalog()] == catalog.names()


def test_a_pipeline_is_found_by_path_and_by_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_pipeline_file.py").write_text(MINIMAL)
    assert catalog.load(str(tmp_path / "my_pipeline_file.py")).name == "mine"
    monkeypatch.chdir(tmp_path)
    assert catalog.load("my_pipeline_file.py:pipeline").name == "mine"
    assert catalog.load("my_pipeline_file:pipeline").name == "mine"


def test_a_folder_of_its_own_called_features_does_not_get_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "__init__.py").write_text("raise RuntimeError('the wrong features')")
    (tmp_path / "pipeline_beside_features.py").write_text(MINIMAL)
    assert catalog.load(str(tmp_path / "pipeline_beside_features.py")).name == "mine"


def test_importing_from_such_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "ours.py").write_text("x = 1")
    (tmp_path / "pipeline_with_ours.py").write_text("from features.ours import x\n" + MINIMAL)
    with pytest.raises(
        Misdeclared, match=r"imports 'features.ours' from its own folder .*; rename that folder"
    ):
        catalog.load(str(tmp_path / "pipeline_with_ours.py"))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("fligts", "did you mean 'flights'?"),
        ("nowhere/at_all.py", "There is no pipeline file 'nowhere/at_all.py'"),
        ("no_such_module:pipeline", "can't be loaded: ModuleNotFoundError"),
        ("pipelines.flights:schema", "schema is no Pipeline"),
        ("pipelines.flights:nothing", "nothing is not there"),
    ],
)
def test_what_is_no_pipeline_is_refused_with_the_fix(reference: str, message: str) -> None:
    with pytest.raises(Misdeclared) as refused:
        catalog.load(reference)
    assert message in str(refused.value)
