"""What a checkpoint says of itself."""

import hashlib
from typing import NamedTuple

import msgspec

FORMAT = 1
"""Of the files and of how they are named; another one is not read."""


class Lineage(NamedTuple):
    """What a state is the fold of, and how: checkpoints of one lineage can stand in for each other.

    Args:
        pipeline: Name.
        topic: The source's name.
        topic_id: Its UUID, as hexadecimal: a topic made anew has another.
        partitions: How many it has.
        state: The state fingerprint.
        partition: Which one.
    """

    pipeline: str
    topic: str
    topic_id: str
    partitions: int
    state: str
    partition: int

    @property
    def folder(self) -> str:
        """Where its checkpoints lie."""
        state = self.state.replace(":", "-")
        return f"{self.pipeline}/{self.topic}-{self.topic_id}/{self.partitions}/{state}/{self.partition}"


class SavedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a checkpoint.

    Args:
        name: In the folder of its lineage.
        size: Bytes.
        sha256: Of its bytes.
        keys: Entities in it.
    """

    name: str
    size: int
    sha256: str
    keys: int


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a partition: files to be loaded one after the other, later ones hold what has changed.

    Args:
        lineage: Of the state.
        origin: First offset that it is the fold of.
        next_offset: First offset that it is not the fold of any more.
        watermark: Of the partition, ms.
        layout: Of a key's record; see `features.engine.Engine.layout`.
        writer: Whose files they are.
        files: In order.
    """

    lineage: Lineage
    origin: int
    next_offset: int
    watermark: int
    layout: str
    writer: str
    files: tuple[SavedFile, ...]
    format: int = FORMAT

    @property
    def name(self) -> str:
        """Of its manifest."""
        return f"{self.next_offset:020d}-{self.writer}.json"


class Unreadable(Exception):
    """A checkpoint, or a file of one, that is torn, foreign or of another format; says which and why."""


def encode(checkpoint: Checkpoint) -> bytes:
    """The manifest: the digest of a line of JSON, then that line."""
    body = msgspec.json.encode(checkpoint)
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode(data: bytes, name: str) -> Checkpoint:
    """The checkpoint again.

    Raises:
        Unreadable: It is torn, foreign, or of another format.
    """
    digest, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise Unreadable(f"{name} is torn or no manifest")
    try:
        found = msgspec.json.decode(body, type=_Format).format
        if found != FORMAT:
            raise Unreadable(f"{name} has format {found}, this version reads {FORMAT}")
        return msgspec.json.decode(body, type=Checkpoint)
    except msgspec.DecodeError as error:
        raise Unreadable(f"{name}: {error}") from error


class _Format(msgspec.Struct):
    format: int
