import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from pyarrow import fs

from features.errors import Misdeclared, Unavailable
from models.manifest import Manifest
from models.registry import ModelRef, Registry
from tests.models.shop import NOW, manifest


@pytest.fixture(params=["local", "subtree", "object store"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Registry:
    """One contract for every file system; Arrow's in-memory one can't rename onto a claim, as S3 can't."""
    if request.param == "local":
        return Registry.at(str(tmp_path / "deep" / "registry"))
    if request.param == "subtree":
        return Registry(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "")
    return Registry(fs._MockFileSystem(), "bucket/models")


def of(model: bytes, name: str = "shop") -> Manifest:
    return manifest(model, name=name)


def test_versions_count_from_one_and_hold_what_was_registered(registry: Registry) -> None:
    first, second = registry.register(b"one", of(b"one")), registry.register(b"two", of(b"two"))
    assert (str(first), str(second)) == ("shop:1", "shop:2")
    assert registry.versions("shop") == [1, 2]
    assert registry.names() == ["shop"]
    assert registry.load("shop", 1) == b"one"
    assert registry.load("shop") == b"two"
    assert registry.manifest("shop", 2) == msgspec.structs.replace(of(b"two"), version=2)


def test_a_name_resolves_to_its_newest_version_and_digest(registry: Registry) -> None:
    for number in range(1, 12):
        registry.register(b"%d" % number, of(b"%d" % number))
    digest = hashlib.sha256(b"11").hexdigest()
    assert registry.resolve(ModelRef.parse("shop")) == ModelRef(name="shop", version=11, digest=digest)
    assert registry.resolve(ModelRef.parse("shop:3")).version == 3


def test_the_same_file_with_the_same_bindings_is_the_version_it_has(registry: Registry) -> None:
    registry.register(b"one", of(b"one"))
    registry.register(b"two", of(b"two"))
    later = msgspec.structs.replace(of(b"one"), created=NOW.replace(year=2030))
    assert str(registry.register(b"one", later)) == "shop:1"
    other_binding = msgspec.structs.replace(of(b"one"), column_fingerprint="another")
    assert str(registry.register(b"one", other_binding)) == "shop:3"


def test_models_do_not_share_versions(registry: Registry) -> None:
    registry.register(b"one", of(b"one"))
    assert str(registry.register(b"one", of(b"one", "other"))) == "other:1"
    assert registry.names() == ["other", "shop"]


def test_a_manifest_of_another_file_is_refused(registry: Registry) -> None:
    with pytest.raises(Misdeclared, match="The manifest is of"):
        registry.register(b"one", of(b"two"))
    assert registry.names() == []


def test_what_is_missing_is_named_with_what_there_is(registry: Registry) -> None:
    with pytest.raises(Misdeclared, match="no model 'shop'; it has nothing"):
        registry.load("shop")
    registry.register(b"one", of(b"one"))
    with pytest.raises(Misdeclared, match="no model 'shpo'; did you mean 'shop'"):
        registry.load("shpo")
    with pytest.raises(Misdeclared, match="no shop:4; shop has versions 1"):
        registry.manifest("shop", 4)
    with pytest.raises(Misdeclared, match=r"has the digest .* and abc was asked for"):
        registry.resolve(ModelRef(name="shop", version=1, digest="abc"))


def test_a_half_written_version_is_none_and_its_number_is_not_used(tmp_path: Path) -> None:
    registry = Registry.at(str(tmp_path))
    registry.register(b"one", of(b"one"))
    (tmp_path / "shop" / "2").mkdir()
    (tmp_path / "shop" / "2" / "model.onnx").write_bytes(b"half")
    assert registry.versions("shop") == [1]
    assert str(registry.register(b"three", of(b"three"))) == "shop:3"


def test_a_changed_file_is_refused_before_it_is_used(tmp_path: Path) -> None:
    registry = Registry.at(str(tmp_path))
    registry.register(b"one", of(b"one"))
    (tmp_path / "shop" / "1" / "model.onnx").write_bytes(b"0ne")
    with pytest.raises(Misdeclared, match="the file was changed or torn"):
        registry.load("shop")


def test_a_torn_manifest_is_refused(tmp_path: Path) -> None:
    registry = Registry.at(str(tmp_path))
    registry.register(b"one", of(b"one"))
    path = tmp_path / "shop" / "1" / "manifest.json"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(Misdeclared, match=r"shop/1/manifest\.json is torn"):
        registry.load("shop")


def test_a_registry_that_can_not_be_read_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    registry = Registry.at(str(tmp_path / "file"))
    with pytest.raises(Unavailable, match="check the registry's address"):
        registry.register(b"one", of(b"one"))
    broken = Registry.at(str(tmp_path / "registry"))
    broken.register(b"one", of(b"one"))
    (tmp_path / "registry" / "shop" / "1" / "model.onnx").unlink()
    with pytest.raises(Unavailable, match="Can't read"):
        broken.load("shop")


def test_two_registrations_at_once_get_two_versions(tmp_path: Path) -> None:
    models = [b"model %d" % number for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        refs = list(pool.map(lambda model: Registry.at(str(tmp_path)).register(model, of(model)), models))
    registry = Registry.at(str(tmp_path))
    assert sorted(ref.version or 0 for ref in refs) == list(range(1, 25))
    assert [registry.load("shop", ref.version) for ref in refs] == models
    assert all(path.name.isdecimal() for path in (tmp_path / "shop").iterdir())


def test_a_registry_that_overtakes_this_one_is_told_in_an_object_store() -> None:
    class Overtaken(Registry):
        def _write(self, name: str, folder: str, model: bytes, manifest: Manifest) -> None:
            super()._write(name, folder, model, manifest)
            super()._write(name, folder, b"theirs", msgspec.structs.replace(of(b"theirs"), version=1))

    with pytest.raises(Unavailable, match="Another process registered shop:1"):
        Overtaken(fs._MockFileSystem(), "bucket").register(b"one", of(b"one"))


@pytest.mark.parametrize(
    ("text", "ref"),
    [("flights:3", ModelRef(name="flights", version=3)), ("a.b-c_d", ModelRef(name="a.b-c_d"))],
)
def test_a_reference_is_written_as_it_is_read(text: str, ref: ModelRef) -> None:
    assert ModelRef.parse(text) == ref
    assert str(ref) == text


@pytest.mark.parametrize(
    "text", ["", "a/b", "../x", ".hidden", "flights:", "flights:x", "flights:0", "flights:-1"]
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(Misdeclared):
        ModelRef.parse(text)


def test_a_place_may_be_a_uri(tmp_path: Path) -> None:
    registry = Registry.at(f"file://{tmp_path}/registry")
    registry.register(b"one", of(b"one"))
    assert Registry.at(str(tmp_path / "registry")).load("shop") == b"one"
    with pytest.raises(Misdeclared, match="no usable URI"):
        Registry.at("ftp://nowhere/x")
