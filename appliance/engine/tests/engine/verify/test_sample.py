"""A restore test by somebody who is not root, as directors are, does not ask for root's rights."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from kit.tiny_backup import new_repository
from strongroom.base.progress import NullProgress
from strongroom.engine.backup.backup import back_up
from strongroom.engine.backup.options import BackupOptions
from strongroom.engine.sources.registry import open_source
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.verify.sample import SampleReport, restore_sample
from strongroom.sources.source import SourceRequest

NOBODY = 65534


def _unseen() -> nullcontext[NullProgress]:
    return nullcontext(NullProgress())


def as_nobody(work: Callable[[], SampleReport]) -> SampleReport:
    """What somebody without rights gets; imports and worker processes are as in ours."""
    work()
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            found = work()
            os.write(theirs, "\n".join(found.faults).encode())
            os._exit(min(found.fault_count, 100))
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(101)
    os.close(theirs)
    with os.fdopen(ours) as file:
        said = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code != 101, said
    return SampleReport(0, 0, code, tuple(said.splitlines()), 0.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_only_root_may_set_is_no_fault(public_folder):
    folder = public_folder
    folder.chmod(0o777)
    source = folder / "source"
    (source / "shared").mkdir(parents=True)
    os.chown(source / "shared", 0, 7)
    (source / "shared").chmod(0o2775)
    for name, mode in (("setuid", 0o4755), ("setgid", 0o2755), ("closed", 0), ("plain", 0o640)):
        file = source / "shared" / name
        file.write_bytes(name.encode() * 1000)
        os.chown(file, 11, 7)
        file.chmod(mode)
    repository = new_repository(LocalStore(str(folder / "repository")))
    opened = open_source("files", SourceRequest((bytes(source),), b"", {}))
    report = back_up(repository, opened, BackupOptions(host="h", job="j"), _unseen)
    assert report.snapshot is not None
    snapshot = repository.snapshot(report.snapshot.id)
    for path in (folder / "repository", *(folder / "repository").rglob("*")):
        path.chmod(0o777)

    def sample() -> SampleReport:
        scratch = bytes(folder / f"scratch-{os.geteuid()}")
        return restore_sample(repository, snapshot, scratch, 100, 1 << 20, _unseen)

    assert sample().files == 4
    found = as_nobody(sample)
    assert (found.fault_count, found.faults) == (0, ())
    repository.close()
