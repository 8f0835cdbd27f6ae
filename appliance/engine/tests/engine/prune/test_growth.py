"""A prune after backups reads what came, and finds nothing to do only where a count does."""

import os
import random
import shutil

import msgspec
import pytest
from msgspec.structs import replace

from kit.passing_store import PassingStore
from kit.tiny_backup import THOROUGH, TinyBackup, back_up, files, new_repository, read_back
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import DamageError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.prune.growth import Growth, grown
from strongroom.engine.prune.kept_outcome import RECOUNT_SECONDS, KeptOutcome, Listed
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.index.objects import write_index_object
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.share.share import ShareOptions, share
from strongroom.engine.stores.local import LocalStore

FIGURES = ("snapshots", "packs", "pack_bytes", "used_bytes", "unused_bytes")


class Reads(PassingStore):
    """Counts what is read of objects, and says what is unverified."""

    def __init__(self, inner):
        super().__init__(inner, lambda _: None)
        self.reads = 0
        self.new = {}

    def get(self, kind, name, offset=0, length=None):
        self.reads += kind in ("packs", "index", "snapshots")
        return super().get(kind, name, offset, length)

    def unverified(self, kind):
        return self.new.get(kind, frozenset())


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


def run(repository, options=THOROUGH):
    repository.store.reads = 0
    return prune(repository, options, NullProgress())


def keep(repository, options=THOROUGH):
    for _ in range(6):
        report = run(repository, options)
        if report.counted_ns:
            return report
    raise AssertionError("nothing was kept")


def count(repository, options=THOROUGH):
    """What a count finds, without a cache and without a change."""
    bare = opened(repository, None)
    return prune(bare, replace(options, dry_run=True), NullProgress())


def names(repository, kind):
    return {info.name for info in repository.store.list(kind)}


def writing(repository, host="host"):
    return repository.for_client(host)


def test_after_a_backup_only_what_came_is_read(repository):
    first = keep(repository)
    back_up(writing(repository), files(1, 2, 30))
    report = run(repository)
    assert report.counted_ns == first.counted_ns
    assert not report.marked_packs
    few = repository.store.reads
    counted = count(repository)
    assert [getattr(report, name) for name in FIGURES] == [
        getattr(counted, name) for name in FIGURES
    ]
    # As much however much was there before.
    for number in range(100, 112):
        back_up(writing(repository), files(*range(number, number + 3)))
    keep(repository)
    back_up(writing(repository), files(1, 2, 31))
    assert run(repository).counted_ns
    assert repository.store.reads == few
    # And none of it again.
    assert run(repository).counted_ns
    assert not repository.store.reads


def test_a_backup_of_another_client_and_one_without_anything_new(repository):
    keep(repository)
    back_up(writing(repository, "other"), files(1, 50))
    assert run(repository).counted_ns
    backup = TinyBackup(writing(repository, "other"))
    backup.commit()
    assert run(repository).counted_ns
    counted = count(repository)
    assert (counted.removed_packs, counted.unused_bytes) == (0, 0)


def test_a_block_that_was_stored_again_is_freed_by_the_next_count(repository):
    keep(repository)
    # The same page: this writer does not look for it.
    made = []
    for _ in range(2):
        made.append(back_up(writing(repository), files(1, 61)))
        assert run(repository).counted_ns
    report = run(repository, replace(THOROUGH, recount=True))
    assert (report.removed_packs, report.recount) == (1, "different")
    assert all(read_back(repository, one.id) == files(1, 61) for one in made)


def test_a_recount_of_what_came_agrees(repository):
    keep(repository)
    back_up(writing(repository), files(1, 60))
    assert run(repository).counted_ns
    assert run(repository, replace(THOROUGH, recount=True)).recount == "same"


def unindexed_pack(repository):
    backup = TinyBackup(writing(repository))
    backup.store(files(80))
    backup.abandon()


def unused_pack(repository):
    backup = TinyBackup(writing(repository))
    backup.store(files(81))
    backup.checkpoint()
    backup.abandon()


def partly_used(repository):
    backup = TinyBackup(writing(repository))
    backup.store(files(*range(82, 90)))
    backup.checkpoint()
    backup.abandon()
    back_up(writing(repository), files(82))


def forgotten(repository):
    back_up(writing(repository), files(90))
    repository.store.delete("snapshots", next(repository.store.list("snapshots")).name)


def come_and_gone(repository):
    """A snapshot that no prune saw leaves its packs."""
    made = back_up(writing(repository), files(91))
    repository.store.delete("snapshots", made.id)


def marked(repository):
    pack = bytes.fromhex(next(repository.store.list("packs")).name)
    write_tombstone(repository.store, repository.key, SHARED, [pack], repository.cipher)


def damaged(repository, kind):
    before = {info.name for info in repository.store.list(kind)}
    back_up(writing(repository), files(92))
    (name,) = {info.name for info in repository.store.list(kind)} - before
    path = os.path.join(repository.store.location, kind, name)
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        byte = file.read(1)
        file.seek(-3, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))


def no_longer_unverified(repository):
    repository.store.new = {"packs": frozenset({next(repository.store.list("packs")).name})}


def unverified(repository):
    repository.store.new = {"snapshots": frozenset({back_up(writing(repository), files(93)).id})}


CHANGES = {
    "pack in no index": unindexed_pack,
    "pack that nothing uses": unused_pack,
    "pack of which little is used": partly_used,
    "snapshot gone": forgotten,
    "snapshot come and gone": come_and_gone,
    "pack marked": marked,
    "judged": no_longer_unverified,
    "unverified": unverified,
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_not_only_more_is_counted(repository, change):
    keep(repository)
    CHANGES[change](repository)
    kept = KeptOutcome(repository.for_all_clients(), "prune", (1.0, 0.0))
    assert kept.earlier is not None
    assert not run(repository).counted_ns


@pytest.mark.parametrize("kind", ["index", "snapshots"])
def test_a_new_object_that_is_damaged_is_reported_as_by_a_count(repository, kind):
    keep(repository)
    damaged(repository, kind)
    with pytest.raises(DamageError):
        run(repository)


def described(repository, host, pack_ids, *, superseded=()):
    """An index object in which a client says of packs that they are its own."""
    client = writing(repository, host)
    footers = []
    for pack_id in pack_ids:
        footer = read_footer(repository.store, repository.key, pack_id)
        footers.append(msgspec.structs.replace(footer, owner=client.writer.client_id))
    return write_index_object(
        repository.store, client.key, client.writer.client_id, footers, superseded, client.cipher
    )


def test_a_client_that_names_packs_of_others_or_none_makes_a_prune_count(repository):
    keep(repository)
    old = [bytes.fromhex(info.name) for info in repository.store.list("packs")]
    back_up(writing(repository), files(95))
    new = {bytes.fromhex(info.name) for info in repository.store.list("packs")} - {*old}
    expected = {
        info.name: read_back(repository, info.name) for info in repository.store.list("snapshots")
    }
    for claimed in (old[:1], sorted(new)[:1], [*new, old[0]]):
        name = described(repository, "liar", claimed)
        kept = KeptOutcome(repository.for_all_clients(), "prune", (1.0, 0.0))
        assert grown(repository.for_all_clients(), kept.earlier, kept.listed, THOROUGH) is None
        repository.store.delete("index", name)
    described(repository, "liar", [*new, *old])
    for _ in range(3):
        run(repository)
    assert {one: read_back(repository, one) for one in expected} == expected


def test_an_index_object_that_replaces_another_makes_a_prune_count(repository):
    keep(repository)
    (name, *_) = (info.name for info in repository.store.list("index"))
    back_up(writing(repository), files(96))
    described(repository, "host", [], superseded=(name,))
    kept = KeptOutcome(repository.for_all_clients(), "prune", (1.0, 0.0))
    assert grown(repository.for_all_clients(), kept.earlier, kept.listed, THOROUGH) is None


def test_more_blocks_than_fit_into_memory_are_counted_in_parts(repository):
    keep(repository)
    back_up(writing(repository), files(*range(200, 220)))
    assert not run(repository, replace(THOROUGH, memory_bytes=900)).counted_ns
    back_up(writing(repository), files(221))
    assert run(repository, replace(THOROUGH, memory_bytes=900)).counted_ns


@pytest.mark.parametrize("seconds", [RECOUNT_SECONDS, -10])
def test_an_outcome_of_a_week_ago_or_of_the_future_is_no_beginning(
    repository, monkeypatch, seconds
):
    keep(repository)
    for number in range(3):
        back_up(writing(repository), files(200 + number))
        assert run(repository).counted_ns
    now_ns = clock.now_ns() + seconds * SECOND_NS
    monkeypatch.setattr(clock, "now_ns", lambda: now_ns)
    back_up(writing(repository), files(210))
    assert not run(repository).counted_ns


def test_a_repository_that_was_set_back_and_continued_is_counted(repository, tmp_path):
    place = repository.store.location
    shutil.copytree(place, tmp_path / "before")
    keep(repository)
    back_up(writing(repository), files(1, 70))
    assert run(repository).counted_ns
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "before", place)
    repository = opened(repository, repository.cache_folder)
    back_up(writing(repository), files(1, 71))
    assert not run(repository).counted_ns
    report = check(repository, CheckOptions(read_data=DataSubset()), NullProgress())
    assert not report.findings


def test_a_forged_note_of_an_earlier_state_removes_nothing(repository):
    """Someone with all keys and the cache notes that all was used, when half of it is not."""
    keep(repository)
    left = [info.name for info in repository.store.list("snapshots")]
    expected = {name: read_back(repository, name) for name in left[1:]}
    repository.store.delete("snapshots", left[0])
    kept = KeptOutcome(repository.for_all_clients(), "prune", (1.0, 0.0))
    forged = msgspec.structs.replace(kept.earlier, listed=kept.listed, figures=(9, 9, 9, 9, 9))
    kept.keep_grown(forged)
    packs = {info.name for info in repository.store.list("packs")}
    back_up(writing(repository), files(72))
    assert run(repository).counted_ns
    assert packs <= {info.name for info in repository.store.list("packs")}
    # The next count frees what is unused, and nothing else.
    report = run(repository, replace(THOROUGH, recount=True))
    assert report.removed_packs
    assert {name: read_back(repository, name) for name in left[1:]} == expected
    assert not check(repository, CheckOptions(read_data=DataSubset()), NullProgress()).findings


class Killed(BaseException):
    """Nothing handles it, as nothing handles a kill."""


def test_a_prune_of_what_came_that_is_killed_anywhere_leaves_a_repository_as_it_was(
    repository, tmp_path
):
    keep(repository)
    cache = os.fsdecode(repository.cache_folder)
    made = back_up(writing(repository), files(1, 73))
    shutil.copytree(cache, tmp_path / "kept")
    objects = {kind: names(repository, kind) for kind in ("packs", "index", "snapshots")}
    for number in range(1, 200):

        def kill(count, at=number):
            if count == at:
                raise Killed

        shutil.rmtree(cache)
        shutil.copytree(tmp_path / "kept", cache)
        store = PassingStore(LocalStore(repository.store.location), kill)
        key = repository.for_all_clients().key
        try:
            killed = Repository(store, repository.config, key, cache_folder=os.fsencode(cache))
            prune(killed, THOROUGH, NullProgress())
        except Killed:
            pass
        else:
            break
        # The lease of one that is gone is that of a process of this machine.
        for lease in list(repository.store.list("leases")):
            repository.store.delete("leases", lease.name)
        assert {kind: names(repository, kind) for kind in objects} == objects
        assert run(repository).counted_ns
    assert 20 < number < 199
    assert read_back(repository, made.id) == files(1, 73)


LOOSE = replace(THOROUGH, repack_below=0.8, max_unused=0.3)


@pytest.mark.parametrize("options", [THOROUGH, LOOSE], ids=["strict", "loose"])
@pytest.mark.parametrize("seed", range(6))
def test_nothing_to_do_is_what_a_count_finds_too(repository, options, seed):
    """Backups of two clients, failed ones, forgotten ones and prunes, in any order."""
    chance = random.Random(seed)
    expected = {
        info.name: read_back(repository, info.name) for info in repository.store.list("snapshots")
    }
    for _ in range(20):
        what = chance.choices(["backup", "fail", "forget", "prune"], [6, 1, 1, 6])[0]
        mine = files(*chance.sample(range(40), chance.randint(1, 8)))
        if what == "backup":
            made = back_up(writing(repository, chance.choice(["host", "other"])), mine)
            expected[made.id] = mine
        elif what == "fail":
            backup = TinyBackup(writing(repository))
            backup.store(mine)
            if chance.random() < 0.5:
                backup.checkpoint()
            backup.abandon()
        elif what == "forget" and len(expected) > 1:
            name = chance.choice(sorted(expected))
            repository.store.delete("snapshots", name)
            del expected[name]
        else:
            before = count(repository, options)
            report = run(repository, options)
            if report.counted_ns:
                assert (before.removed_packs, before.repacked_packs) == (0, 0)
                # Never less than there is.
                assert report.unused_bytes >= before.unused_bytes
                assert report.used_bytes <= before.used_bytes
            assert report.packs == before.packs
            assert report.snapshots == before.snapshots
    assert {name: read_back(repository, name) for name in expected} == expected
    assert not check(repository, CheckOptions(read_data=DataSubset()), NullProgress()).findings


def test_what_came_between_two_lists():
    row = lambda number: bytes([number]) * 32 + number.to_bytes(8, "little")  # noqa: E731
    kinds = ("packs", "snapshots", "tombstones", "index")

    def listed(**numbers):
        rows = {kind: b"".join(map(row, numbers.get(kind, ()))) for kind in kinds}
        return Listed(rows, dict.fromkeys(kinds, ()))

    before = listed(packs=(1, 2), snapshots=(1,), index=(5,))
    assert Growth.between(before, before) == Growth({}, [], [])
    now = listed(packs=(1, 2, 3), snapshots=(0, 1, 9), index=(5,))
    names = [(bytes([number]) * 32).hex() for number in (0, 9)]
    assert Growth.between(before, now) == Growth({bytes([3]) * 32: 3}, names, [])
    assert Growth.between(now, before) is None
    assert Growth.between(before, listed(packs=(1, 3), snapshots=(1,), index=(5,))) is None


def test_share_reads_only_what_came(repository):
    def run_share():
        repository.store.reads = 0
        return share(repository, ShareOptions(2), NullProgress())

    run_share()
    run_share()
    assert not repository.store.reads
    back_up(writing(repository), files(1, 2, 30))
    run_share()
    few = repository.store.reads
    assert 0 < few <= 2
    run_share()
    assert not repository.store.reads
    # What is offered is found, whatever was kept.
    for host in ("a", "b"):
        backup = TinyBackup(repository, host)
        backup.store(files(1, 2), offered=True)
        backup.commit()
        shared = run_share().shared_chunks
    assert shared == 2
