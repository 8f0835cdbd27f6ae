"""A job process that does what a test says: `python -m kit.job_program`."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time

import msgspec

from strongroom.net.control.messages import RunEnded
from strongroom.service.job_process.program import JobInput, JobOutput, run_program

MODULE = "kit.job_program"
FLOOD_BYTES = 4 << 20

limits: list[int] = []


class ProgramJob(msgspec.Struct, frozen=True, kw_only=True):
    """does: a function of this module. file: where it notes something."""

    does: str
    file: str = ""


def count(job: ProgramJob, output: JobOutput) -> None:
    """Count in four threads, with totals that are an estimate."""
    with output.shown_progress("counting") as progress:
        progress.total(10_000, None, is_estimate=True)

        def add() -> None:
            for _ in range(2000):
                progress.add(files=1, bytes=10, stored_bytes=3)

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def flood_and_die(job: ProgramJob, output: JobOutput) -> None:
    """Say far too much, then why it dies."""
    os.write(2, b"x" * FLOOD_BYTES)
    os.write(2, b"\nout of luck\n")
    os._exit(7)


def hoard(job: ProgramJob, output: JobOutput) -> None:
    """Take more memory than it may, a limit that is its own already."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    output.log("info", f"{soft} {hard}")
    resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))
    bytearray(1 << 30)


def wait(job: ProgramJob, output: JobOutput) -> None:
    """Tell limits until it is stopped, and clean up."""
    with open(job.file, "w", encoding="ascii") as file:
        file.write("half done")
    told = 0
    try:
        output.log("info", "waits")
        while True:
            time.sleep(0.01)
            for limit in limits[told:]:
                output.log("info", f"limit {limit}")
                told += 1
    finally:
        os.unlink(job.file)


def start_child(job: ProgramJob, output: JobOutput) -> None:
    """Start a process that has our pipes, note its id, and refuse to end."""
    # Blocked in this thread they would reach another one, and their handlers run in this one.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    with open(job.file, "w", encoding="ascii") as file:
        file.write(f"{os.getpid()} {child.pid}")
    output.log("info", "waits")
    time.sleep(600)


def fail(job: ProgramJob, output: JobOutput) -> None:
    """Have a fault."""
    raise RuntimeError("a fault")


def _do(job: ProgramJob, job_input: JobInput, output: JobOutput) -> RunEnded:
    job_input.listen(limits.append, 0)
    globals()[job.does](job, output)
    job_input.ignore()
    return RunEnded(status="done", exit_code=0)


if __name__ == "__main__":
    sys.exit(run_program(msgspec.json.Decoder(ProgramJob), _do))
