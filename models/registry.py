"""Registry: model versions in a folder or a bucket.

::

    <root>/<name>/<version>/model.onnx
    <root>/<name>/<version>/manifest.json      written last: a version without one does not exist

Everything goes through `pyarrow.fs`, so the root may be a path or a URI such as ``s3://bucket/models``.
"""

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
from pyarrow import fs

from features.errors import Misdeclared, Unavailable
from features.schema import did_you_mean
from models.manifest import Manifest
from models.places import folder_at

MODEL_FILE, MANIFEST_FILE = "model.onnx", "manifest.json"
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Names a model, one of its versions, or exactly one file.

    Args:
        name: Of the model.
        version: From 1; ``None`` for the newest.
        digest: SHA-256 of the file, if it is known.
    """

    name: str
    version: int | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        if not self.name or self.name.startswith(".") or not set(self.name) <= _LETTERS:
            raise Misdeclared(f"Model name {self.name!r} is unusable; use letters, digits, '.', '_' and '-'")
        if self.version is not None and self.version < 1:
            raise Misdeclared(f"Model {self.name!r} has no version {self.version}; versions count from 1")

    @classmethod
    def parse(cls, text: str) -> "ModelRef":
        """``flights:3``, or ``flights`` for the newest version."""
        name, colon, version = text.partition(":")
        if colon and not version.isdecimal():
            raise Misdeclared(f"Model {text!r} is no NAME:VERSION; write {name}:3, or {name} for the newest")
        return cls(name=name, version=int(version) if colon else None)

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}:{self.version}"


class Registry:
    """Reads and adds model versions; none is ever changed or overwritten.

    Args:
        filesystem: Where they are.
        root: Path of the folder in it.
    """

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self._fs, self._root = filesystem, root.rstrip("/")

    @classmethod
    def at(cls, place: str) -> "Registry":
        """The registry at a path or URI; nothing is read or created yet."""
        return cls(*folder_at(place, "Registry"))

    def names(self) -> list[str]:
        """Names of the models that have a version, sorted."""
        return sorted({name for name, _ in self._found(self._root)})

    def versions(self, name: str) -> list[int]:
        """Versions of a model, oldest first; none if there is no such model."""
        return sorted(version for _, version in self._found(f"{self._root}/{ModelRef(name=name).name}"))

    def resolve(self, ref: ModelRef) -> ModelRef:
        """The same model with version and digest; raises `Misdeclared` if there is none such."""
        versions = self.versions(ref.name)
        if not versions:
            raise Misdeclared(
                f"Registry {self._root} has no model {ref.name!r}; {did_you_mean(ref.name, self.names())}"
            )
        if ref.version is not None and ref.version not in versions:
            raise Misdeclared(
                f"Registry {self._root} has no {ref}; {ref.name} has versions {', '.join(map(str, versions))}"
            )
        version = versions[-1] if ref.version is None else ref.version
        digest = self._read_manifest(ref.name, version).sha256
        if ref.digest not in {None, digest}:
            raise Misdeclared(f"{ref.name}:{version} has the digest {digest}, and {ref.digest} was asked for")
        return ModelRef(name=ref.name, version=version, digest=digest)

    def manifest(self, name: str, version: int | None = None) -> Manifest:
        """The manifest of a version, by default the newest."""
        ref = self.resolve(ModelRef(name=name, version=version))
        assert ref.version is not None
        return self._read_manifest(name, ref.version)

    def load(self, name: str, version: int | None = None) -> bytes:
        """The model file of a version, by default the newest; its SHA-256 is that of the manifest.

        Raises:
            Misdeclared: There is none such, or the file is not the one that was registered.
            Unavailable: The registry can't be read.
        """
        manifest = self.manifest(name, version)
        path = self._path(name, manifest.version, MODEL_FILE)
        data = self._read(path)
        digest = hashlib.sha256(data).hexdigest()
        if digest != manifest.sha256:
            raise Misdeclared(
                f"{path} has SHA-256 {digest}, and its manifest says {manifest.sha256}: the file was changed or "
                f"torn; restore it, or delete the version and register the model again"
            )
        return data

    def register(self, model: bytes, manifest: Manifest) -> ModelRef:
        """Add a model as the next version; the same file with the same bindings is the version it has.

        Two at once get two versions in a local file system. In an object store, which can't claim a name,
        let one process register at a time; the loser of a race is told.

        Raises:
            Misdeclared: The manifest is of another file.
            Unavailable: The registry can't be written, or another process wrote the same version.
        """
        digest = hashlib.sha256(model).hexdigest()
        if manifest.sha256 != digest:
            raise Misdeclared(f"The manifest is of {manifest.sha256}, and the model file is {digest}")
        for version in reversed(self.versions(manifest.name)):
            held = self._read_manifest(manifest.name, version)
            if _binding(held) == _binding(manifest):
                return ModelRef(name=manifest.name, version=version, digest=digest)
        return ModelRef(name=manifest.name, version=self._add(model, manifest), digest=digest)

    def _add(self, model: bytes, manifest: Manifest) -> int:
        version = self._next_version(manifest.name)
        if not self._is_local:
            self._write(
                manifest.name, str(version), model, msgspec.structs.replace(manifest, version=version)
            )
            if self._read_manifest(manifest.name, version).sha256 != manifest.sha256:
                raise Unavailable(f"Another process registered {manifest.name}:{version}; register again")
            return version
        while True:
            staged = f".{uuid.uuid4().hex}"
            self._write(manifest.name, staged, model, msgspec.structs.replace(manifest, version=version))
            if self._claim(manifest.name, staged, version):
                return version
            version = max(version + 1, self._next_version(manifest.name))

    def _claim(self, name: str, staged: str, version: int) -> bool:
        """Rename a whole version into place: atomic, and refused where one stands."""
        source, target = self._path(name, staged), self._path(name, version)
        with self._access(f"write {target}"):
            if self._fs.get_file_info(target).type == fs.FileType.NotFound:
                try:
                    self._fs.move(source, target)
                except OSError:
                    if self._fs.get_file_info(target).type == fs.FileType.NotFound:
                        raise
                else:
                    return True
            self._fs.delete_dir(source)
            return False

    def _next_version(self, name: str) -> int:
        """One more than every folder, those that a registration left half-written among them."""
        with self._access(f"list {self._path(name)}"):
            found = self._fs.get_file_info(fs.FileSelector(self._path(name), allow_not_found=True))
        return 1 + max((int(info.base_name) for info in found if info.base_name.isdecimal()), default=0)

    def _write(self, name: str, folder: str, model: bytes, manifest: Manifest) -> None:
        with self._access(f"write {self._path(name, folder)}"):
            self._fs.create_dir(self._path(name, folder), recursive=True)
            for file, data in ((MODEL_FILE, model), (MANIFEST_FILE, manifest.write())):
                with self._fs.open_output_stream(self._path(name, folder, file)) as stream:
                    stream.write(data)

    def _found(self, folder: str) -> Iterator[tuple[str, int]]:
        """Name and number of every version in a folder."""
        with self._access(f"list {folder}"):
            found = self._fs.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
        for info in found:
            parts = str(info.path).removeprefix(self._root).strip("/").split("/")
            if len(parts) == 3 and parts[1].isdecimal() and parts[2] == MANIFEST_FILE:
                yield parts[0], int(parts[1])

    def _read_manifest(self, name: str, version: int) -> Manifest:
        path = self._path(name, version, MANIFEST_FILE)
        return Manifest.read(self._read(path), path)

    def _read(self, path: str) -> bytes:
        with self._access(f"read {path}"), self._fs.open_input_stream(path) as stream:
            return bytes(stream.read())

    def _path(self, *parts: str | int) -> str:
        return "/".join([*filter(None, [self._root]), *map(str, parts)])

    @property
    def _is_local(self) -> bool:
        base = self._fs.base_fs if isinstance(self._fs, fs.SubTreeFileSystem) else self._fs
        return isinstance(base, fs.LocalFileSystem)

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"Can't {what}: {error}; check the registry's address, its rights and the network"
            ) from error


def _binding(manifest: Manifest) -> tuple[object, ...]:
    """What makes two versions the same to a worker."""
    return (
        manifest.sha256,
        manifest.inputs,
        manifest.outputs,
        manifest.column_fingerprint,
        manifest.vocabularies,
    )
