"""Where checkpoints lie: immutable files under the folder of their lineage, and a manifest written last for each.

::

    PIPELINE/TOPIC-UUID/PARTITIONS/FINGERPRINT/PARTITION/
        00000000000000123456-WRITER-0.arrow      what was saved, as Arrow IPC
        00000000000000123456-WRITER.json         the manifest: a checkpoint is there once it is

There is no pointer to the latest and no file is written twice, so two owners at once can't harm each other: what one
reads or writes, the other does not touch.
"""

import hashlib
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from features.engine import PartitionState
from features.errors import Unavailable
from features.saving import SavedPart
from models.places import folder_at
from workers.checkpoints.manifest import Checkpoint, Lineage, SavedFile, Unreadable, decode, encode

_log = logging.getLogger(__name__)

KEPT = 2
"""Usable checkpoints that pruning leaves."""

_ORPHANED_AFTER = timedelta(hours=1)
"""Age at which a file that no manifest names is taken for one that none will name."""

_SCHEMA = pa.schema([pa.field("words", pa.int64(), nullable=False)])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class CheckpointStore:
    """Reads, writes and prunes checkpoints; every method blocks.

    Args:
        filesystem: Where they are.
        root: Path of the folder in it.
    """

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self._fs, self._root = filesystem, root

    @classmethod
    def at(cls, place: str) -> "CheckpointStore":
        """The checkpoints at a path or URI; nothing is read or created yet."""
        return cls(*folder_at(place, "Checkpoint store"))

    def writer(self, lineage: Lineage, name: str) -> "FileWriter":
        """A new file.

        Raises:
            Unavailable: It can't be made.
        """
        path = self._path(lineage, name)
        with _access(f"write {path}"):
            self._fs.create_dir(self._path(lineage), recursive=True)
            return FileWriter(self._fs.open_output_stream(path), name)

    def add(self, checkpoint: Checkpoint) -> None:
        """Write the manifest; the files are there."""
        path = self._path(checkpoint.lineage, checkpoint.name)
        with _access(f"write {path}"), self._fs.open_output_stream(path) as stream:
            stream.write(encode(checkpoint))

    def checkpoints(self, lineage: Lineage) -> Iterator[Checkpoint]:
        """Those of a lineage whose manifest is whole, newest first; others are named in the log."""
        for info in sorted(self._files(lineage), key=_name, reverse=True):
            if not info.base_name.endswith(".json"):
                continue
            try:
                yield self._checkpoint(lineage, info.base_name)
            except Unreadable as reason:
                _log.warning("a checkpoint can't be used: %s", reason)

    def load(self, checkpoint: Checkpoint, state: PartitionState) -> None:
        """Make a new state what was saved.

        Raises:
            Unreadable: A file is missing, or not what was written: the state is of no use then.
        """
        if checkpoint.layout != state.engine.layout:
            raise Unreadable("its records are laid out in another way")
        state.load(self._parts(checkpoint), checkpoint.watermark)

    def _parts(self, checkpoint: Checkpoint) -> Iterator[SavedPart]:
        lineage = checkpoint.lineage
        for file in checkpoint.files:
            data = self._read(lineage, file.name)
            if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.sha256:
                raise Unreadable(
                    f"{self._path(lineage, file.name)} is torn: {len(data)} of {file.size} bytes"
                )
            yield from read_parts(data)

    def prune(self, lineage: Lineage, committed: int) -> set[str]:
        """Delete what is older than the newest `KEPT` checkpoints up to the committed offset; returns what is left.

        Left alone are checkpoints beyond it, which become usable, and files of somebody who is still writing.
        """
        files = {info.base_name: info for info in self._files(lineage)}
        there = list(self.checkpoints(lineage))
        whole = [
            each
            for each in there
            if each.next_offset <= committed and {f.name for f in each.files} <= files.keys()
        ]
        if len(whole) < KEPT:
            return set(files)
        oldest = whole[KEPT - 1]
        kept = [each for each in there if each.next_offset >= oldest.next_offset]
        named = {name for each in kept for name in (each.name, *(file.name for file in each.files))}
        gone = [each for each in there if each not in kept]
        unneeded = {
            name for each in gone for name in (each.name, *(file.name for file in each.files))
        } - named
        known = named | unneeded
        before = datetime.now(UTC) - _ORPHANED_AFTER
        unneeded |= {
            name
            for name, info in files.items()
            if name not in known and info.mtime is not None and info.mtime < before
        }
        # Manifests first: a checkpoint without its manifest is none, one without its files is torn.
        for name in sorted(unneeded & files.keys(), key=lambda name: not name.endswith(".json")):
            with _access(f"delete {self._path(lineage, name)}"):
                self._delete(self._path(lineage, name))
        return files.keys() - unneeded

    def _checkpoint(self, lineage: Lineage, name: str) -> Checkpoint:
        path = self._path(lineage, name)
        found = decode(self._read(lineage, name).to_pybytes(), path)
        if found.lineage != lineage or found.name != name:
            raise Unreadable(f"{path} is of another lineage: {found.lineage}")
        return found

    def _delete(self, path: str) -> None:
        try:
            self._fs.delete_file(path)
        except FileNotFoundError:  # another owner prunes as well
            return

    def _files(self, lineage: Lineage) -> list[Any]:
        path = self._path(lineage)
        with _access(f"list {path}"):
            found = self._fs.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [info for info in found if info.type == fs.FileType.File]

    def _read(self, lineage: Lineage, name: str) -> pa.Buffer:
        path = self._path(lineage, name)
        with _access(f"read {path}"):
            try:
                with self._fs.open_input_file(path) as file:
                    return file.read_buffer()
            except FileNotFoundError as error:
                raise Unreadable(f"{path} is missing") from error

    def _path(self, lineage: Lineage, name: str = "") -> str:
        return "/".join(filter(None, [self._root, lineage.folder, name]))


class FileWriter:
    """A file of a checkpoint, written part by part.

    Args:
        stream: Where to.
        name: The file's.
    """

    def __init__(self, stream: pa.NativeFile, name: str) -> None:
        self.name, self.size, self.keys = name, 0, 0
        self._stream, self._digest = stream, hashlib.sha256()

    def write(self, part: SavedPart) -> None:
        """Append a part."""
        frame = part_frame(part)
        self._digest.update(frame)
        with _access(f"write {self.name}"):
            self._stream.write(frame)
        self.size += len(frame)
        self.keys += part.keys

    def close(self) -> SavedFile:
        """End it; it is durable, as far as the file system says so."""
        with _access(f"write {self.name}"):
            self._stream.close()
        return SavedFile(name=self.name, size=self.size, sha256=self._digest.hexdigest(), keys=self.keys)


def part_frame(part: SavedPart) -> bytes:
    """A part as an Arrow IPC stream of one batch, with the length of that before it."""
    sink = io.BytesIO()
    schema = _SCHEMA.with_metadata({"set": str(part.number), "keys": str(part.keys)})
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as stream:
        stream.write_batch(pa.record_batch([pa.array(part.records)], schema=schema))
    return len(sink.getbuffer()).to_bytes(8, "little") + sink.getvalue()


def read_parts(data: pa.Buffer) -> Iterator[SavedPart]:
    """The parts of a file whose digest was found right."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        with pa.ipc.open_stream(data.slice(at + 8, length)) as stream:
            metadata = stream.schema.metadata
            (batch,) = stream
        records = np.ascontiguousarray(batch.column(0).to_numpy())
        yield SavedPart(number=int(metadata[b"set"]), keys=int(metadata[b"keys"]), records=records)
        at += 8 + length


def _name(info: Any) -> str:
    return str(info.base_name)


@contextmanager
def _access(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"Can't {what}: {error}; check the address of the checkpoints, its rights, its space and the network"
        ) from error
