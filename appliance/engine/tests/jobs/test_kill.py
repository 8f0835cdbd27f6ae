"""Killed at any operation of the store, a job harms nothing that was there.

Old snapshots keep every byte, check finds nothing, the same job then succeeds, and a backup does
not store again what the killed one had stored.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from kit.killed_process import in_child
from kit.snapshot_contents import Contents, contents
from kit.tiny_backup import CHEAP, PASSPHRASE, new_repository
from strongroom.errors import WrongKeyError
from strongroom.jobs.backup.backup import back_up
from strongroom.jobs.backup.options import BackupOptions, Tuning
from strongroom.jobs.check.check import CheckOptions, DataSubset, check
from strongroom.jobs.repair.repair import RepairOptions, repair
from strongroom.jobs.upkeep.forget import ForgetOptions, forget
from strongroom.jobs.upkeep.prune import PruneOptions, prune
from strongroom.jobs.upkeep.retention import RetentionRules
from strongroom.progress import NullProgress
from strongroom.repo.keys import Key
from strongroom.repo.repository import Repository
from strongroom.sources.files import FilesSource
from strongroom.sources.source import SourceRequest
from strongroom.stores.faults import FaultStore
from strongroom.stores.local import LocalStore
from strongroom.stores.store import Store

QUICK_STRIDE = 6
TUNING = Tuning(shards=2)
PACK_SIZE_BYTES = 64 << 10
THOROUGH = PruneOptions(
    repack_below=1.0, max_unused=0.0, grace_seconds=0.0, spare_seconds=-1e6, threads=1
)
KILLED = -9


def write_tree(place: Path, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for number in range(count):
        folder = place / f"folder{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{seed}-{number}").write_bytes(chance.randbytes(chance.randrange(9000)))


class Site:
    """A tree, a repository with two snapshots of earlier states of it, and what they hold."""

    def __init__(self, place: Path, tree: Path, key: Key) -> None:
        self.place = place
        self.tree = tree
        self.key = key
        self.expected: dict[str, Contents] = {}

    @classmethod
    def build(cls, folder: Path) -> "Site":
        tree = folder / "tree"
        repository = new_repository(LocalStore(str(folder / "repository")))
        site = cls(folder / "repository", tree, repository.key)
        repository.close()
        for seed in (1, 2, 3):
            write_tree(tree, seed, 20)
            if seed < 3:
                site.remember(site.back_up())
            if seed == 1:
                for path in sorted(tree.rglob("1-*"))[::2]:
                    path.unlink()
        # Made large enough that packs fill up on the way.
        (tree / "large").write_bytes(random.Random(4).randbytes(400_000))
        return site

    def copy(self, place: Path) -> "Site":
        shutil.copytree(self.place, place)
        site = Site(place, self.tree, self.key)
        site.expected = dict(self.expected)
        return site

    def store(self) -> LocalStore:
        return LocalStore(str(self.place))

    def open(self, store: Store | None = None) -> Repository:
        return Repository.open(store or self.store(), self.key)

    def back_up(self, store: Store | None = None) -> str:
        source = FilesSource(SourceRequest((os.fsencode(self.tree),)))
        options = BackupOptions(host="host", tuning=TUNING, pack_size_bytes=PACK_SIZE_BYTES)
        with closing(self.open(store)) as repository:
            report = back_up(repository, source, options, lambda: nullcontext(NullProgress()))
        assert report.snapshot is not None
        return report.snapshot.id

    def remember(self, snapshot_id: str) -> None:
        repository = self.open()
        self.expected[snapshot_id] = contents(repository, snapshot_id)
        repository.close()

    def verify(self, forgotten: frozenset[str] = frozenset()) -> None:
        repository = self.open()
        present = {snapshot.id for snapshot in repository.snapshots()}
        assert present >= set(self.expected) - forgotten
        for snapshot_id in present & set(self.expected):
            assert contents(repository, snapshot_id) == self.expected[snapshot_id]
        options = CheckOptions(read_data=DataSubset(), processes=1)
        report = check(repository, options, NullProgress())
        assert report.findings == ()
        repository.close()

    def contents_of_tree(self, snapshot_id: str) -> Contents:
        """Without the folders above it, which other tests change."""
        top = os.fsencode(self.tree).lstrip(b"/")
        # The lease keeps a prune from removing what is being read.
        with closing(self.open()) as repository, repository.lease("host", os.getpid(), "read"):
            found = contents(repository, snapshot_id)
        return {path: one for path, one in found.items() if path.startswith(top)}

    def pack_bytes(self) -> int:
        with closing(self.store()) as store:
            return sum(info.size_bytes for info in store.list("packs"))


@pytest.fixture(scope="module")
def original(module_folder: Path) -> Site:
    return Site.build(module_folder)


Job = Callable[[Site, Store], object]


def job_backup(site: Site, store: Store) -> None:
    site.back_up(store)


def job_prune(site: Site, store: Store) -> None:
    with closing(site.open(store)) as repository:
        prune(repository, THOROUGH, NullProgress())


def job_forget_and_prune(site: Site, store: Store) -> None:
    with closing(site.open(store)) as repository:
        options = ForgetOptions(RetentionRules(last=1))
        forget(repository, repository.snapshots(), options, NullProgress())
        prune(repository, THOROUGH, NullProgress())


def job_change_passphrase(site: Site, store: Store) -> None:
    with closing(site.open(store)) as repository:
        (old,) = [name for name, _ in repository.passphrases()]
        repository.add_passphrase(b"new", cost=CHEAP)
        repository.remove_passphrase(old)


def job_repair(site: Site, store: Store) -> None:
    with closing(site.open(store)) as repository:
        repair(repository, RepairOptions(processes=1), NullProgress())


def kills(original: Site, folder: Path, job: Job, stride: int) -> Iterator[tuple[Site, int]]:
    """Sites after `job` was killed before every stride-th mutating operation."""
    limit = 0
    while True:
        site = original.copy(folder / "site")
        status = in_child(lambda at=limit, here=site: job(here, FaultStore(here.store(), (), at)))
        assert status in (0, KILLED), status
        if status == 0:
            shutil.rmtree(site.place)
            break
        yield site, limit
        shutil.rmtree(site.place)
        limit += stride
    assert limit > stride


def stride_of(slow: bool) -> int:
    return 1 if slow else QUICK_STRIDE


in_both_depths = pytest.mark.parametrize(
    "slow", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "everywhere"]
)


@in_both_depths
def test_a_killed_backup_harms_nothing_and_the_next_goes_on_from_it(original, folder, slow):
    whole = original.copy(folder / "whole")
    before = whole.pack_bytes()
    expected = whole.contents_of_tree(whole.back_up())
    full_bytes = whole.pack_bytes() - before
    for site, _ in kills(original, folder, job_backup, stride_of(slow)):
        site.verify()
        snapshot_id = site.back_up()
        assert site.contents_of_tree(snapshot_id) == expected
        # Only what had not been stored is stored now; a pack more or less for its frame.
        resent = site.pack_bytes() - before - full_bytes
        assert resent < 3000
        site.verify()


@in_both_depths
def test_a_killed_prune_harms_nothing_and_the_next_ends_it(original, folder, slow):
    base = original.copy(folder / "base")
    oldest = next(iter(base.expected))
    base.store().delete("snapshots", oldest)
    del base.expected[oldest]
    pruned = base.copy(folder / "pruned")
    job_prune(pruned, pruned.store())
    for site, _ in kills(base, folder, job_prune, stride_of(slow)):
        site.verify()
        job_prune(site, site.store())
        assert site.pack_bytes() < pruned.pack_bytes() + 3000
        site.verify()
        snapshot_id = site.back_up()
        site.remember(snapshot_id)
        site.verify()


@in_both_depths
def test_a_killed_forget_leaves_whole_snapshots(original, folder, slow):
    gone = frozenset(list(original.expected)[:-1])
    for site, _ in kills(original, folder, job_forget_and_prune, stride_of(slow)):
        site.verify(forgotten=gone)
        job_forget_and_prune(site, site.store())
        site.expected = {name: one for name, one in site.expected.items() if name not in gone}
        site.verify()


def test_a_killed_change_of_passphrase_leaves_one_that_opens(original, folder):
    for site, _ in kills(original, folder, job_change_passphrase, 1):
        opened = 0
        for passphrase in (PASSPHRASE, b"new"):
            try:
                Repository.open(site.store(), passphrase).close()
                opened += 1
            except WrongKeyError:
                continue
        assert opened
        site.verify()


@in_both_depths
def test_a_killed_repair_can_be_repeated(original, folder, slow):
    base = original.copy(folder / "base")
    paths = [path for path in (base.place / "packs").rglob("*") if path.is_file()]
    largest = max(paths, key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 3] ^= 1
    largest.write_bytes(data)
    done = base.copy(folder / "done")
    report = repair(done.open(), RepairOptions(processes=1), NullProgress())
    lost = {path for loss in report.losses for path in loss.paths}
    for site, _ in kills(base, folder, job_repair, stride_of(slow)):
        job_repair(site, site.store())
        repository = site.open()
        options = CheckOptions(read_data=DataSubset(), processes=1)
        assert check(repository, options, NullProgress()).findings == ()
        everything = [one for expected in site.expected.values() for one in expected.items()]
        for snapshot in repository.snapshots():
            for path, held in contents(repository, snapshot.id).items():
                assert (path, held) in everything or path in lost
