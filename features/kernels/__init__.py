"""Compiled code: what runs once per event, written for Numba and cached on disk.

Numba's own cache does not see an edit in an imported helper, so the cache folder is named by the
content of every kernel file: any edit starts a fresh cache and an old one is never read. The folder
is ``$HEADRACE_KERNEL_CACHE`` or ``$XDG_CACHE_HOME/headrace/kernels``; `warm` fills it at installation.
"""

import hashlib
import os
from pathlib import Path

import numba


def _cache_folder() -> Path:
    root = os.environ.get("HEADRACE_KERNEL_CACHE")
    if root is None:
        root = str(Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headrace" / "kernels")
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources))
    digest.update(numba.__version__.encode())
    return Path(root) / digest.hexdigest()[:16]


numba.config.CACHE_DIR = str(_cache_folder())

COMPILE = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": False}
"""How every kernel is compiled: no GIL, IEEE arithmetic in the order written, cached."""
