import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, Block, Reader, blocks
from tests.workers.topics_seen import read_all, wait_for
from workers import pages
from workers.brokers import EmbeddedBroker

ROOT = DOCS.parent
TEST_NAME = re.compile(r"`(test_\w+)`")


def test_every_block_of_write_a_pipeline_runs(tmp_path: Path, embedded_broker: EmbeddedBroker) -> None:
    with ExitStack() as running:
        reader = Reader(tmp_path, embedded_broker.bootstrap, running)
        said = ""
        for block in blocks(DOCS / "write-a-pipeline.md"):
            if wanted := block.word("wait"):
                wait_for_predictions(embedded_broker.bootstrap, int(wanted.partition("-")[0]))
            said = reader.follow(block)
        assert "0 mismatches" in said


def test_every_block_of_the_pipelines_page_runs(tmp_path: Path, embedded_broker: EmbeddedBroker) -> None:
    with ExitStack() as running:
        reader = Reader(tmp_path, embedded_broker.bootstrap, running)
        reader.environment["HEADRACE_REGISTRY"] = str(ROOT / "registry")
        for block in blocks(DOCS / "pipelines.md"):
            said = reader.follow(block) if block.language == "sh" else ""
            if "parity" in block.text:
                assert "99514 rows compared, 0 mismatches" in said


def wait_for_predictions(bootstrap: str, count: int) -> None:
    wait_for(lambda: len(read_all(bootstrap, "pumps.predictions", 2)) >= count, f"{count} predictions")


@pytest.mark.parametrize("page", ["README.md", "docs/features.md"])
def test_every_python_block_runs(page: str, tmp_path: Path) -> None:
    found = [block for block in blocks(ROOT / page) if block.language == "python"]
    assert found
    for block in found:
        done = subprocess.run(
            [sys.executable, "-c", block.text], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_pages_that_are_made_from_code_are_up_to_date() -> None:
    assert (DOCS / "settings.md").read_text() == pages.settings_page(), "run: make docs"
    operate = (DOCS / "operate.md").read_text()
    assert operate == pages.with_table(operate), "run: make docs"


def test_every_test_that_the_guarantees_name_exists() -> None:
    named = set(TEST_NAME.findall((DOCS / "guarantees.md").read_text()))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert named
    assert named <= there


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.train
def test_the_notebook_runs(tmp_path: Path) -> None:
    import nbformat  # noqa: PLC0415
    from nbclient import NotebookClient  # noqa: PLC0415

    notebook = nbformat.read(DOCS / "replay-and-train.ipynb", as_version=4)
    NotebookClient(notebook, timeout=280, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "registered as january:1" in printed


def test_a_block_says_how_it_is_run() -> None:
    block = Block("sh", ("background", "wait=3-predictions"), "x")
    assert block.word("wait") == "3-predictions"
    assert block.word("file") is None
