"""Killed at any operation of the store, a job harms nothing that was there.

Old snapshots keep every byte, check finds nothing, the same job then succeeds, and a backup does
not store again what the killed one had stored.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.job_site import (
    Job,
    JobSite,
    job_backup,
    job_change_passphrase,
    job_forget_and_prune,
    job_prune,
    job_repair,
)
from kit.killed_process import KILLED, in_child
from kit.snapshot_contents import contents
from kit.tiny_backup import PASSPHRASE
from strongroom.base.errors import WrongKeyError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.repair.repair import RepairOptions, repair
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.faults import FaultStore

QUICK_STRIDE = 6


@pytest.fixture(scope="module")
def original(module_folder: Path) -> JobSite:
    return JobSite.build(module_folder)


# A bucket is copied and looked through for every kill, an object a request.
@pytest.fixture(scope="module", params=["folder", pytest.param("bucket", marks=pytest.mark.slow)])
def anywhere(request, original: JobSite, module_folder: Path) -> JobSite:
    if request.param == "folder":
        return original
    return JobSite.build(module_folder / "bucket", request.getfixturevalue("open_bucket"))


def kills(original: JobSite, folder: Path, job: Job, stride: int) -> Iterator[tuple[JobSite, int]]:
    """Sites after `job` was killed before every stride-th mutating operation."""
    limit = 0
    while True:
        site = original.copy(folder / "site")
        status = in_child(lambda at=limit, here=site: job(here, FaultStore(here.store(), (), at)))
        assert status in (0, KILLED), status
        if status == 0:
            site.remove()
            break
        yield site, limit
        site.remove()
        limit += stride
    assert limit > stride


def stride_of(slow: bool) -> int:
    return 1 if slow else QUICK_STRIDE


in_both_depths = pytest.mark.parametrize(
    "slow", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "everywhere"]
)


@in_both_depths
def test_a_killed_backup_harms_nothing_and_the_next_goes_on_from_it(anywhere, folder, slow):
    whole = anywhere.copy(folder / "whole")
    before = whole.pack_bytes()
    expected = whole.contents_of_tree(whole.back_up())
    full_bytes = whole.pack_bytes() - before
    for site, _ in kills(anywhere, folder, job_backup, stride_of(slow)):
        site.verify()
        snapshot_id = site.back_up()
        assert site.contents_of_tree(snapshot_id) == expected
        # Only what had not been stored is stored now; a pack more or less for its frame.
        resent = site.pack_bytes() - before - full_bytes
        assert resent < 3000
        site.verify()


@in_both_depths
def test_a_killed_prune_harms_nothing_and_the_next_ends_it(anywhere, folder, slow):
    base = anywhere.copy(folder / "base")
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
def test_a_killed_forget_leaves_whole_snapshots(anywhere, folder, slow):
    gone = frozenset(list(anywhere.expected)[:-1])
    for site, _ in kills(anywhere, folder, job_forget_and_prune, stride_of(slow)):
        site.verify(forgotten=gone)
        job_forget_and_prune(site, site.store())
        site.expected = {name: one for name, one in site.expected.items() if name not in gone}
        site.verify()


def test_a_killed_change_of_passphrase_leaves_one_that_opens(anywhere, folder):
    for site, _ in kills(anywhere, folder, job_change_passphrase, 1):
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
