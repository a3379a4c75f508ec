"""A real S3 server of this machine: Versity's gateway over a folder, built once with Go."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import fs

from workers.ports import free_port

_VERSION = "v1.8.0"
_BUILD_SECONDS = 900
_PATIENCE = 30.0
_KEYS = ("local", "local-secret")


def gateway() -> Path:
    """The program, built into the cache the first time; without Go the test is skipped, or fails where it may not be."""
    folder = Path(
        os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "headrace", f"versitygw-{_VERSION}"
    )
    program = folder / "versitygw"
    if not program.exists():
        if (go := shutil.which("go")) is None:
            pytest.skip("needs Go to build an S3 server")
        subprocess.run(
            [go, "install", f"github.com/versity/versitygw/cmd/versitygw@{_VERSION}"],
            env={**os.environ, "GOBIN": str(folder)}, check=True, capture_output=True, timeout=_BUILD_SECONDS,
        )  # fmt: skip
    return program


@contextmanager
def bucket(folder: Path) -> Iterator[str]:
    """The URI of a bucket whose objects lie in a folder."""
    port, (name, secret) = free_port(), _KEYS
    folder.mkdir()
    server = subprocess.Popen(
        [gateway(), "--region", "us-east-1", "--port", f"127.0.0.1:{port}", "posix", str(folder)],
        env={**os.environ, "ROOT_ACCESS_KEY": name, "ROOT_SECRET_KEY": secret},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address = (
            f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
        )
        uri = f"s3://{name}:{secret}@states/of/ours?{address}"
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                found, _ = fs.FileSystem.from_uri(uri)
                found.create_dir("states")
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield uri
    finally:
        server.kill()
        server.wait()
