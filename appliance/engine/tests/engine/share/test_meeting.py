"""Sharing that meets prune, backup and forget at any point loses nothing.

One job runs over a store that stops before its n-th operation, lets another run to its end, and
continues; for every n.
"""

import os

import pytest

from kit.meeting_jobs import Scene, at_every, meet, pair_name
from kit.passing_store import PassingStore
from kit.tiny_backup import PASSPHRASE, THOROUGH, TinyBackup, files, new_repository
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, check
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.repository import Repository
from strongroom.engine.share.share import ShareOptions, share
from strongroom.engine.stores.local import LocalStore

QUICK_STRIDE = 13
CLIENTS = ("a", "b", "c")


class ShareScene(Scene):
    """Three clients that offer much of the same; a part of it was shared and pruned already."""

    @classmethod
    def build(cls, place):
        scene = cls(place)
        repository = new_repository(LocalStore(str(place)))
        for client in CLIENTS:
            scene.back_up(repository, client, range(10), ())
        job_share(scene, repository)
        job_prune(scene, repository)
        for number, client in enumerate(CLIENTS):
            scene.back_up(repository, client, range(20), (100 + number, 101 + number))
        return scene

    def back_up(self, repository, client, offered, private):
        backup = TinyBackup(repository, client)
        backup.store(files(*offered), offered=True)
        backup.store(files(*private))
        self.keep(backup.commit().id, files(*offered, *private))

    def open(self, before=None):
        store = LocalStore(str(self.place))
        return Repository.open(PassingStore(store, before) if before else store, PASSPHRASE)

    def verify_to_the_end(self):
        self.verify()
        for job in (job_prune, job_share, job_prune):
            repository = self.open()
            job(self, repository)
            repository.close()
            self.verify()
        repository = self.open()
        assert not check(repository, CheckOptions(), NullProgress()).findings
        assert not list(repository.store.list("tombstones"))
        assert not list(repository.store.list("leases"))
        repository.close()


def job_share(scene, repository):
    share(repository, ShareOptions(3), NullProgress())


def job_prune(scene, repository):
    prune(repository, THOROUGH, NullProgress())


def job_backup(scene, repository):
    scene.back_up(repository, "d", range(5, 25), (200,))


def job_full_again(scene, repository):
    scene.back_up(repository, "a", range(22), (100, 150))


def job_forget_and_prune(scene, repository):
    for snapshot_id in sorted(scene.expected)[:3]:
        del scene.expected[snapshot_id]
        repository.store.delete("snapshots", snapshot_id)
    job_prune(scene, repository)


def job_share_and_prune(scene, repository):
    job_share(scene, repository)
    job_prune(scene, repository)


PAIRS = [
    (job_share, job_prune),
    (job_share, job_share),
    (job_share, job_forget_and_prune),
    (job_share, job_backup),
    (job_prune, job_share),
    (job_prune, job_share_and_prune),
    (job_prune, job_full_again),
    (job_backup, job_share_and_prune),
    (job_full_again, job_share_and_prune),
    (job_share_and_prune, job_forget_and_prune),
]


@pytest.fixture(scope="module")
def original(module_folder):
    return ShareScene.build(module_folder / "repository")


@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=pair_name)
def test_sharing_that_meets_other_jobs_loses_nothing(original, folder, outer, inner):
    at_every(original, folder, QUICK_STRIDE, lambda *at: meet(at[0], outer, inner, at[1]))


@pytest.mark.slow
@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=pair_name)
def test_sharing_that_meets_other_jobs_anywhere_loses_nothing(original, folder, outer, inner):
    at_every(original, folder, 1, lambda *at: meet(at[0], outer, inner, at[1]))


class KilledError(Exception):
    """The job died here."""


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("job", [job_share, job_share_and_prune], ids=pair_name)
def test_a_share_that_is_killed_anywhere_loses_nothing(original, folder, job, stride):
    def die(scene, number):
        def before(count):
            if count == number:
                raise KilledError

        repository = scene.open(before)
        try:
            job(scene, repository)
        except KilledError:
            died = True
        else:
            died = False
        for name in os.listdir(scene.place / "leases"):
            os.unlink(scene.place / "leases" / name)
        scene.verify_to_the_end()
        return died

    # The first place is after it was opened.
    at_every(original, folder, stride, die, first=5)
