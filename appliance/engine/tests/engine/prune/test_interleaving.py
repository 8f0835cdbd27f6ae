"""Jobs that meet at any point of each other lose nothing.

One job runs over a store that stops before its n-th operation, lets others run to their end, and
continues; for every n. So whatever two jobs may do to each other is done, without chance or
threads.
"""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kit.passing_store import PassingStore
from kit.tiny_backup import PASSPHRASE, Files, TinyBackup, back_up, new_repository, read_back
from strongroom.base.progress import NullProgress
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

OPTIONS = PruneOptions(
    repack_below=1.0, max_unused=0.0, grace_seconds=0.0, spare_seconds=-1e6, threads=1
)
# In the quick run only every n-th place is tried.
QUICK_STRIDE = 8


def files(*numbers: int) -> Files:
    return {b"file%d" % number: random.Random(number).randbytes(300) for number in numbers}


def run_prune(repository: Repository) -> None:
    prune(repository, OPTIONS, NullProgress())


class Scene:
    """A repository in which much is to be pruned, and what its snapshots must hold."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.expected: dict[str, Files] = {}

    @classmethod
    def build(cls, place: Path) -> "Scene":
        scene = cls(place)
        repository = new_repository(LocalStore(str(place)))
        everything = back_up(repository, files(*range(12)))
        scene.keep(back_up(repository, files(0, 4, 5, 20)).id, files(0, 4, 5, 20))
        scene.keep(back_up(repository, files(20, 21)).id, files(20, 21))
        repository.store.delete("snapshots", everything.id)
        # A copy of blocks that are there, and a pack that no index knows.
        first, second = TinyBackup(repository), TinyBackup(repository)
        for backup in (first, second):
            backup.store(files(30, 31))
        scene.keep(first.commit().id, files(30, 31))
        scene.keep(second.commit().id, files(30, 31))
        killed = TinyBackup(repository)
        killed.store(files(40))
        killed.abandon()
        return scene

    def copy(self, place: Path) -> "Scene":
        shutil.copytree(self.place, place)
        scene = Scene(place)
        scene.expected = dict(self.expected)
        return scene

    def open(self, before: Callable[[int], None] | None = None) -> Repository:
        store = LocalStore(str(self.place))
        # All jobs keep in one cache what they found.
        opened = Repository.open(
            PassingStore(store, before) if before else store,
            PASSPHRASE,
            cache_folder=os.fsencode(self.place / "cache"),
        )
        return opened.for_client("host")

    def keep(self, snapshot_id: str, expected: Files) -> None:
        self.expected[snapshot_id] = expected

    def verify(self) -> None:
        repository = self.open()
        assert {snapshot.id for snapshot in repository.snapshots()} == set(self.expected)
        for snapshot_id, expected in self.expected.items():
            assert read_back(repository, snapshot_id) == expected
        repository.close()

    def verify_to_the_end(self) -> None:
        """Also after further prunes have removed all that is left to remove."""
        self.verify()
        for recount in (False, True):
            repository = self.open()
            # What was stored twice is freed when all is counted.
            prune(repository, replace(OPTIONS, recount=recount), NullProgress())
            repository.close()
            self.verify()
        repository = self.open()
        assert not list(repository.store.list("tombstones"))
        assert not list(repository.store.list("leases"))
        # This one reads all, whatever the others kept.
        counted = prune(repository, replace(OPTIONS, dry_run=True), NullProgress())
        assert (counted.removed_packs, counted.unused_bytes) == (0, 0)
        repository.close()


@pytest.fixture(scope="module")
def original(module_folder: Path) -> Scene:
    return Scene.build(module_folder / "repository")


Job = Callable[[Scene, Repository], None]


def job_prune(scene: Scene, repository: Repository) -> None:
    run_prune(repository)


def job_prunes(scene: Scene, repository: Repository) -> None:
    """The last ones find what the one before kept."""
    for _ in range(4):
        run_prune(repository)


def job_backup(scene: Scene, repository: Repository) -> None:
    """Half of it is known: some of that only in what prune is about to remove."""
    mine = files(0, 1, 2, 3, 8, 30, 40, 50)
    scene.keep(back_up(repository, mine).id, mine)


def job_backup_of_another(scene: Scene, repository: Repository) -> None:
    """What it stores others have stored too, and something is new."""
    mine = files(0, 4, 20, 30, 60)
    scene.keep(back_up(repository, mine, "other").id, mine)


def job_forget_and_prune(scene: Scene, repository: Repository) -> None:
    forgotten = min(scene.expected)
    del scene.expected[forgotten]
    repository.store.delete("snapshots", forgotten)
    run_prune(repository)


def job_backup_between_prunes(scene: Scene, repository: Repository) -> None:
    run_prune(repository)
    job_backup(scene, repository)
    run_prune(repository)


def job_prunes_of_what_came(scene: Scene, repository: Repository) -> None:
    """The last ones read only what came after what the ones before kept."""
    for _ in range(4):
        run_prune(repository)
    for number in (70, 71):
        mine = files(20, number)
        scene.keep(back_up(repository, mine).id, mine)
        run_prune(repository)


class Once:
    """Does something before the n-th operation of a store."""

    def __init__(self, number: int, action: Callable[[], None]) -> None:
        self.number = number
        self.action = action
        self.done = False

    def __call__(self, count: int) -> None:
        if count == self.number and not self.done:
            self.done = True
            self.action()


def meet(scene: Scene, outer: Job, inner: Job, number: int) -> bool:
    """Run `outer`, and `inner` before its n-th operation; False when it has not so many."""

    def run_inner() -> None:
        repository = scene.open()
        inner(scene, repository)
        repository.close()

    once = Once(number, run_inner)
    repository = scene.open(once)
    outer(scene, repository)
    repository.close()
    scene.verify_to_the_end()
    return once.done


def meet_at_every(
    original: Scene, folder: Path, stride: int, encounter: Callable[[Scene, int], bool]
) -> None:
    """Let `encounter` happen at every stride-th operation, each time on a fresh copy."""
    number = stride // 2 + 1
    while True:
        scene = original.copy(folder / "meeting")
        happened = encounter(scene, number)
        shutil.rmtree(scene.place)
        if not happened:
            break
        number += stride
    assert number > 10


PAIRS = [
    (job_prune, job_prune),
    (job_prune, job_backup),
    (job_prune, job_forget_and_prune),
    (job_prune, job_backup_between_prunes),
    (job_backup, job_prune),
    (job_backup, job_forget_and_prune),
    (job_backup, job_backup),
    (job_prune, job_backup_of_another),
    (job_prunes, job_prunes),
    (job_prunes, job_backup),
    (job_prunes, job_forget_and_prune),
    (job_backup_of_another, job_forget_and_prune),
    (job_prunes_of_what_came, job_backup),
    (job_prunes_of_what_came, job_forget_and_prune),
    (job_prunes_of_what_came, job_prunes_of_what_came),
]


def pair_name(value: object) -> str:
    return getattr(value, "__name__", "").removeprefix("job_")


@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=pair_name)
def test_jobs_that_meet_lose_nothing(original, folder, outer, inner):
    meet_at_every(original, folder, QUICK_STRIDE, lambda *at: meet(at[0], outer, inner, at[1]))


@pytest.mark.slow
@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=pair_name)
def test_jobs_that_meet_anywhere_lose_nothing(original, folder, outer, inner):
    stride = 3 if outer is job_prunes_of_what_came else 1
    meet_at_every(original, folder, stride, lambda *at: meet(at[0], outer, inner, at[1]))


WRITTEN = files(1, 2, 3, 8, 30, 50)


def commit_inside(scene: Scene, number: int) -> bool:
    """A backup that began before a prune commits before its n-th operation."""
    writing = scene.open()
    backup = TinyBackup(writing)
    backup.store(WRITTEN)
    once = Once(number, lambda: scene.keep(backup.commit().id, WRITTEN))
    pruning = scene.open(once)
    run_prune(pruning)
    pruning.close()
    if not once.done:
        backup.abandon()
    writing.close()
    scene.verify_to_the_end()
    return once.done


def begin_inside(scene: Scene, number: int) -> bool:
    """A backup begins before the n-th operation of a prune and commits after another prune."""
    writing = scene.open()
    begun: list[TinyBackup] = []

    def begin() -> None:
        begun.append(TinyBackup(writing))
        begun[0].store(WRITTEN)

    once = Once(number, begin)
    pruning = scene.open(once)
    run_prune(pruning)
    run_prune(pruning)
    pruning.close()
    for backup in begun:
        scene.keep(backup.commit().id, WRITTEN)
    writing.close()
    scene.verify_to_the_end()
    return once.done


@pytest.mark.parametrize("encounter", [commit_inside, begin_inside])
def test_a_writer_that_outlasts_a_prune_loses_nothing(original, folder, encounter):
    meet_at_every(original, folder, QUICK_STRIDE, encounter)


@pytest.mark.slow
@pytest.mark.parametrize("encounter", [commit_inside, begin_inside])
def test_a_writer_that_outlasts_a_prune_anywhere_loses_nothing(original, folder, encounter):
    meet_at_every(original, folder, 1, encounter)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_three_jobs_that_meet_at_random_lose_nothing(original, folder, seed):
    chance = random.Random(seed)
    scene = original.copy(folder / "meeting")
    jobs = [job_prune, job_backup, job_forget_and_prune, job_backup_between_prunes]

    def run_with(depth: int) -> None:
        places = {chance.randrange(1, 120) for _ in range(2)} if depth < 2 else set()

        def before(count: int) -> None:
            if count in places:
                places.discard(count)
                run_with(depth + 1)

        repository = scene.open(before)
        chance.choice(jobs if len(scene.expected) > 1 else jobs[:2])(scene, repository)
        repository.close()

    run_with(0)
    scene.verify_to_the_end()
