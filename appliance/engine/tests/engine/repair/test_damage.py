"""Damage of every kind of object is found, and repair loses only what was damaged.

action (flip, truncate, delete, swap, duplicate, ...) x kind of object x where in it.
"""

import random
import shutil
from pathlib import Path
from typing import get_args

import pytest

from kit.tiny_backup import (
    CHEAP,
    HOST,
    PASSPHRASE,
    Files,
    TinyBackup,
    back_up,
    new_repository,
    read_back,
)
from strongroom.base.errors import StrongroomError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, CheckReport, DataSubset, check
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repair.repair import RepairOptions, RepairReport, repair
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.store import Kind

EVERYTHING = CheckOptions(read_data=DataSubset(), processes=1)
QUICK_PLACES = (0.05, 0.9)
PLACES = (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.99, 1.0)


def files(*numbers: int) -> Files:
    return {b"file%02d" % number: random.Random(number).randbytes(700) for number in numbers}


class House:
    """A repository with snapshots of two clients, a tombstone and a lease that is held."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.expected: dict[str, Files] = {}

    @classmethod
    def build(cls, place: Path) -> "House":
        house = cls(place)
        repository = new_repository(LocalStore(str(place)))
        repository.add_passphrase(b"another", cost=CHEAP)
        for numbers, host in ((range(12), HOST), (range(6, 20), HOST), (range(8, 14), "other")):
            mine = files(*numbers)
            house.expected[back_up(repository, mine, host).id] = mine
        TinyBackup(repository)
        owner = repository.writer.client_id
        write_tombstone(repository.store, repository.key, owner, [bytes(32)], 1)
        return house

    def copy(self, place: Path) -> "House":
        shutil.copytree(self.place, place)
        house = House(place)
        house.expected = dict(self.expected)
        return house

    def paths(self, kind: Kind) -> list[Path]:
        if kind == "config":
            return [self.place / "config"]
        return sorted(path for path in (self.place / kind).rglob("*") if path.is_file())

    def reopen(self) -> Repository:
        return Repository.open(LocalStore(str(self.place)), PASSPHRASE).for_client(HOST)

    def check(self, options: CheckOptions = EVERYTHING) -> CheckReport:
        return check(self.reopen(), options, NullProgress())

    def repair(self) -> RepairReport:
        return repair(self.reopen(), RepairOptions(processes=1), NullProgress())


@pytest.fixture(scope="module")
def original(module_folder: Path) -> House:
    return House.build(module_folder / "repository")


@pytest.fixture
def house(original: House, folder: Path) -> House:
    return original.copy(folder / "repository")


def flip(path: Path, place: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(place * (len(data) - 1))] ^= 0x40
    path.write_bytes(data)


def truncate(path: Path, place: float) -> None:
    path.write_bytes(path.read_bytes()[: int(place * (path.stat().st_size - 1))])


def lengthen(path: Path, place: float) -> None:
    path.write_bytes(path.read_bytes() + bytes(1 + int(place * 100)))


def blank(path: Path, place: float) -> None:
    """As a disk does that forgot a sector."""
    data = bytearray(path.read_bytes())
    start = int(place * (len(data) - 1))
    end = min(len(data), start + 64)
    if data[start:end] == bytes(end - start):
        data[start] = 1
    else:
        data[start:end] = bytes(end - start)
    path.write_bytes(data)


def found(house: House) -> bool:
    """Whether anything is noticed: the repository does not open, or check has a finding."""
    try:
        return bool(house.check().findings)
    except StrongroomError:
        return True


ALL_KINDS: tuple[Kind, ...] = ("config", "keys", "packs", "index", "snapshots", "tombstones")


def test_a_sound_repository_has_no_findings(house):
    report = house.check()
    assert report.findings == ()
    assert report.snapshots == 3
    assert report.rows == 32
    assert report.read_packs == report.packs
    assert house.repair().actions == ()


def change_and_find(house: House, kind: Kind, action, paths: list[Path], places) -> None:
    for path in paths:
        before = path.read_bytes()
        for place in places:
            action(path, place)
            assert found(house), (path.name, place)
            path.write_bytes(before)
    assert not found(house)


@pytest.mark.parametrize("kind", [*ALL_KINDS, "leases"])
@pytest.mark.parametrize("action", [flip, truncate, lengthen, blank])
def test_a_changed_object_is_found(house, kind, action):
    change_and_find(house, kind, action, house.paths(kind)[:1], QUICK_PLACES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*ALL_KINDS, "leases"])
@pytest.mark.parametrize("action", [flip, truncate, lengthen, blank])
def test_a_changed_object_is_found_wherever_it_is_changed(house, kind, action):
    change_and_find(house, kind, action, house.paths(kind), PLACES)


@pytest.mark.parametrize("kind", ["config", "packs", "index"])
def test_a_missing_object_is_found(house, kind):
    for path in house.paths(kind):
        before = path.read_bytes()
        path.unlink()
        assert found(house), path.name
        path.write_bytes(before)
    assert not found(house)


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots", "keys"])
def test_two_objects_that_changed_places_are_found(house, kind):
    first, second = house.paths(kind)[:2]
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert found(house)


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots", "tombstones", "keys"])
def test_a_copy_under_another_name_is_found(house, kind):
    path = house.paths(kind)[0]
    (path.parent / ("ab" * 32 if kind != "packs" else path.name[:2] * 32)).write_bytes(
        path.read_bytes()
    )
    assert found(house)


def repaired_as_expected(house: House) -> RepairReport:
    """Repair; what is left is sound, and of each snapshot the files that are not reported lost."""
    report = house.repair()
    assert house.check().findings == ()
    repository = house.reopen()
    losses = {loss.snapshot.id: loss for loss in report.losses}
    gone = {action.name for action in report.actions if action.kind == "snapshots"}
    for snapshot_id, expected in house.expected.items():
        loss = losses.get(snapshot_id)
        if loss is None:
            if snapshot_id not in gone:
                assert read_back(repository, snapshot_id) == expected
            continue
        assert all(path.startswith(b"data/") for path in loss.paths)
        lost = {path.removeprefix(b"data/") for path in loss.paths}
        if loss.new_id:
            left = read_back(repository, loss.new_id)
            if not loss.ranges:
                assert set(left) == set(expected) - lost
            assert left.items() <= expected.items()
    # A backup finds its way again, and brings back what was lost.
    again = files(*range(20), *range(30, 34))
    assert read_back(repository, back_up(repository, again).id) == again
    prune(repository, PruneOptions(spare_seconds=-1e6), NullProgress())
    assert check(repository, EVERYTHING, NullProgress()).findings == ()
    return report


def damage_and_repair(house: House, kind: Kind, action, place: float) -> None:
    # The key we open with stays whole.
    paths = [path for path in house.paths(kind) if kind != "keys" or not _opens(path)]
    action(paths[int(place * 7) % len(paths)], place)
    report = repaired_as_expected(house)
    if kind in ("index", "tombstones", "keys", "leases"):
        assert report.losses == ()


REPAIRED_KINDS: tuple[Kind, ...] = (
    "packs",
    "index",
    "snapshots",
    "tombstones",
    "keys",
    "leases",
)


@pytest.mark.parametrize("action", [flip, truncate, blank])
@pytest.mark.parametrize("kind", REPAIRED_KINDS)
def test_repair_loses_only_what_was_damaged(house, kind, action):
    damage_and_repair(house, kind, action, 0.6)


@pytest.mark.slow
@pytest.mark.parametrize("action", [flip, truncate, lengthen, blank])
@pytest.mark.parametrize("kind", REPAIRED_KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_repair_loses_only_what_was_damaged_wherever_it_is(house, kind, action, place):
    damage_and_repair(house, kind, action, place)


def _opens(path: Path) -> bool:
    from strongroom.engine.repository.keys.wrapping import unwrap_key

    return unwrap_key(path.read_bytes(), PASSPHRASE) is not None


@pytest.mark.parametrize("is_marked", [False, True])
@pytest.mark.parametrize("which", range(6))
def test_a_missing_pack_loses_the_files_in_it(house, which, is_marked):
    path = house.paths("packs")[which]
    repository = house.reopen()
    if is_marked:
        index, pack_id = repository.for_all_clients().load_index(), bytes.fromhex(path.name)
        owner = next(index.owners[one.owner] for one in index.packs() if one.pack_id == pack_id)
        write_tombstone(repository.store, repository.key, owner, [pack_id], 1)
    path.unlink()
    assert prune(repository, PruneOptions(spare_seconds=-1e6), NullProgress()).set_aside
    assert house.check().findings
    report = repaired_as_expected(house)
    assert [one.name for one in report.actions if one.kind == "packs"] == [path.name]
    assert report.losses


def test_the_index_is_rebuilt_when_all_of_it_is_gone(house):
    for path in house.paths("index"):
        path.unlink()
    assert repaired_as_expected(house).losses == ()


def test_one_damaged_block_costs_the_files_of_that_block_alone(house):
    index = house.reopen().load_index()
    big = max(index.packs(), key=lambda pack: pack.block_count)
    place = index.location_of(big.first_row + 1)
    path = next(path for path in house.paths("packs") if path.name == big.pack_id.hex())
    data = bytearray(path.read_bytes())
    data[place.offset + 5] ^= 1
    path.write_bytes(data)
    finding = next(item for item in house.check().findings if item.kind == "packs")
    assert finding.path_count == 4
    report = repaired_as_expected(house)
    assert report.saved_blocks == big.block_count - 1
    assert {path for loss in report.losses for path in loss.paths} == set(finding.paths)


def test_a_lost_chunk_is_found_again_in_another_block(folder):
    repository = new_repository(LocalStore(str(folder / "repository")))
    first, second = TinyBackup(repository), TinyBackup(repository)
    # The same chunk in two different blocks, since neither knew of the other.
    first.store(files(1, 2))
    second.store(files(2, 3))
    snapshot = first.commit()
    second.commit()
    index = repository.load_index()
    blocks = index.of_client(snapshot.owner)
    page = repository.snapshot(snapshot.id).pages[0]
    (reference,) = {
        pack.pack_id
        for pack in index.packs()
        if pack.kind == 0
        and pack.first_row
        <= int(blocks.rows_of(_blocks_of(repository, page))[0])
        < pack.first_row + pack.block_count
    }
    repository.store.delete("packs", reference.hex())
    report = repair(repository, RepairOptions(), NullProgress())
    assert report.healed_chunks == 1
    assert [loss.paths for loss in report.losses] == [[b"data/file01"]]
    (loss,) = report.losses
    assert read_back(repository, loss.new_id) == files(2)


def _blocks_of(repository: Repository, page) -> bytes:
    from strongroom.engine.repository.listing.page import decode_page

    blocks = repository.load_index().of_client(repository.writer.client_id)
    raw = repository.block_reader(blocks).block(page.block_id)
    return decode_page(raw)[0].part_blocks[:BLOCK_ID_SIZE]


def test_a_dry_repair_changes_nothing_and_foresees_what_is_lost(house):
    path = max(house.paths("packs"), key=lambda path: path.stat().st_size)
    flip(path, 0.3)
    before = {one: one.read_bytes() for kind in get_args(Kind) for one in house.paths(kind)}
    foreseen = repair(house.reopen(), RepairOptions(dry_run=True, processes=1), NullProgress())
    assert before == {one: one.read_bytes() for kind in get_args(Kind) for one in house.paths(kind)}
    done = house.repair()
    assert [loss.paths for loss in foreseen.losses] == [loss.paths for loss in done.losses]
    assert foreseen.losses


def test_check_of_one_snapshot_ignores_damage_of_others(house):
    index = house.reopen().load_index()
    first, _, third = house.expected
    snapshot = house.reopen().snapshot(first)
    place = index.of_client(snapshot.owner).locate(snapshot.pages[0].block_id)
    next(path for path in house.paths("packs") if path.name == place.pack_id.hex()).unlink()
    assert house.check(CheckOptions(snapshot_ids=(third,))).findings == ()
    assert house.check(CheckOptions(snapshot_ids=(first,))).findings


def test_parts_of_the_data_are_all_of_it_together(house):
    ids = [pack.pack_id for pack in house.reopen().load_index().packs()]
    parts = [DataSubset(number=number, parts=3).chosen(ids) for number in (1, 2, 3)]
    assert set.union(*parts) == set(ids)
    assert sum(map(len, parts)) == len(ids)
    assert 0 < len(DataSubset(share=0.05).chosen(ids)) < len(ids)


def test_check_with_processes_finds_the_same(house):
    flip(max(house.paths("packs"), key=lambda path: path.stat().st_size), 0.4)
    alone = house.check(EVERYTHING)
    together = house.check(CheckOptions(read_data=DataSubset(), processes=3))
    assert alone.findings == together.findings
