"""A store that fails makes the job fail, says why, and lists nothing that is not whole.

First with declared errors at each kind of operation, then on real file systems that are full or
read-only. Once the cause is fixed, the same job works.
"""

import errno
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kit.job_site import (
    Job,
    JobSite,
    OpenStore,
    job_backup,
    job_forget_and_prune,
    job_prune,
)
from kit.killed_process import in_child
from kit.passing_store import PassingStore
from kit.tiny_backup import back_up
from strongroom.base.errors import StoreError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, check
from strongroom.engine.stores.faults import Fault, FaultStore


@pytest.fixture(scope="module")
def original(module_folder: Path) -> JobSite:
    return with_one_snapshot(JobSite.build(module_folder))


@pytest.fixture(scope="module")
def in_bucket(open_bucket: OpenStore, module_folder: Path) -> JobSite:
    return with_one_snapshot(JobSite.build(module_folder / "bucket", open_bucket))


@pytest.fixture(params=["original", "in_bucket"], ids=["folder", "bucket"])
def anywhere(request: pytest.FixtureRequest) -> JobSite:
    site: JobSite = request.getfixturevalue(request.param)
    return site


def with_one_snapshot(site: JobSite) -> JobSite:
    site.store().delete("snapshots", next(iter(site.expected)))
    del site.expected[next(iter(site.expected))]
    return site


def faults_of(job: Job, number: int) -> list[Fault]:
    """What may fail while the job works."""
    places: list[tuple[str, str | None, int]] = [
        ("put_new", "leases", 1),
        ("replace", "leases", 1),
        ("sync", None, 1),
        ("list", "packs", 1),
        ("get", "index", 1),
        ("get", "snapshots", 1),
    ]
    if job is job_backup:
        places += [
            ("write", "packs", 1),
            ("write", "packs", 9),
            ("commit", "packs", 1),
            ("commit", "packs", 2),
            ("put", "index", 1),
            ("put_durable", "snapshots", 1),
        ]
    else:
        places += [
            ("write", "packs", 2),
            ("commit", "packs", 1),
            ("put", "index", 1),
            ("put_durable", "tombstones", 1),
            ("delete", "packs", 1),
            ("delete", "index", 1),
            ("delete", "tombstones", 1),
            ("sync", None, 2),
        ]
    return [
        Fault(operation, kind, nth, "error", number)  # type: ignore[arg-type]
        for operation, kind, nth in places
    ]


each_job = pytest.mark.parametrize("job", [job_backup, job_prune], ids=["backup", "prune"])


@each_job
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO], ids=errno.errorcode.get)
def test_an_error_of_the_store_is_fatal_and_harmless(original, folder, job, number):
    fail_everywhere(original, folder, job, number)


# What makes the errors is the same in front of every place: a bucket, each object of which is a
# request, shows with one number and one job what a folder shows with all.
@pytest.mark.parametrize(
    ("job", "number"),
    [
        pytest.param(job_prune, errno.EIO),
        pytest.param(job_prune, errno.ENOSPC, marks=pytest.mark.slow),
        pytest.param(job_prune, errno.EROFS, marks=pytest.mark.slow),
        pytest.param(job_backup, errno.EIO, marks=pytest.mark.slow),
        pytest.param(job_backup, errno.ENOSPC, marks=pytest.mark.slow),
        pytest.param(job_backup, errno.EROFS, marks=pytest.mark.slow),
    ],
)
def test_an_error_of_a_bucket_is_fatal_and_harmless(in_bucket, folder, job, number):
    fail_everywhere(in_bucket, folder, job, number)


def fail_everywhere(original: JobSite, folder: Path, job: Job, number: int) -> None:
    for fault in faults_of(job, number):
        site = original.copy(folder / "site")
        with closing(FaultStore(site.store(), [fault])) as store:
            status = in_child(lambda here=site, failing=store: job(here, failing))
        assert status == StoreError.exit_code, fault
        assert not store.unexercised(), fault
        with closing(site.store()) as seen:
            present = {info.name for info in seen.list("snapshots")}
        if fault.operation != "put_durable" or fault.kind != "snapshots":
            assert present == set(site.expected), fault
        site.verify()
        job(site, site.store())
        site.verify()
        site.remove()


@pytest.mark.parametrize("operation", ["put_durable", "sync"])
def test_an_answer_that_is_lost_makes_nothing_half(anywhere, folder, operation):
    kind = "snapshots" if operation == "put_durable" else None
    site = anywhere.copy(folder / "site")
    store = FaultStore(site.store(), [Fault(operation, kind, 1, "lost")])
    assert in_child(lambda: job_backup(site, store)) == StoreError.exit_code
    site.verify()
    site.remember(site.back_up())
    site.verify()


needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")


@pytest.fixture
def small_file_system(folder: Path) -> Iterator[Path]:
    """A tmpfs of 3 MiB, of which a test may take what it likes."""
    place = folder / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "strongroom-test", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def fill(place: Path, leave: int) -> Path:
    """A file that takes all room but `leave` bytes."""
    ballast = place / "ballast"
    status = os.statvfs(place)
    ballast.write_bytes(bytes(max(0, status.f_bavail * status.f_bsize - leave)))
    return ballast


@needs_mounts
@pytest.mark.parametrize("leave", [0, 4096, 20_000, 60_000, 150_000, 300_000])
@pytest.mark.parametrize(
    "job", [job_backup, job_prune, job_forget_and_prune], ids=["backup", "prune", "forget"]
)
def test_a_full_file_system_costs_nothing_but_the_job(original, small_file_system, leave, job):
    site = original.copy(small_file_system / "site")
    ballast = fill(small_file_system, leave)
    forgotten = frozenset(site.expected) if job is job_forget_and_prune else frozenset()
    status = in_child(lambda: job(site, site.store()))
    assert status in (0, StoreError.exit_code)
    if leave == 0:
        assert status != 0
    ballast.unlink()
    site.verify(forgotten)
    job(site, site.store())
    site.verify(forgotten)


@needs_mounts
def test_prune_gives_room_back_on_a_file_system_that_is_full(original, small_file_system):
    site = original.copy(small_file_system / "site")
    with closing(site.open()) as repository:
        doomed = back_up(repository, {b"large": random.Random(9).randbytes(500_000)}, "host")
        repository.store.delete("snapshots", doomed.id)
    ballast = fill(small_file_system, 40_000)
    # Not enough to copy anything, but what is wholly unused goes before that is tried.
    assert in_child(lambda: job_prune(site, site.store())) in (0, StoreError.exit_code)
    status = os.statvfs(small_file_system)
    assert status.f_bavail * status.f_bsize > 500_000
    assert in_child(lambda: job_prune(site, site.store())) == 0
    site.verify()
    ballast.unlink()


@needs_mounts
def test_a_read_only_file_system_is_said_to_be_one_and_can_be_checked(original, small_file_system):
    site = original.copy(small_file_system / "site")
    subprocess.run(["mount", "-o", "remount,ro", small_file_system], check=True)
    for job in (job_backup, job_prune):
        with pytest.raises(StoreError) as refused:
            job(site, site.store())
        assert isinstance(refused.value.__cause__, OSError)
        assert refused.value.__cause__.errno == errno.EROFS
    with closing(site.open()) as repository:
        report = check(repository, CheckOptions(processes=1), NullProgress())
    assert report.findings == ()
    assert "read-only" in report.notes[0]


@needs_mounts
def test_a_check_goes_on_while_the_disk_fills_up(original, small_file_system, monkeypatch):
    monkeypatch.setattr("strongroom.engine.check.check._RENEWAL_SECONDS", -1.0)
    site = original.copy(small_file_system / "site")

    def fill_up(number: int) -> None:
        if number == 20:
            fill(small_file_system, 0)

    store = PassingStore(site.store(), fill_up)
    with closing(site.open(store)) as repository:
        report = check(repository, CheckOptions(processes=1), NullProgress())
        assert list(store.list("leases")) == []
    assert (small_file_system / "ballast").exists()
    assert report.findings == ()


@needs_mounts
@pytest.mark.skipif(not os.path.exists("/dev/loop-control"), reason="there are no loop devices")
def test_a_full_disk_image_costs_nothing_but_the_backup(original, folder):
    image, place = folder / "image", folder / "mounted"
    place.mkdir()
    subprocess.run(["truncate", "-s", "4M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-N", "512", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        site = original.copy(place / "site")
        ballast = fill(place, 100_000)
        assert in_child(lambda: job_backup(site, site.store())) == StoreError.exit_code
        ballast.unlink()
        site.verify()
        site.remember(site.back_up())
        site.verify()
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_job_that_fails_says_what_to_do(original, folder):
    site = original.copy(folder / "site")
    store = FaultStore(site.store(), [Fault("sync", None, 1, "error", errno.ENOSPC)])
    with pytest.raises(StoreError, match=r"No space left.*run the same command again"):
        job_backup(site, store)
