"""The director runs its own jobs in job processes: what those report, and how they end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kit.director_in_process import OPERATOR, client, in_loop
from kit.director_with_repositories import ADMIN, Place
from kit.shifted_store import ShiftedStore
from kit.tiny_backup import back_up
from kit.virtual_time import ShiftedTime
from strongroom.director.own_jobs import own_jobs
from strongroom.director.results.runs import Run
from strongroom.engine.repository.leases import Holder, Lease
from strongroom.service.job_process.process import JobProgram

PRUNE = client("web1") + ADMIN % 'Console = "prune"'
SAID = '{"type":"run-log","time_ns":1,"level":"info","text":"it waits"}'
ESTIMATE = '{"type":"run-progress","files":1,"total_files":30,"total_is_estimate":true}'


@pytest.fixture
def director(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    return Place(tmp_path, ShiftedTime(monkeypatch))


def with_program(director: Place, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have a shell script be the job process."""
    program = director.folder / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))


def job_processes() -> list[int]:
    """Own jobs that are children of this process."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes()
            status = (entry / "status").read_text(encoding="utf-8")
        except OSError:
            continue
        if b"director.own_jobs.job" in words and f"PPid:\t{os.getpid()}\n" in status:
            found.append(int(entry.name))
    return found


async def waiting_run(director: Place) -> tuple[Run, int]:
    """A run whose job process waits for its passphrase forever."""
    await director.open(PRUNE)
    (director.folder / "passphrase").unlink()
    os.mkfifo(director.folder / "passphrase")
    run = await director.queue("admin")
    await director.until_said(run.id, "command: prune")
    for _ in range(3000):
        if found := job_processes():
            return run, found[0]
        await asyncio.sleep(0.01)
    raise AssertionError("there is no job process")


@in_loop
async def test_totals_of_an_own_job_that_are_an_estimate_are_told_as_one(director, monkeypatch):
    await director.open(PRUNE)
    with_program(director, monkeypatch, f"read line; echo '{ESTIMATE}'; read line")
    run = await director.queue("admin")
    async for event in director.service.queries.watch(run.id):
        if event.run is not None and event.run.total_files:
            break
    assert (event.run.files, event.run.total_files) == (1, 30)
    assert event.run.total_is_estimate
    assert (await director.service.commands.cancel(run.id, OPERATOR)).state == "cancelled"


@in_loop
async def test_what_an_own_job_says_when_it_dies_is_told_within_bounds(director, monkeypatch):
    await director.open(PRUNE)
    with_program(
        director,
        monkeypatch,
        "head -c 9000000 /dev/zero | tr '\\0' x >&2\necho out of luck >&2; exit 7",
    )
    run = await director.start("admin")
    assert (run.state, run.error_id) == ("failed", "job-died")
    assert "ended with status 7" in run.error
    assert "out of luck" in run.error
    assert len(run.error) < 4096


@in_loop
async def test_an_own_job_that_is_cancelled_is_gone(director):
    run, process = await waiting_run(director)
    ended = await director.service.commands.cancel(run.id, OPERATOR)
    assert ended.state == "cancelled"
    assert process not in job_processes()


@in_loop
async def test_an_own_job_that_does_not_stop_is_killed_with_its_children(director, monkeypatch):
    await director.open(PRUNE)
    monkeypatch.setattr(own_jobs, "PROGRAM", JobProgram(own_jobs.PROGRAM.module, "", 0.3))
    noted = director.folder / "child"
    waits = f"trap '' TERM; sleep 600 & echo $! >'{noted}'; echo '{SAID}'; wait; sleep 600"
    with_program(director, monkeypatch, waits)
    run = await director.queue("admin")
    await director.until_said(run.id, "it waits")
    child = Path("/proc") / noted.read_text().strip() / "cmdline"
    await until(lambda: b"sleep" in command_of(child))
    ended = await director.service.commands.cancel(run.id, OPERATOR)
    assert ended.state == "cancelled"
    await until(lambda: not command_of(child))


def command_of(process: Path) -> bytes:
    """The command line in a file of /proc; empty when the process has ended."""
    try:
        return process.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


async def until(holds):
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came about")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@in_loop
async def test_an_own_job_that_somebody_else_ends_has_failed(director, number):
    run, process = await waiting_run(director)
    os.kill(process, number)
    await director.settle()
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "job-died")


@in_loop
async def test_a_job_that_keeps_space_from_being_freed_is_named_in_the_log(director):
    await director.with_agent(PRUNE)
    days = 3 * 86400 * 10**9
    with closing(director.repository().for_client("web1")) as repository:
        repository.store.delete("snapshots", back_up(repository, {b"file": b"content"}).id)
        long_ago = ShiftedStore(repository.store, -days)
        holder = Holder("some-name", os.getpid(), "backup", time.time_ns() - days, ())
        owner = repository.writer.client_id
        lease = Lease(long_ago, repository.key, repository.cipher, owner, holder)
        run = await director.queue("admin")
        await director.until_said(run.id, "in any case")
        lines = (await director.texts(run.id)).splitlines()
        said = next(line for line in lines if "waiting for" in line)
        assert f"client web1: backup on some-name (process {os.getpid()}), begun 3 days" in said
        assert any("2 unused packs stay" in line for line in lines)
        assert any("cancel its run or end its process" in line for line in lines)
        lease.end()


@in_loop
async def test_an_own_job_gives_way_to_restores(director):
    _, process = await waiting_run(director)
    # The other end opens it when it has begun.
    passphrase = await asyncio.to_thread(os.open, director.folder / "passphrase", os.O_WRONLY)
    try:
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, process) == max(ours, 15)
    finally:
        os.close(passphrase)
