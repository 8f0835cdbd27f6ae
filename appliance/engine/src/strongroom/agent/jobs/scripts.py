"""Scripts around a job: a program in an allowed folder, no shell, a time limit, output to the log.

The rules of a RunScript: a failure before the job fails the job (unless Fail Job On Error = no),
and the job is not started. A script after the job declares whether it runs when the job succeeded,
failed (or was cancelled), or both; if it fails, a job that was done becomes failed (with Fail Job
On Error), though its snapshot stays.

In commands `%c` is the client, `%d` the director, `%e` how the job ended, `%f` the FileSet, `%i`
the run's id, `%j` job and run, `%l` the level, `%n` the job, `%t` the kind of job, `%%` a `%`.
They are substituted after the command is split into words, so a value stays within one word.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import shlex
import signal
import stat
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import ScriptError
from strongroom.net.control.messages import Script
from strongroom.service.trusted_files import distrust

LONGEST_LINE_BYTES: Final = 4096
MOST_LINES: Final = 10_000
_PR_SET_PDEATHSIG: Final = 1
# Between SIGTERM and SIGKILL.
_END_SECONDS: Final = 0.3
_POLL_SECONDS: Final = 0.05
_READ_BYTES: Final = 1 << 16
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class ScriptRules:
    """folders: where scripts may be. seconds: time limit of each. values: those of `%x`."""

    folders: tuple[str, ...]
    seconds: int
    values: Mapping[str, str]


def run_script(script: Script, rules: ScriptRules, log: Callable[[str], None]) -> None:
    """Run one script to its end; `log` gets its output line by line. Raises ScriptError.

    When this function ends early, the script and all processes it started are ended.
    """
    words = _words(script.command, rules)
    environment = {
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "STRONGROOM_JOB": rules.values.get("n", ""),
        "STRONGROOM_RUN": rules.values.get("i", ""),
        "STRONGROOM_CLIENT": rules.values.get("c", ""),
        "STRONGROOM_LEVEL": rules.values.get("l", ""),
        "STRONGROOM_STATUS": rules.values.get("e", ""),
    }
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=environment,
            bufsize=0,
            start_new_session=True,
            # No other thread runs yet.
            preexec_fn=partial(_end_with_parent, os.getpid()),  # noqa: PLW1509
        )
    except OSError as error:
        raise ScriptError(f"{words[0]} cannot be run: {error.strerror}") from error
    try:
        _follow(process, words[0], rules.seconds, _Lines(log))
    except BaseException:
        _end(process)
        raise
    finally:
        assert process.stdout is not None
        process.stdout.close()
    if process.returncode < 0:
        raise ScriptError(f"{words[0]} was ended by signal {-process.returncode}")
    if process.returncode:
        raise ScriptError(f"{words[0]} failed with status {process.returncode}")


def _words(command: str, rules: ScriptRules) -> list[str]:
    """The command as words, the first being the real path of an allowed program."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ScriptError(f"the command {command!r} cannot be split into words: {error}") from error
    if not words:
        raise ScriptError("a script has no command")
    program = _allowed(words[0], rules.folders)
    values = {"%": "%"} | dict(rules.values)
    return [program, *(re.sub("%(.)", lambda m: values.get(m[1], m[0]), one) for one in words[1:])]


def _allowed(program: str, folders: tuple[str, ...]) -> str:
    for folder in folders:
        # A name without a folder is searched for in the allowed folders.
        path = os.path.realpath(os.path.join(folder, program))
        if not path.startswith(os.path.realpath(folder).rstrip("/") + "/"):
            continue
        try:
            status = os.stat(path)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        if status.st_mode & stat.S_IWOTH:
            raise ScriptError(f"{path} is not run because anybody may change it: chmod o-w it")
        if not os.geteuid() and (reason := distrust(os.path.join(folder, program))):
            raise ScriptError(f"{path} is not run with root's rights: {reason}")
        return path
    allowed = ", ".join(folders) or "none"
    raise ScriptError(
        f"{program} is not a file in a folder that scripts may be run from ({allowed}); "
        "see Allowed Script Dir"
    )


def _end_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the signal was set up.
    if os.getppid() != parent:
        os._exit(1)


class _Lines:
    """Output of a script, split into lines; their length and number are limited."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._rest = b""
        self._count = 0

    def add(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(line)
        while len(self._rest) > LONGEST_LINE_BYTES:
            self._tell(self._rest[:LONGEST_LINE_BYTES])
            self._rest = self._rest[LONGEST_LINE_BYTES:]

    def end(self) -> None:
        if self._rest:
            self._tell(self._rest)
        if self._count > MOST_LINES:
            self._log(f"... and {self._count - MOST_LINES} more lines")

    def _tell(self, line: bytes) -> None:
        self._count += 1
        if self._count <= MOST_LINES:
            self._log(line[:LONGEST_LINE_BYTES].decode("utf-8", "replace").rstrip())


def _follow(process: subprocess.Popen[bytes], name: str, seconds: int, lines: _Lines) -> None:
    """Read the output until the script has ended; does not wait for background processes."""
    assert process.stdout is not None
    output = process.stdout.fileno()
    os.set_blocking(output, False)
    deadline = clock.elapsed_seconds() + seconds
    pid_file = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(output, select.POLLIN)
        poll.register(pid_file, select.POLLIN)
        while process.poll() is None:
            left = deadline - clock.elapsed_seconds()
            if left <= 0:
                raise ScriptError(f"{name} ran longer than {seconds} seconds")
            poll.poll(left * 1000)
            if not _read(output, lines):
                poll.unregister(output)
                output = -1
        _read(output, lines)
    finally:
        os.close(pid_file)
        lines.end()


def _read(output: int, lines: _Lines) -> bool:
    """Read what is available; False at the end of the output."""
    while output >= 0:
        try:
            data = os.read(output, _READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        lines.add(data)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the script's whole process group, by SIGKILL if SIGTERM does not suffice."""
    for number, wait_seconds in ((signal.SIGTERM, _END_SECONDS), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        deadline = clock.elapsed_seconds() + wait_seconds
        while clock.elapsed_seconds() < deadline:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_SECONDS)
                break
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
