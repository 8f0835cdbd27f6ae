"""Run one command and measure it: wall clock, processor time, memory of its whole process tree.

Memory is the sum of the proportional set sizes (PSS: a shared page counts once, in shares) of all
processes below the runner, sampled about every 20 ms, because neither the parent's ru_maxrss nor
the children's measures a tool with several processes. It is reported with the peak RSS of the
largest process (VmHWM; ru_maxrss would count what the runner itself held when it forked), which
misses no short peak but counts shared pages whole. The sampler slows down when reading smaps_rollup
gets slow, so that it takes at most a tenth of one core.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from strongroom.base import clock

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE_SECONDS = 0.02
SAMPLER_SHARE = 0.1
PR_SET_CHILD_SUBREAPER = 36
KIB = 1024
# So long a stopped command may take to end by itself.
STOP_SECONDS = 10.0
MESSAGE_TAIL_BYTES = 4_000


class CommandError(Exception):
    """A measured command failed; the message holds the end of its output."""


class CommandTimeoutError(CommandError):
    """A measured command took too long and was stopped."""


@dataclass(frozen=True)
class CommandUsage:
    """The measured cost of one command."""

    wall_seconds: float
    cpu_seconds: float
    peak_pss_bytes: int
    largest_process_rss_bytes: int
    memory_samples: int

    def joined(self, following: CommandUsage) -> CommandUsage:
        """Both commands as one step: times add up, peaks do not."""
        return CommandUsage(
            self.wall_seconds + following.wall_seconds,
            self.cpu_seconds + following.cpu_seconds,
            max(self.peak_pss_bytes, following.peak_pss_bytes),
            max(self.largest_process_rss_bytes, following.largest_process_rss_bytes),
            self.memory_samples + following.memory_samples,
        )


@contextmanager
def adopted_orphans() -> Iterator[None]:
    """Be the parent of orphaned descendants for the block, so that none escapes the count."""
    libc = ctypes.CDLL(None, use_errno=True)
    for adopting in (1, 0):
        if libc.prctl(PR_SET_CHILD_SUBREAPER, adopting, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        if adopting:
            yield


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        return found
    return found


def _field_bytes(path: str, name: bytes) -> int:
    """A field in kB of a file of /proc; 0 when the process has ended or is a zombie."""
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(name):
                    return int(line.split()[1]) * KIB
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return 0


def _command_line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def tree_memory_bytes(root: int, left_out: AbstractSet[int] = frozenset()) -> tuple[int, int]:
    """Of all descendants of the process `root`, itself and `left_out` not.

    The sum of their PSS, and the largest peak RSS that one of them has had so far.
    """
    total = largest = 0
    own = _command_line(os.getpid())
    pending = [pid for pid in _children(root) if pid not in left_out]
    while pending:
        pid = pending.pop()
        pending += _children(pid)
        if _command_line(pid) == own:
            continue  # forked a moment ago: it still has the runner's memory
        total += _field_bytes(f"/proc/{pid}/smaps_rollup", b"Pss:")
        largest = max(largest, _field_bytes(f"/proc/{pid}/status", b"VmHWM:"))
    return total, largest


class MemorySampler:
    """Watches the process tree from a thread until stopped.

    `peak_bytes` is the largest sum of PSS, `largest_process_bytes` the largest RSS of a process.

    Children that were there before are none of the command's; `strangers` holds them.
    """

    def __init__(self) -> None:
        self.strangers = frozenset(_children(os.getpid()))
        self.peak_bytes = 0
        self.largest_process_bytes = 0
        self.samples = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        own_pid = os.getpid()
        pause_seconds = 0.001
        while not self._ended.wait(pause_seconds):
            begin = clock.elapsed_seconds()
            total, largest = tree_memory_bytes(own_pid, self.strangers)
            self.peak_bytes = max(self.peak_bytes, total)
            self.largest_process_bytes = max(self.largest_process_bytes, largest)
            self.samples += 1
            took_seconds = clock.elapsed_seconds() - begin
            pause_seconds = max(SAMPLE_SECONDS, took_seconds / SAMPLER_SHARE) - took_seconds


def _reap_orphans(strangers: AbstractSet[int]) -> float:
    """Processor time of descendants that outlived the command; waits for them."""
    cpu_seconds = 0.0
    while orphans := [pid for pid in _children(os.getpid()) if pid not in strangers]:
        for pid in orphans:
            _, _, usage = os.wait4(pid, 0)
            cpu_seconds += usage.ru_utime + usage.ru_stime
    return cpu_seconds


def _ends_within(pid: int, seconds: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        # Not select, which refuses descriptors above 1023.
        ending = select.poll()
        ending.register(descriptor, select.POLLIN)
        return bool(ending.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def _stop(process: subprocess.Popen[bytes], strangers: AbstractSet[int]) -> None:
    """End it: in order if it can, else with all that it started; and orphans of it."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        _kill([process.pid])
        process.wait()
    # What it started and did not wait for, adopted by this process.
    _kill([pid for pid in _children(os.getpid()) if pid not in strangers])
    _reap_orphans(strangers)


def _kill(pending: list[int]) -> None:
    """Kill processes and all below them."""
    while pending:
        pid = pending.pop()
        pending += _children(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def measure(
    command: Sequence[str],
    environment: Mapping[str, str],
    working_folder: Path,
    log: Path,
    most_seconds: float | None = None,
) -> CommandUsage:
    """Run `command` to its end; its output goes to `log`.

    Dirty pages of earlier commands are written back first, so that they do not slow this one.
    Raises CommandError when it does not exit with 0, CommandTimeoutError when it is not done after
    `most_seconds`; it is stopped then, and what it started.
    """
    os.sync()
    with log.open("wb") as output, MemorySampler() as sampler:
        begin = clock.elapsed_seconds()
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=working_folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            if most_seconds is not None and not _ends_within(process.pid, most_seconds):
                raise CommandTimeoutError(f"{' '.join(command)} took over {most_seconds:.1f} s")
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            _stop(process, sampler.strangers)
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_seconds = clock.elapsed_seconds() - begin
        orphans_cpu_seconds = _reap_orphans(sampler.strangers)
    if process.returncode:
        tail = log.read_bytes()[-MESSAGE_TAIL_BYTES:].decode(errors="replace")
        raise CommandError(f"{' '.join(command)} exited with {process.returncode}:\n{tail}")
    return CommandUsage(
        wall_seconds,
        usage.ru_utime + usage.ru_stime + orphans_cpu_seconds,
        sampler.peak_bytes,
        sampler.largest_process_bytes,
        sampler.samples,
    )
