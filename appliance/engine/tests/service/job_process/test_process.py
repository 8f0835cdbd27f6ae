"""A daemon starts a job process, hears what it reports, and sees to its end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from kit.job_program import MODULE, ProgramJob
from kit.project import TESTS
from strongroom.net.control.messages import RunEnded, RunLog, RunProgress
from strongroom.service.job_process.process import STDERR_BYTES, JobProcess, JobProgram


@pytest.fixture(autouse=True)
def _programs_are_found(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


async def run(
    job: ProgramJob,
    at_log: Callable[[JobProcess], None] = lambda _: None,
    stop_seconds: float = 30.0,
) -> tuple[RunEnded, list[RunProgress], list[str]]:
    """Have a job done; `at_log` is called at its first line of the log."""
    progress: list[RunProgress] = []
    lines: list[str] = []

    async def report(message: RunProgress | RunLog) -> None:
        if isinstance(message, RunProgress):
            progress.append(message)
            return
        lines.append(message.text)
        if len(lines) == 1:
            at_log(process)

    process = JobProcess(JobProgram(MODULE, stop_seconds=stop_seconds), job, report)
    ended = await asyncio.wait_for(process.run(), 60)
    return ended, progress, lines


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until_gone(*pids: int) -> None:
    for _ in range(500):
        if not any(map(is_alive, pids)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"of {pids} some are still there")


def test_counts_of_many_threads_and_the_estimate_are_reported():
    ended, progress, _ = asyncio.run(run(ProgramJob(does="count")))
    assert ended.status == "done"
    last = progress[-1]
    assert (last.files, last.bytes, last.stored_bytes) == (8000, 80_000, 24_000)
    assert (last.total_files, last.total_bytes) == (10_000, None)
    assert last.total_is_estimate
    assert last.message == "counting"


def test_of_a_process_that_floods_standard_error_the_end_is_kept():
    ended, _, _ = asyncio.run(run(ProgramJob(does="flood_and_die")))
    assert (ended.status, ended.error_id) == ("failed", "job-died")
    assert "ended with status 7" in ended.error
    assert "out of luck" in ended.error
    assert len(ended.error) < STDERR_BYTES + 200


def test_a_job_has_a_limit_of_memory_and_says_when_it_takes_more():
    ended, _, lines = asyncio.run(run(ProgramJob(does="hoard")))
    assert (ended.status, ended.error_id) == ("failed", "memory-limit")
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    soft, hard = map(int, lines[0].split())
    assert 0 < soft == hard <= max(1 << 30, physical)


def test_a_job_that_is_stopped_cleans_up(tmp_path):
    file = tmp_path / "half"
    ended, _, _ = asyncio.run(run(ProgramJob(does="wait", file=str(file)), JobProcess.stop))
    assert (ended.status, ended.error_id) == ("cancelled", "interrupted")
    assert not file.exists()


def test_a_limit_reaches_the_job(tmp_path):
    def at_log(process: JobProcess) -> None:
        process.set_limit(1000)
        asyncio.get_running_loop().call_later(0.5, process.stop)

    ended, _, lines = asyncio.run(run(ProgramJob(does="wait", file=str(tmp_path / "half")), at_log))
    assert ended.status == "cancelled"
    assert lines == ["waits", "limit 1000"]


def test_a_job_that_does_not_stop_is_killed_with_its_children(tmp_path):
    file = tmp_path / "pids"

    async def stopped() -> RunEnded:
        ended, _, _ = await run(
            ProgramJob(does="start_child", file=str(file)), JobProcess.stop, stop_seconds=0.3
        )
        await until_gone(*map(int, file.read_text().split()))
        return ended

    ended = asyncio.run(stopped())
    assert (ended.status, ended.error_id) == ("failed", "job-died")
    assert "ended by signal 9" in ended.error


def test_what_a_killed_job_leaves_behind_is_killed_too(tmp_path):
    file = tmp_path / "pids"

    def kill_the_job_alone(process: JobProcess) -> None:
        os.kill(int(file.read_text().split()[0]), signal.SIGKILL)

    async def killed() -> RunEnded:
        ended, _, _ = await run(ProgramJob(does="start_child", file=str(file)), kill_the_job_alone)
        await until_gone(*map(int, file.read_text().split()))
        return ended

    assert "ended by signal 9" in asyncio.run(killed()).error


def test_a_fault_of_a_job_is_told_with_its_traceback():
    ended, _, lines = asyncio.run(run(ProgramJob(does="fail")))
    assert (ended.status, ended.error_id) == ("failed", "bug")
    assert "RuntimeError: a fault" in lines[0]
