"""Job processes that need not start Python and load modules first, as in kit.prepared_commands.

A process that has loaded everything forks them. A job must be a child of the daemon that starts it,
which waits for it by its pid: so that process, the preparer, is below the daemon, forks twice, and
the daemon is for this moment the one that inherits processes whose parent has ended.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import importlib
import marshal
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing import util
from typing import Any, Final, NoReturn

# The names of these processes in /proc/PID/comm; the kernel keeps 15 characters.
PREPARER: Final = "job-preparer"
JOB: Final = "prepared-job"
MODULES: Final = ("strongroom.agent.jobs.job", "strongroom.director.own_jobs.job")
_LARGEST_REQUEST: Final = 1 << 17
# Above the numbers of files that a process is given.
_ABOVE: Final = 100
_SPAWNED: Final = "from multiprocessing.spawn import spawn_main;"
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIMITS: Final = (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_DATA)
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def children_of(pid: int) -> list[int]:
    """Pids of its children, without a preparer of its jobs."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [child for child in map(int, file.read().split()) if comm_of(child) != PREPARER]


def comm_of(pid: int) -> str:
    """The name that a process has at the kernel; "" when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def prepare_jobs() -> None:
    """Have the jobs of this process, a daemon that has no threads yet, forked from now on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _prctl(_PR_SET_NAME, PREPARER.encode())
        _prepare(theirs)
    theirs.close()
    preparer = _Preparer(ours)

    class PreparedPopen(subprocess.Popen[Any]):
        """Popen, but a job of ours is forked."""

        def _execute_child(self, args: Any, *rest: Any) -> None:
            words = list(args) if isinstance(args, list | tuple) else []
            if words[:3] != [sys.executable, "-P", "-m"] or words[3] not in MODULES:
                super()._execute_child(args, *rest)  # type: ignore[misc]
                return
            # In the order of Popen: the folder, and both ends of the standard files.
            folder, ends = rest[4], rest[9:15]
            files = {number: ends[at] for number, at in enumerate((0, 3, 5))}
            self.pid = preparer.start("job", words[3], folder, files)
            self._child_created = True
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def spawn_prepared(path: bytes, words: Sequence[str], passed: Sequence[int]) -> int:
        if not words[2].startswith(_SPAWNED):
            return usual(path, words, passed)
        return preparer.start("spawned", words[2], None, {number: number for number in passed})

    usual = util.spawnv_passfds
    util.spawnv_passfds = spawn_prepared  # type: ignore[assignment]
    subprocess.Popen = PreparedPopen  # type: ignore[misc]


def leave(status: int) -> NoReturn:
    """End a forked process as Python ends, but without taking each module to pieces.

    In a fork that has all of them, that costs more than most commands do.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


class _Preparer:
    """The way to a preparer. One request at a time."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._lock = threading.Lock()

    def start(self, kind: str, what: str, folder: str | None, files: dict[int, int]) -> int:
        """Start a process that has our `files` under these numbers; its pid."""
        limits = [resource.getrlimit(one) for one in _LIMITS]
        request = (kind, what, folder or os.getcwd(), dict(os.environ), limits, list(files))
        with self._lock:
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
            try:
                socket.send_fds(self._requests, [marshal.dumps(request)], list(files.values()))
                pid = int(self._requests.recv(32))
            finally:
                _prctl(_PR_SET_CHILD_SUBREAPER, 0)
        return pid


def _prepare(requests: socket.socket) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for name in MODULES:
        importlib.import_module(name)
    while True:
        data, received, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 8)
        if not data:
            os._exit(0)
        answer, answering = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                requests.close()
                os.close(answer)
                os.close(answering)
                _become(marshal.loads(data), received)
            os.write(answering, b"%d" % pid)
            os._exit(0)
        # Once this has ended, the daemon is the parent.
        os.waitpid(between, 0)
        requests.send(os.read(answer, 32))
        for descriptor in (answer, answering, *received):
            os.close(descriptor)


def _become(request: Any, received: Sequence[int]) -> NoReturn:
    kind, what, folder, environment, limits, numbers = request
    # First out of the way of each other's numbers.
    moved = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for one in received]
    for descriptor in received:
        os.close(descriptor)
    for descriptor, number in zip(moved, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for limit, values in zip(_LIMITS, limits, strict=True):
        resource.setrlimit(limit, values)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if kind == "job":
        _prctl(_PR_SET_NAME, JOB.encode())
        os.setsid()
        sys.argv = [what]
        leave(sys.modules[what].main())
    sys.argv = [sys.executable, "--multiprocessing-fork"]
    exec(what, {})
    sys.exit()
