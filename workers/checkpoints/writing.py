"""One owner's checkpoints of one partition: first everything, then what has changed, all files its own."""

import uuid
from collections.abc import Sequence

from features.saving import SavedPart
from workers.checkpoints.manifest import Checkpoint, Lineage, SavedFile
from workers.checkpoints.store import CheckpointStore, FileWriter

FILE_BYTES = 64 << 20
"""Size at which a file ends: each is read whole, and checked, before any of it is used."""


class Writing:
    """Makes the checkpoints of a partition.

    Args:
        store: Where to.
        lineage: Of the state.
        layout: Of a key's record.
        origin: First offset that it is the fold of.
    """

    def __init__(self, store: CheckpointStore, lineage: Lineage, layout: str, origin: int) -> None:
        self.store, self.lineage, self.layout, self.origin = store, lineage, layout, origin
        self.begin_anew()

    @property
    def wants_everything(self) -> bool:
        """Whether the next checkpoint has to hold every key: the first one, and when changes outweigh the whole."""
        return not self.files or sum(file.size for file in self.files) > 2 * self._whole

    def begin(self, watermark: int, next_offset: int, *, everything: bool) -> "Writer":
        """A checkpoint of a state at an offset."""
        if everything:
            self.begin_anew()
        return Writer(self, watermark, next_offset)

    def new_file(self, next_offset: int) -> FileWriter:
        """The next one."""
        name = f"{next_offset:020d}-{self.writer}-{self._count}.arrow"
        self._count += 1
        return self.store.writer(self.lineage, name)

    def wrote(self, files: Sequence[SavedFile]) -> None:
        """These are behind the others now."""
        if not self.files:
            self._whole = sum(file.size for file in files)
        self.files += files

    def begin_anew(self) -> None:
        """The next checkpoint holds everything: what was to be saved last is in no file."""
        self.writer, self._count, self._whole = uuid.uuid4().hex[:12], 0, 0
        self.files: list[SavedFile] = []

    def prune(self, committed: int) -> None:
        """Delete what is not needed any more; changes to files that are gone are of no use."""
        left = self.store.prune(self.lineage, committed)
        if not left.issuperset(file.name for file in self.files):
            self.begin_anew()


class Writer:
    """A checkpoint that is being written; its methods block.

    Args:
        writing: The partition's.
        watermark: Of the state, ms.
        next_offset: What it is the fold up to.
    """

    def __init__(self, writing: Writing, watermark: int, next_offset: int) -> None:
        self._writing, self._watermark, self._next_offset = writing, watermark, next_offset
        self._files: list[SavedFile] = []
        self._file: FileWriter | None = None
        self.size = 0

    def write(self, parts: Sequence[SavedPart]) -> None:
        """Append parts.

        Raises:
            Unavailable: They can't be stored.
        """
        for part in parts:
            if self._file is None:
                self._file = self._writing.new_file(self._next_offset)
            self._file.write(part)
            if self._file.size >= FILE_BYTES:
                self._end_file()

    def close(self, parts: Sequence[SavedPart]) -> Checkpoint:
        """Append the last parts and write the manifest."""
        self.write(parts)
        self._end_file()
        writing = self._writing
        checkpoint = Checkpoint(
            lineage=writing.lineage,
            origin=writing.origin,
            next_offset=self._next_offset,
            watermark=self._watermark,
            layout=writing.layout,
            writer=writing.writer,
            files=(*writing.files, *self._files),
        )
        writing.store.add(checkpoint)
        writing.wrote(self._files)
        return checkpoint

    def _end_file(self) -> None:
        if self._file is not None:
            self._files.append(self._file.close())
            self.size += self._files[-1].size
            self._file = None
