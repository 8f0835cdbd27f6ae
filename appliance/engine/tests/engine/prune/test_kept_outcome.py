"""What an earlier prune or share found is found again; it never decides that something goes."""

import os
import shutil

import pytest
from msgspec.structs import replace

from kit.memory_store import MemoryStore
from kit.passing_store import PassingStore
from kit.tiny_backup import THOROUGH, TinyBackup, back_up, new_repository, read_back
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.prune.kept_outcome import RECOUNT_SECONDS, KeptOutcome
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.share.share import ShareOptions, share
from strongroom.engine.stores.capabilities import ChargesShared
from strongroom.engine.stores.local import LocalStore

FILES = {b"a": b"1" * 400, b"b": b"2" * 400, b"c": b"3" * 400}


class Reads(PassingStore):
    """Counts what is read of objects; charges clients; says what is unverified."""

    def __init__(self, inner):
        super().__init__(inner, lambda _: None)
        self.reads = 0
        self.charged = {}
        self.new = frozenset()

    def get(self, kind, name, offset=0, length=None):
        self.reads += kind in ("packs", "index", "snapshots")
        return super().get(kind, name, offset, length)

    def unverified(self, kind):
        return self.new if kind == "packs" else frozenset()

    def capability(self, wanted):
        return self if wanted is ChargesShared else super().capability(wanted)

    def charge(self, client_id, size_bytes):
        self.charged[client_id] = size_bytes


@pytest.fixture
def repository(tmp_path, cache):
    made = new_repository(LocalStore(str(tmp_path / "r")))
    for number in range(3):
        back_up(made, FILES | {b"d": b"%d" % number * 400})
    yield opened(made, cache)
    made.close()


def opened(repository, cache):
    """As another process opens it, with the restore key."""
    store = Reads(LocalStore(repository.store.location))
    return Repository.open(store, repository.for_all_clients().key, cache_folder=cache)


def run(repository, options=THOROUGH):
    repository.store.reads = 0
    return prune(repository, options, NullProgress())


def keep(repository):
    """Prune until there is nothing to do, and that is kept."""
    for _ in range(4):
        report = run(repository)
        if report.counted_ns:
            return report
    raise AssertionError("nothing was kept")


def writing(repository):
    return repository.for_client("host")


def test_where_nothing_came_or_went_nothing_is_read(repository):
    first = run(repository)
    assert not first.counted_ns
    assert repository.store.reads
    again = run(repository)
    assert again.counted_ns
    assert not repository.store.reads
    names = ("snapshots", "packs", "pack_bytes", "used_bytes", "unused_bytes")
    assert [getattr(again, name) for name in names] == [getattr(first, name) for name in names]
    assert not list(repository.store.list("leases"))


def test_clients_are_charged_for_what_they_share_as_before(repository):
    run(repository)
    charged = dict(repository.store.charged)
    assert charged
    repository.store.charged.clear()
    assert run(repository).counted_ns
    assert repository.store.charged == charged


def add_pack(repository):
    backup = TinyBackup(writing(repository))
    backup.store({b"x": b"x" * 300})
    backup.abandon()


def cut(kind):
    def change(repository):
        name = next(repository.store.list(kind)).name
        folder = name[:2] if kind == "packs" else ""
        path = os.path.join(repository.store.location, kind, folder, name)
        os.chmod(path, 0o600)
        os.truncate(path, os.path.getsize(path) - 1)

    return change


def forget_one(repository):
    repository.store.delete("snapshots", next(repository.store.list("snapshots")).name)


def mark(repository):
    pack = bytes.fromhex(next(repository.store.list("packs")).name)
    write_tombstone(repository.store, repository.key, SHARED, [pack], repository.cipher)


def verify_later(repository):
    repository.store.new = frozenset({next(repository.store.list("packs")).name})


CHANGES = {
    "backup": lambda repository: back_up(writing(repository), FILES | {b"e": b"new"}),
    "forget": forget_one,
    "pack": add_pack,
    "mark": mark,
    "pack gone": lambda repository: repository.store.delete(
        "packs", next(repository.store.list("packs")).name
    ),
    "pack cut": cut("packs"),
    "snapshot cut": cut("snapshots"),
    "index cut": cut("index"),
    "unverified": verify_later,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_comes_or_goes_or_is_cut_off_makes_a_prune_read_all_again(repository, change):
    keep(repository)
    kept = KeptOutcome(repository.for_all_clients(), "prune", (1.0, 0.0))
    assert kept.found is not None
    CHANGES[change](repository)
    assert KeptOutcome(repository.for_all_clients(), "prune", (1.0, 0.0)).found is None
    assert not kept.is_unchanged()


def test_other_options_count_again(repository):
    keep(repository)
    assert not run(repository, replace(THOROUGH, max_unused=0.1)).counted_ns


def test_after_what_was_kept_all_that_is_forgotten_goes_and_nothing_else(repository):
    keep(repository)
    left = [info.name for info in repository.store.list("snapshots")]
    expected = {name: read_back(repository, name) for name in left[1:]}
    repository.store.delete("snapshots", left[0])
    assert run(repository).removed_packs
    keep(repository)
    assert {name: read_back(repository, name) for name in left[1:]} == expected
    for name in left[1:]:
        repository.store.delete("snapshots", name)
    run(repository)
    assert not list(repository.store.list("packs"))


def test_while_another_job_runs_nothing_is_kept(repository):
    backup = TinyBackup(writing(repository))
    for _ in range(3):
        assert not run(repository, replace(THOROUGH, spare_seconds=1e6)).counted_ns
    backup.abandon()


def flip(path):
    with open(path, "r+b") as file:
        file.seek(-5, os.SEEK_END)
        byte = file.read(1)
        file.seek(-5, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))


DAMAGE = {
    "flipped": flip,
    "cut": lambda path: os.truncate(path, 40),
    "empty": lambda path: os.truncate(path, 0),
    "gone": os.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_note_that_does_not_open_counts_for_nothing(repository, cache, damage):
    keep(repository)
    for folder, _, names in os.walk(cache + b"/notes"):
        for name in names:
            DAMAGE[damage](os.path.join(folder, name))
    assert not run(repository).counted_ns
    assert run(repository).counted_ns


def test_notes_of_another_repository_or_machine_count_for_nothing(repository, cache, tmp_path):
    keep(repository)
    elsewhere = os.fsencode(tmp_path / "elsewhere")
    shutil.copytree(cache + b"/notes", elsewhere + b"/notes")
    assert not run(opened(repository, elsewhere)).counted_ns


def test_without_a_cache_all_is_read_each_time(repository):
    bare = opened(repository, None)
    for _ in range(3):
        assert not run(bare).counted_ns
        assert bare.store.reads


def test_a_repository_that_was_set_back_is_as_it_was(repository, cache, tmp_path):
    keep(repository)
    place = repository.store.location
    shutil.copytree(place, tmp_path / "before")
    back_up(writing(repository), FILES | {b"f": b"later"})
    keep(repository)
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "before", place)
    repository = opened(repository, cache)
    # The note of the later state took the place of the earlier one.
    assert not run(repository).counted_ns
    forget_one(repository)
    assert run(repository).removed_packs
    report = check(repository, CheckOptions(read_data=DataSubset()), NullProgress())
    assert not report.findings


def forged(repository):
    """Someone with all keys and the cache notes that nothing is to be done, where something is."""
    forget_one(repository)
    KeptOutcome(repository.for_all_clients(), "prune", (1.0, 0.0)).keep((9, 9, 9, 9, 9))


def test_a_forged_note_removes_nothing_and_a_recount_says_that_it_is_wrong(repository):
    forged(repository)
    packs = {info.name for info in repository.store.list("packs")}
    assert run(repository).counted_ns
    assert {info.name for info in repository.store.list("packs")} == packs
    report = run(repository, replace(THOROUGH, recount=True))
    assert report.recount == "different"
    assert report.removed_packs


@pytest.mark.parametrize("seconds", [RECOUNT_SECONDS, -10])
def test_a_note_of_a_week_ago_or_of_the_future_is_counted_again(repository, monkeypatch, seconds):
    forged(repository)
    now_ns = clock.now_ns() + seconds * SECOND_NS
    monkeypatch.setattr(clock, "now_ns", lambda: now_ns)
    report = run(repository)
    assert (report.counted_ns, report.recount) == (0, "different")
    assert report.removed_packs


def test_after_a_count_the_outcome_holds_for_another_week(repository, monkeypatch):
    keep(repository)
    now_ns = clock.now_ns() + RECOUNT_SECONDS * SECOND_NS
    monkeypatch.setattr(clock, "now_ns", lambda: now_ns)
    assert not run(repository).counted_ns
    assert run(repository).counted_ns == now_ns


def test_a_recount_of_what_is_right_says_so(repository):
    keep(repository)
    report = run(repository, replace(THOROUGH, recount=True))
    assert (report.counted_ns, report.recount) == (0, "same")


def test_share_with_nothing_new_reads_nothing(cache):
    made = new_repository(MemoryStore())
    for host in ("a", "b"):
        backup = TinyBackup(made, host)
        backup.store(FILES, offered=True)
        backup.commit()
    store = Reads(made.store)
    repository = Repository(store, made.config, made.for_all_clients().key, cache_folder=cache)

    def run_share(least=3):
        store.reads = 0
        return share(repository, ShareOptions(least), NullProgress())

    first = run_share()
    assert store.reads
    again = run_share()
    assert not store.reads
    assert (again.offered_chunks, again.shared_chunks) == (first.offered_chunks, 0)
    # With other rules, and with one more client, there is something to share.
    assert run_share(2).shared_chunks == 3
    third = TinyBackup(made, "c")
    third.store(FILES | {b"e": b"5" * 400}, offered=True)
    third.commit()
    run_share()
    assert store.reads
    made.close()
