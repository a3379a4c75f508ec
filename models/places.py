"""Folders that may be anywhere: a path, or a URI such as ``s3://bucket/path?endpoint_override=...``."""

from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from features.errors import Misdeclared, Unavailable


def folder_at(place: str, what: str) -> tuple[fs.FileSystem, str]:
    """A file system and the path of the folder in it; nothing is read or created yet.

    Args:
        place: Path or URI.
        what: What is there, for error texts.

    Raises:
        Misdeclared: It is no usable URI.
        Unavailable: It can't be reached.
    """
    if "://" not in place:
        return fs.LocalFileSystem(), str(Path(place).absolute())
    try:
        found, path = fs.FileSystem.from_uri(place)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Misdeclared(f"{what} {place!r} is no usable URI: {error}") from error
    except OSError as error:
        raise Unavailable(f"{what} {place!r} can't be reached: {error}") from error
    return found, path.rstrip("/")
