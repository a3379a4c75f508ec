"""Checkpoints on a file system: what is torn, foreign or of another format is never taken for a state."""

import os
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from features.engine import PartitionState
from features.errors import Unavailable
from tests.features import streams
from tests.features.saved import contents
from tests.features.test_engine import MIXED
from tests.workers.checkpoints import s3
from workers.checkpoints import manifest, writing
from workers.checkpoints.manifest import Checkpoint, Lineage, Unreadable
from workers.checkpoints.store import CheckpointStore
from workers.checkpoints.writing import Writing

LINEAGE = Lineage("shop", "events", "5eed" * 8, 3, MIXED.state_fingerprint, 1)
EVENTS = [
    {"card": f"card-{i % 11}", "shop": "a", "ts": i * 700, "amount": float(i), "kind": "buy"}
    for i in range(300)
]


class Owner:
    """Folds events and writes checkpoints."""

    def __init__(self, store: CheckpointStore) -> None:
        self.state = MIXED.new_partition()
        self.writing = Writing(store, LINEAGE, MIXED.layout, 0)
        self.at = 0

    def fold(self, until: int) -> "Owner":
        streams.process(MIXED, EVENTS[self.at : until], state=self.state)
        self.at = until
        return self

    def save(self) -> Checkpoint:
        everything = self.writing.wants_everything
        saving = self.state.begin_saving(everything=everything)
        writer = self.writing.begin(saving.watermark, self.at, everything=everything)
        while not saving.is_done:
            saving.step(3)
        return writer.close(saving.take())


def folded(until: int) -> PartitionState:
    state = MIXED.new_partition()
    streams.process(MIXED, EVENTS[:until], state=state)
    return state


def loaded(store: CheckpointStore, checkpoint: Checkpoint) -> PartitionState:
    state = MIXED.new_partition()
    store.load(checkpoint, state)
    return state


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore.at(str(tmp_path))


@pytest.mark.timeout(1200)  # the first time the server is built
def test_s3_holds_checkpoints_as_a_folder_does(tmp_path: Path) -> None:
    with s3.bucket(tmp_path / "s3") as uri:
        store = CheckpointStore.at(uri)
        assert list(store.checkpoints(LINEAGE)) == []
        owner = Owner(store)
        for until in (100, 101, 130, 200):
            owner.fold(until).save()
        found = list(store.checkpoints(LINEAGE))
        assert [each.next_offset for each in found] == [200, 130, 101, 100]
        for each in found:
            assert contents(loaded(store, each)) == contents(folded(each.next_offset))
        owner.writing.prune(150)
        assert [each.next_offset for each in store.checkpoints(LINEAGE)] == [200, 130, 101]
        there, _ = fs.FileSystem.from_uri(uri)
        path = f"states/of/ours/{LINEAGE.folder}/{found[1].files[-1].name}"
        with there.open_input_file(path) as whole:
            data = whole.read()
        with there.open_output_stream(path) as torn:
            torn.write(data[:-1])
        with pytest.raises(Unreadable, match="is torn"):
            loaded(store, found[1])
    with pytest.raises(Unavailable, match="check the address of the checkpoints"):
        owner.fold(300).save()


def files(folder: Path, ending: str) -> list[Path]:
    return sorted(folder.rglob(f"*{ending}"))


def test_a_whole_checkpoint_and_then_changes_are_the_state(store: CheckpointStore, tmp_path: Path) -> None:
    owner = Owner(store)
    for until in (100, 101, 103, 200):
        owner.fold(until).save()
    found = list(store.checkpoints(LINEAGE))
    assert [each.next_offset for each in found] == [200, 103, 101, 100]
    assert [len(each.files) for each in reversed(found)] == [1, 2, 3, 4]
    sizes = [path.stat().st_size for path in files(tmp_path, ".arrow")]
    assert max(sizes[1:3]) < sizes[0] / 2
    for each in found:
        assert contents(loaded(store, each)) == contents(folded(each.next_offset))


def test_changes_that_outweigh_the_whole_make_the_next_one_whole(store: CheckpointStore) -> None:
    owner = Owner(store)
    lengths = [len(owner.fold(until).save().files) for until in range(20, 300, 20)]
    assert lengths[0] == 1
    assert max(lengths) < 6
    assert lengths.count(1) > 1


@pytest.mark.parametrize("ending", [".json", ".arrow"])
@settings(max_examples=60)
@given(data=st.data())
def test_a_torn_file_is_never_taken_for_a_state(
    ending: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cut short at any byte, or one bit of it changed: the checkpoint before it is used."""
    folder = tmp_path_factory.mktemp("checkpoints")
    store = CheckpointStore.at(str(folder))
    owner = Owner(store)
    owner.fold(30).save()
    owner.fold(60).save()
    path = files(folder, ending)[-1]
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:at])
    else:
        whole[at] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(whole)
    usable = []
    for checkpoint in store.checkpoints(LINEAGE):
        try:
            usable.append(loaded(store, checkpoint))
        except Unreadable:
            continue
    assert [contents(state) for state in usable] == [contents(folded(30))]


def test_a_missing_file_is_named(store: CheckpointStore, tmp_path: Path) -> None:
    checkpoint = Owner(store).fold(30).save()
    files(tmp_path, ".arrow")[0].unlink()
    with pytest.raises(Unreadable, match=r"00030-\w+-0.arrow is missing"):
        loaded(store, checkpoint)


def test_a_newer_format_and_a_foreign_manifest_are_passed_over(
    store: CheckpointStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Owner(store).fold(30).save()
    store.add(msgspec.structs.replace(Owner(store).fold(40).save(), format=2))
    folder = files(tmp_path, ".json")[0].parent
    (folder / f"{50:020d}-cafe.json").write_bytes(b"{}")
    foreign = msgspec.structs.replace(first, lineage=LINEAGE._replace(topic_id="0" * 32))
    (folder / f"{60:020d}-beef.json").write_bytes(manifest.encode(foreign))
    assert list(store.checkpoints(LINEAGE)) == [first]
    said = caplog.text
    assert "has format 2, this version reads 1" in said
    assert "cafe.json is torn or no manifest" in said
    assert "is of another lineage" in said


def test_another_layout_is_not_taken_over(store: CheckpointStore) -> None:
    owner = Owner(store)
    owner.writing.layout = "0" * 16
    with pytest.raises(Unreadable, match="laid out in another way"):
        loaded(store, owner.fold(10).save())


@given(
    saves=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 40)), min_size=1, max_size=14),
    committed=st.integers(0, 300),
)
@settings(max_examples=60)
def test_two_owners_at_once_leave_two_usable_checkpoints(
    saves: list[tuple[int, int]], committed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each folds, saves and prunes by itself; a zombie goes on behind or ahead of its successor."""
    store = CheckpointStore.at(str(tmp_path_factory.mktemp("checkpoints")))
    owners, written = (Owner(store), Owner(store)), list[int]()
    for number, events in saves:
        owner = owners[number]
        owner.fold(min(owner.at + events, len(EVENTS))).save()
        owner.writing.prune(committed)
        written += [owner.at] * (owner.at <= committed)
    usable = []
    for each in store.checkpoints(LINEAGE):
        if each.next_offset <= committed:
            try:
                assert contents(loaded(store, each)) == contents(folded(each.next_offset))
            except (
                Unreadable
            ):  # of an owner that is so far behind that its older files were not needed any more
                continue
            usable.append(each.next_offset)
    assert len(usable) >= min(2, len(written))


def test_an_owner_whose_older_files_are_gone_begins_anew(store: CheckpointStore) -> None:
    ahead, behind = Owner(store), Owner(store)
    for until in (20, 30):
        ahead.fold(until).save()
    behind.fold(10).save()
    behind.writing.prune(committed=100)
    checkpoint = behind.fold(40).save()
    assert len(checkpoint.files) == 1
    assert contents(loaded(store, checkpoint)) == contents(folded(40))


def test_pruning_leaves_two_usable_ones_what_lies_ahead_and_who_still_writes(
    store: CheckpointStore, tmp_path: Path
) -> None:
    owner = Owner(store)
    for until in range(20, 220, 20):
        owner.fold(until).save()
    other = Owner(store)
    unfinished = store.writer(LINEAGE, f"{100:020d}-{other.writing.writer}-0.arrow")
    store.prune(LINEAGE, 150)
    left = [each.next_offset for each in store.checkpoints(LINEAGE)]
    assert left == [200, 180, 160, 140, 120]
    unfinished.close()
    assert files(tmp_path, f"{other.writing.writer}-0.arrow")
    for each in store.checkpoints(LINEAGE):
        assert contents(loaded(store, each)) == contents(folded(each.next_offset))


def test_files_that_no_manifest_will_name_are_deleted_after_an_hour(
    store: CheckpointStore, tmp_path: Path
) -> None:
    owner = Owner(store)
    for until in (10, 20):
        owner.fold(until).save()
    store.writer(LINEAGE, f"{5:020d}-dead-0.arrow").close()
    (orphan,) = files(tmp_path, "dead-0.arrow")
    store.prune(LINEAGE, 100)
    assert orphan.exists()
    old = time.time() - 3700
    for path in tmp_path.rglob("*-*.*"):
        os.utime(path, (old, old))
    store.prune(LINEAGE, 100)
    assert not orphan.exists()
    assert [each.next_offset for each in store.checkpoints(LINEAGE)] == [20, 10]


def test_large_states_have_several_files(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FILE_BYTES", 2000)
    owner = Owner(store).fold(300)
    saving = owner.state.begin_saving()
    writer = owner.writing.begin(saving.watermark, 300, everything=True)
    while not saving.is_done:
        saving.step(1)
        saving._sets[0]._turn_over()
        writer.write(saving.take())
    checkpoint = writer.close(saving.take())
    assert len(checkpoint.files) > 1
    assert contents(loaded(store, checkpoint)) == contents(folded(300))


def test_a_store_that_takes_nothing_says_what_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("a file where a folder has to be")
    with pytest.raises(Unavailable, match="check the address of the checkpoints, its rights, its space"):
        Owner(CheckpointStore.at(str(tmp_path))).fold(10).save()
