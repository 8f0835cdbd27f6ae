"""Backups, prune, forget and check at the same time, as their own processes: nothing is lost."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kit.job_site import (
    JobSite,
    OpenStore,
    job_backup,
    job_forget_and_prune,
    job_prune,
    open_folder,
    write_tree,
)
from kit.killed_process import KILLED
from kit.snapshot_contents import contents
from strongroom.base.errors import CheckFailedError, LeaseError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check


def checked(site: JobSite) -> None:
    with closing(site.open()) as repository:
        options = CheckOptions(read_data=DataSubset(), processes=1)
        report = check(repository, options, NullProgress())
    if report.findings:
        raise CheckFailedError(repr(report.findings))


def change(tree: Path, round_number: int, seed: int) -> None:
    chance = random.Random(seed * 1000 + round_number)
    for path in chance.sample(sorted(tree.rglob("[0-9]*-*")), 5):
        path.write_bytes(chance.randbytes(chance.randrange(9000)))


def backing_up(site: JobSite, notes: Path, seed: int) -> Callable[[int], None]:
    tree = site.tree.parent / f"tree{seed}"
    write_tree(tree, seed, 30)
    mine = JobSite(site.place, tree, site.key, site.open_store)

    def once(number: int) -> None:
        change(tree, number, seed)
        snapshot_id = mine.back_up()
        held = mine.contents_of_tree(snapshot_id)
        # What was in the tree is in the snapshot, while all the others are at work.
        top = os.fsencode(site.tree.parent)
        for path, (_, _, _, data) in held.items():
            full = b"/" + path
            if os.path.isfile(full):
                with open(full, "rb") as file:
                    assert data == file.read(), full
        assert len(held) > 30, top
        (notes / f"{seed}-{number}").write_text(
            json.dumps([snapshot_id, {path.hex(): one[3].hex() for path, one in held.items()}])
        )

    return once


def forgetting(site: JobSite, number: int) -> None:
    """Now and then forgets all but the newest two of each."""
    from strongroom.engine.prune.forget import ForgetOptions, forget
    from strongroom.engine.prune.retention import RetentionRules

    with closing(site.open()) as repository:
        options = ForgetOptions(RetentionRules(last=2), group_by=("paths",))
        forget(repository, repository.snapshots(), options, NullProgress())
    job_prune(site, site.store())


def loop(seconds: float, action: Callable[[int], object]) -> int:
    """A child that repeats `action`; its pid."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end or number < 2:
            try:
                action(number)
            except LeaseError:
                # Another prune was removing packs: said, and harmless.
                time.sleep(0.01)
            number += 1
        status = 0
    except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.slow)])
def open_store(request) -> OpenStore:
    return open_folder if request.param == "folder" else request.getfixturevalue("open_bucket")


def run_together(folder: Path, seconds: float, open_store: OpenStore) -> None:
    site = JobSite.build(folder, open_store)
    notes = folder / "notes"
    notes.mkdir()
    children = [
        loop(seconds, backing_up(site, notes, 11)),
        loop(seconds, backing_up(site, notes, 12)),
        loop(seconds, lambda number: forgetting(site, number)),
        loop(seconds, lambda _: job_prune(site, site.store())),
        loop(seconds, lambda _: checked(site)),
    ]
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert statuses == [0] * len(children)
    checked(site)
    with closing(site.open()) as repository:
        present = {snapshot.id for snapshot in repository.snapshots()}
        compared = 0
        for note in notes.iterdir():
            snapshot_id, expected = json.loads(note.read_text())
            if snapshot_id in present:
                held = contents(repository, snapshot_id)
                for path, data in expected.items():
                    assert held[bytes.fromhex(path)][3].hex() == data
                compared += 1
        assert compared >= 2
    job_prune(site, site.store())
    checked(site)


def test_jobs_at_the_same_time_lose_nothing(folder, open_store):
    run_together(folder, 6.0 if open_store is open_folder else 25.0, open_store)


@pytest.mark.slow
def test_jobs_at_the_same_time_for_minutes_lose_nothing(folder, open_store):
    run_together(folder, 150.0, open_store)


def killed_at_random(folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    site = JobSite.build(folder)
    for number in range(rounds):
        change(site.tree, number, 1)
        job = chance.choice([job_backup, job_prune, job_forget_and_prune])
        child = os.fork()
        if child == 0:
            os.setsid()
            try:
                job(site, site.store())
            finally:
                os._exit(0)
        time.sleep(chance.random() * 0.12)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, KILLED)
        forgotten = frozenset(site.expected if job is job_forget_and_prune else ())
        site.verify(forgotten)
        with closing(site.store()) as store:
            present = {info.name for info in store.list("snapshots")}
        site.expected = {name: one for name, one in site.expected.items() if name in present}
        if number % 3 == 2:
            site.remember(site.back_up())
    site.verify()
    job_prune(site, site.store())
    site.verify()


def test_jobs_killed_at_random_harm_nothing(folder):
    killed_at_random(folder, 12, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_jobs_killed_at_random_often_harm_nothing(folder, seed):
    killed_at_random(folder, 60, seed)
