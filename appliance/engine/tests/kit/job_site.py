"""A tree, snapshots of it in a repository, and the jobs that tests kill or let fail on them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

from kit.snapshot_contents import Contents, contents
from kit.tiny_backup import CHEAP, THOROUGH, new_repository
from strongroom.base.progress import NullProgress
from strongroom.engine.backup.backup import back_up
from strongroom.engine.backup.options import BackupOptions, Tuning
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.prune.forget import ForgetOptions, forget
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.retention import RetentionRules
from strongroom.engine.repair.repair import RepairOptions, repair
from strongroom.engine.repository.keys.roles import Key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.sources.files import FilesSource
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.store import KINDS, Store
from strongroom.sources.source import SourceRequest

TUNING = Tuning(shards=2)
PACK_SIZE_BYTES = 64 << 10

Job = Callable[["JobSite", "Store"], object]
OpenStore = Callable[[Path], Store]


def open_folder(place: Path) -> Store:
    return LocalStore(str(place))


def write_tree(place: Path, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for number in range(count):
        folder = place / f"folder{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{seed}-{number}").write_bytes(chance.randbytes(chance.randrange(9000)))


class JobSite:
    """A tree, a repository with two snapshots of earlier states of it, and what they hold."""

    def __init__(
        self, place: Path, tree: Path, key: Key, open_store: OpenStore = open_folder
    ) -> None:
        """open_store: the store of a place, which is a folder or only means one."""
        self.place = place
        self.tree = tree
        self.key = key
        self.open_store = open_store
        self.expected: dict[str, Contents] = {}

    @classmethod
    def build(cls, folder: Path, open_store: OpenStore = open_folder) -> JobSite:
        tree = folder / "tree"
        repository = new_repository(open_store(folder / "repository"))
        site = cls(folder / "repository", tree, repository.key, open_store)
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

    def copy(self, place: Path) -> JobSite:
        site = JobSite(place, self.tree, self.key, self.open_store)
        if self.place.exists():
            shutil.copytree(self.place, place)
        else:
            with closing(self.store()) as source, closing(site.store()) as target:
                for kind in KINDS:
                    for info in source.list(kind):
                        target.put(kind, info.name, source.get(kind, info.name))
        site.expected = dict(self.expected)
        return site

    def remove(self) -> None:
        if self.place.exists():
            shutil.rmtree(self.place)
            return
        with closing(self.store()) as store:
            for kind in KINDS:
                for info in store.list(kind):
                    store.delete(kind, info.name)

    def store(self) -> Store:
        return self.open_store(self.place)

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
        assert report.findings == (), report.findings
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


def job_backup(site: JobSite, store: Store) -> None:
    site.back_up(store)


def job_prune(site: JobSite, store: Store) -> None:
    with closing(site.open(store)) as repository:
        prune(repository, THOROUGH, NullProgress())


def job_forget_and_prune(site: JobSite, store: Store) -> None:
    with closing(site.open(store)) as repository:
        options = ForgetOptions(RetentionRules(last=1))
        forget(repository, repository.snapshots(), options, NullProgress())
        prune(repository, THOROUGH, NullProgress())


def job_change_passphrase(site: JobSite, store: Store) -> None:
    with closing(site.open(store)) as repository:
        (old,) = [name for name, _ in repository.passphrases()]
        repository.add_passphrase(b"new", cost=CHEAP)
        repository.remove_passphrase(old)


def job_repair(site: JobSite, store: Store) -> None:
    with closing(site.open(store)) as repository:
        repair(repository, RepairOptions(processes=1), NullProgress())
