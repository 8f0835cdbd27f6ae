"""A check of what is new finds what a complete check finds of it, and reads nothing else."""

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from kit.passing_store import PassingStore
from kit.tiny_backup import THOROUGH, TinyBackup, back_up, files, new_repository
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.prune.kept_outcome import RECOUNT_SECONDS
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository import cache_folder
from strongroom.engine.repository.packs import KIND_DATA
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.stores.local import LocalStore

ALL = CheckOptions(processes=1)
NEW = CheckOptions(processes=1, only_new=True)


class Reads(PassingStore):
    """Notes which packs are read, and index objects, by their names, as often as they are."""

    def __init__(self, inner):
        super().__init__(inner, lambda _: None)
        self.packs = set()
        self.index = []

    def get(self, kind, name, offset=0, length=None):
        if kind == "packs":
            self.packs.add(name)
        elif kind == "index":
            self.index.append(name)
        return super().get(kind, name, offset, length)


@pytest.fixture
def repository(tmp_path):
    made = new_repository(LocalStore(str(tmp_path / "r")))
    for number in range(3):
        back_up(made, files(*range(number, number + 5)))
    yield opened(made, os.fsencode(tmp_path / "cache"))
    made.close()


def opened(repository, cache):
    store = Reads(LocalStore(repository.store.location))
    return Repository.open(store, repository.for_all_clients().key, cache_folder=cache)


def run(repository, options):
    repository.store.packs.clear()
    repository.store.index.clear()
    return check(repository, options, NullProgress())


def names(repository, kind):
    return {info.name for info in repository.store.list(kind)}


def more(repository, *numbers):
    """Packs that come with a backup."""
    before = names(repository, "packs")
    back_up(repository.for_client("host"), files(*numbers))
    return names(repository, "packs") - before


def path_of(repository, kind, name):
    folder = name[:2] if kind == "packs" else ""
    path = os.path.join(repository.store.location, kind, folder, name)
    os.chmod(path, 0o600)
    return path


def flip(repository, kind, name):
    with open(path_of(repository, kind, name), "r+b") as file:
        file.seek(-9, os.SEEK_END)
        byte = file.read(1)
        file.seek(-9, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))


def test_only_what_came_is_read(repository):
    assert not run(repository, NEW).since_ns
    assert repository.store.packs == names(repository, "packs")
    assert run(repository, NEW).since_ns
    assert not repository.store.packs
    came = more(repository, 1, 30)
    report = run(repository, replace(NEW, read_data=DataSubset()))
    assert (report.read_packs, report.pages, report.findings) == (2, 1, ())
    assert repository.store.packs == came
    run(repository, NEW)
    assert not repository.store.packs
    assert not run(repository, ALL).since_ns
    assert repository.store.packs == names(repository, "packs")


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots"])
@pytest.mark.parametrize("damage", [flip, "cut", "gone"])
def test_damage_of_what_came_is_found_as_by_a_complete_check(repository, kind, damage):
    run(repository, ALL)
    before = names(repository, kind)
    back_up(repository.for_client("host"), files(1, 31))
    name = min(names(repository, kind) - before)
    hurt(repository, kind, name, damage)
    assert run(repository, NEW).findings == run(opened(repository, None), ALL).findings
    # It is not taken for verified by the next one.
    assert run(repository, NEW).findings == run(opened(repository, None), ALL).findings


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots"])
@pytest.mark.parametrize("damage", [flip, "cut", "gone"])
def test_damage_of_what_was_there_is_found_where_it_is_not_within_a_pack(repository, kind, damage):
    run(repository, ALL)
    name = min(names(repository, kind))
    more(repository, 1, 32)
    hurt(repository, kind, name, damage)
    found, complete = run(repository, NEW).findings, run(opened(repository, None), ALL).findings
    if (kind, damage) == ("packs", flip):
        assert (found, len(complete)) == ((), 1)
    else:
        assert found == complete


def hurt(repository, kind, name, damage):
    path = path_of(repository, kind, name)
    if damage == "gone":
        os.unlink(path)
    elif damage == "cut":
        os.truncate(path, os.path.getsize(path) - 9)
    else:
        damage(repository, kind, name)


def test_after_a_prune_new_packs_and_all_pages_are_checked(repository):
    first = back_up(repository.for_client("host"), files(*range(50, 58)))
    back_up(repository.for_client("host"), files(50))
    run(repository, ALL)
    before = names(repository, "packs")
    repository.store.delete("snapshots", first.id)
    prune(repository, THOROUGH, NullProgress())
    came = names(repository, "packs") - before
    report = run(repository, NEW)
    assert report.since_ns
    assert came
    assert came <= repository.store.packs
    assert (report.pages, report.findings) == (4, ())
    run(repository, NEW)
    assert not repository.store.packs


def test_a_check_of_one_snapshot_or_with_findings_is_no_beginning(repository):
    run(repository, replace(ALL, snapshot_ids=(min(names(repository, "snapshots")),)))
    assert not run(repository, NEW).since_ns
    other = opened(repository, repository.cache_folder + b"2")
    flip(repository, "packs", min(names(repository, "packs")))
    assert run(other, ALL).findings
    assert not run(other, NEW).since_ns


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("is_of_one_snapshot", [False, True])
def test_what_a_check_found_damaged_is_not_taken_for_verified_later(
    repository, monkeypatch, is_of_one_snapshot, is_full
):
    run(repository, ALL)
    name = min(names(repository, "packs"))
    flip(repository, "packs", name)
    if is_full:
        monkeypatch.setattr(cache_folder, "_LEFT_BYTES", 1 << 62)
    ids = tuple(sorted(names(repository, "snapshots"))) if is_of_one_snapshot else ()
    assert run(repository, replace(ALL, snapshot_ids=ids)).findings
    for _ in range(2):
        assert [one.name for one in run(repository, NEW).findings if one.kind == "packs"] == [name]


@pytest.mark.parametrize("seconds", [RECOUNT_SECONDS, -10])
def test_all_is_verified_each_week(repository, monkeypatch, seconds):
    run(repository, ALL)
    assert run(repository, NEW).since_ns
    now_ns = clock.now_ns() + seconds * SECOND_NS
    monkeypatch.setattr(clock, "now_ns", lambda: now_ns)
    assert not run(repository, NEW).since_ns


def test_a_backup_during_a_check_is_checked_by_the_next(repository):
    run(repository, ALL)
    backup = TinyBackup(repository.for_client("host"))
    backup.store(files(40))
    run(repository, NEW)
    came = names(repository, "packs")
    backup.commit()
    report = run(repository, NEW)
    # Also the pack that no index object named before.
    assert len(repository.store.packs) == 1 + len(names(repository, "packs") - came)
    assert report.findings == ()


@pytest.mark.parametrize("options", [ALL, NEW])
def test_a_marked_pack_that_is_gone_is_damage_where_a_snapshot_needs_it(repository, options):
    run(repository, ALL)
    lost = []
    for number in (40, 41):
        before = names(repository, "packs")
        snapshot = back_up(repository.for_client("host"), files(number))
        (pack,) = (
            one.pack_id
            for one in repository.load_index().packs()
            if one.kind == KIND_DATA and one.pack_id.hex() in names(repository, "packs") - before
        )
        lost.append(pack)
        write_tombstone(repository.store, repository.key, snapshot.owner, [pack], repository.cipher)
        repository.store.delete("packs", pack.hex())
    repository.store.delete("snapshots", snapshot.id)
    (found,) = run(repository, options).findings
    assert (found.kind, found.name) == ("packs", lost[0].hex())
    assert found.problem
    assert (len(found.snapshots), found.paths) == (1, (b"data/file40",))


def test_index_objects_that_were_verified_are_only_compared_with_their_names(repository):
    run(repository, ALL)
    before = names(repository, "index")
    report = run(repository, NEW)
    assert sorted(repository.store.index) == sorted(before)
    complete = run(opened(repository, None), ALL)
    assert (report.packs, report.blocks) == (complete.packs, complete.blocks)
    assert report.index_objects == complete.index_objects == len(before)


def ways_to_damage(kept, others):
    """Contents for a file of the cache that has `kept`."""
    places = {at for at in (0, 9, 40, len(kept) // 2, len(kept) - 1) if at < len(kept)}
    yield from (kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :] for at in places)
    yield from (kept[:at] for at in places)
    yield kept + kept
    yield from others


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots"])
@pytest.mark.parametrize("damage", [flip, "cut", "gone"])
def test_a_damaged_cache_hides_no_damage(repository, kind, damage):
    run(repository, ALL)
    more(repository, 1, 33)
    hurt(repository, kind, min(names(repository, kind)), damage)
    possible = [run(opened(repository, None), ALL).findings]
    if (kind, damage) == ("packs", flip):
        # Within a pack that was verified, as where the cache is sound.
        possible.append(())
    folder = Path(os.fsdecode(repository.cache_folder))
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert kept
    for path, content in kept.items():
        others = [data for one, data in kept.items() if one != path]
        for wrong in ways_to_damage(content, others):
            shutil.rmtree(folder)
            for one, data in kept.items():
                one.parent.mkdir(parents=True, exist_ok=True)
                one.write_bytes(wrong if one == path else data)
            assert run(opened(repository, repository.cache_folder), NEW).findings in possible


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots"])
@pytest.mark.parametrize("damage", [flip, "cut", "gone"])
def test_a_cache_of_an_older_day_hides_no_damage_of_what_came(repository, kind, damage):
    run(repository, ALL)
    folder = os.fsdecode(repository.cache_folder)
    shutil.copytree(folder, folder + "-old")
    before = names(repository, kind)
    more(repository, 1, 34)
    run(repository, NEW)
    hurt(repository, kind, min(names(repository, kind) - before), damage)
    old = opened(repository, os.fsencode(folder + "-old"))
    assert run(old, NEW).findings == run(opened(repository, None), ALL).findings
