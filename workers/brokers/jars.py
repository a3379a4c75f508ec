"""Apache Kafka's jars, fetched once with Maven into a cache folder."""

import os
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from features.errors import Misdeclared, Unavailable

KAFKA_VERSION = "4.1.1"
_FETCH_SECONDS = 600.0


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/headrace/kafka-4.1.1`` (``~/.cache`` when the variable is not set)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "headrace" / f"kafka-{KAFKA_VERSION}"


def fetch_jars(folder: Path) -> Path:
    """The folder with Kafka's jars; filled by Maven the first time, which takes under a minute.

    Several processes may call this at once: each fills a folder of its own, the first to finish gives its name.

    Raises:
        Misdeclared: The jars are not there and neither is ``mvn``.
        Unavailable: Maven could not fetch them.
    """
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise Misdeclared(
            f"Apache Kafka's jars are not in {folder} and Maven (mvn) is not on PATH to fetch them: install maven, "
            "or use the embedded broker"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
        jars = Path(work) / "jars"
        _run_maven(maven, Path(work), jars)
        try:
            jars.rename(folder)
        except OSError:  # another process was first
            if not folder.is_dir():
                raise
    return folder


def _run_maven(maven: str, work: Path, jars: Path) -> None:
    pom = work / "pom.xml"
    pom.write_bytes(resources.files("workers.brokers").joinpath("kafka-pom.xml").read_bytes())
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    try:
        ended = subprocess.run(  # noqa: S603 -- the path comes from shutil.which
            [maven, "--batch-mode", "--quiet", "--file", str(pom), *goal],
            capture_output=True,
            text=True,
            check=False,
            timeout=_FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"Maven did not fetch Apache Kafka within {_FETCH_SECONDS:.0f} s") from late
    if ended.returncode:
        raise Unavailable(
            f"Maven could not fetch Apache Kafka {KAFKA_VERSION}:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        )
