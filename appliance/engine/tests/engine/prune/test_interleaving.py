"""Jobs that meet at any point of each other lose nothing.

One job runs over a store that stops before its n-th operation, lets others run to their end, and
continues; for every n.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kit.meeting_jobs import Once, Scene, at_every, meet, pair_name
from kit.passing_store import PassingStore
from kit.tiny_backup import (
    PASSPHRASE,
    THOROUGH,
    TinyBackup,
    back_up,
    files,
    new_repository,
)
from strongroom.base.progress import NullProgress
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

# In the quick run only every n-th place is tried: some twenty of a prune.
QUICK_STRIDE = 13


def run_prune(repository: Repository) -> None:
    prune(repository, THOROUGH, NullProgress())


class PruneScene(Scene):
    """A repository in which much is to be pruned, and what its snapshots must hold."""

    @classmethod
    def build(cls, place: Path) -> "PruneScene":
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

    def open(self, before: Callable[[int], None] | None = None) -> Repository:
        store = LocalStore(str(self.place))
        # All jobs keep in one cache what they found.
        opened = Repository.open(
            PassingStore(store, before) if before else store,
            PASSPHRASE,
            cache_folder=os.fsencode(self.place / "cache"),
        )
        return opened.for_client("host")

    def verify_to_the_end(self) -> None:
        """Also after further prunes have removed all that is left to remove."""
        self.verify()
        for recount in (False, True):
            repository = self.open()
            # What was stored twice is freed when all is counted.
            prune(repository, replace(THOROUGH, recount=recount), NullProgress())
            repository.close()
            self.verify()
        repository = self.open()
        assert not list(repository.store.list("tombstones"))
        assert not list(repository.store.list("leases"))
        # This one reads all, whatever the others kept.
        counted = prune(repository, replace(THOROUGH, dry_run=True), NullProgress())
        assert (counted.removed_packs, counted.unused_bytes) == (0, 0)
        repository.close()


@pytest.fixture(scope="module")
def original(module_folder: Path) -> PruneScene:
    return PruneScene.build(module_folder / "repository")


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


@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=pair_name)
def test_jobs_that_meet_lose_nothing(original, folder, outer, inner):
    stride = 3 * QUICK_STRIDE if outer is job_prunes_of_what_came else QUICK_STRIDE
    at_every(original, folder, stride, lambda *at: meet(at[0], outer, inner, at[1]))


@pytest.mark.slow
@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=pair_name)
def test_jobs_that_meet_anywhere_lose_nothing(original, folder, outer, inner):
    stride = 3 if outer is job_prunes_of_what_came else 1
    at_every(original, folder, stride, lambda *at: meet(at[0], outer, inner, at[1]))


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
    at_every(original, folder, QUICK_STRIDE, encounter)


@pytest.mark.slow
@pytest.mark.parametrize("encounter", [commit_inside, begin_inside])
def test_a_writer_that_outlasts_a_prune_anywhere_loses_nothing(original, folder, encounter):
    at_every(original, folder, 1, encounter)


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
