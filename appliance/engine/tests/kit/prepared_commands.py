"""Commands and daemons in their own processes that need not start Python and load modules first.

That costs more than most commands of a test do. A server, started when it is first needed, has
loaded everything; for each command it forks a process that gets arguments, environment, working
directory and standard files, and from there on is what `python -m strongroom` is. Tests of how a
command starts, of terminals and pipes start a real one.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import marshal
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

from kit.prepared_jobs import leave, prepare_jobs
from kit.shifted_clock import CLOCK_FILE

# Encodings are settled when Python starts, so the server's must be the command's.
LOCALE: Final = "C.UTF-8"
TIMEOUT_SECONDS: Final = 300
_LARGEST_REQUEST: Final = 1 << 17
_LARGEST_REPLY: Final = 32
# In the environment of a daemon: "director.director.COPY_LOOK_SECONDS=2 ...", periods that a test
# does not wait for. Only a prepared daemon knows it.
PERIODS: Final = "PERIODS_OF_TESTS"
_LOADED: Final = tuple(
    f"strongroom.{room}"
    for room in ("cli.commands", "cli.client.client", "engine", "sources", "config", "net")
)
# Loaded when such a daemon is first wanted: most servers start none.
_OF_DAEMONS: Final = {
    "agent": ("strongroom.agent",),
    "director": ("strongroom.director.daemon", "strongroom.director.own_jobs", "alembic.command"),
    "storage": ("strongroom.storage",),
}


class PreparedProcess:
    """A process that a server forked, with what tests use of subprocess.Popen."""

    def __init__(self, words: Sequence[str], reply: socket.socket) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        self._reply = reply
        reply.settimeout(TIMEOUT_SECONDS)
        self.pid = int(reply.recv(_LARGEST_REPLY))

    def poll(self) -> int | None:
        """Its exit code once it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code when it has ended; below 0 is the number of a signal."""
        if self.returncode is None:
            self._reply.settimeout(timeout)
            try:
                self.returncode = os.waitstatus_to_exitcode(int(self._reply.recv(_LARGEST_REPLY)))
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._reply.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """End it in order."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a chance to do anything more."""
        self.send_signal(signal.SIGKILL)


Process = PreparedProcess | subprocess.Popen[bytes]


def start_command(
    words: Sequence[str],
    environment: Mapping[str, str],
    output: int,
    messages: int,
    folder: Path | None = None,
    given: int = subprocess.DEVNULL,
) -> Process:
    """Start `strongroom WORDS`, in `folder` or where we are; the files are descriptors.

    With other settings of Python or of the loader in the environment, or in another locale, it
    starts as usual; the library that shifts clocks has a server of its own.
    """
    preloaded = environment["LD_PRELOAD"] if CLOCK_FILE in environment else ""
    is_other_python = any(
        name.startswith(("PYTHON", "LD_")) and value not in (os.environ.get(name), preloaded)
        for name, value in environment.items()
    )
    if environment.get("LC_ALL") != LOCALE or is_other_python:
        return subprocess.Popen(
            [sys.executable, "-m", "strongroom", *words],
            env=environment,
            cwd=folder,
            stdin=given,
            stdout=output,
            stderr=messages,
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    nothing = os.open(os.devnull, os.O_RDONLY)
    with theirs:
        place = os.fspath(folder or os.getcwd())
        request = marshal.dumps((list(words), dict(environment), place, _umask()))
        files = [nothing if given < 0 else given, output, messages, theirs.fileno()]
        # A process stays in the network in which it was started.
        network = os.readlink("/proc/thread-self/ns/net")
        socket.send_fds(_server(os.getpid(), network, preloaded), [request], files)
        os.close(nothing)
    return PreparedProcess(words, ours)


def run_command(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path | None = None,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run `strongroom WORDS` to its end; `given` is its standard input."""
    files = input_file, output, messages = [os.memfd_create("prepared") for _ in range(3)]
    try:
        os.pwrite(input_file, given, 0)
        process = start_command(words, environment, output, messages, folder, input_file)
        try:
            status = process.wait(TIMEOUT_SECONDS)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(words, status, _content(output), _content(messages))
    finally:
        for descriptor in files:
            os.close(descriptor)


def run_for_text(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path | None = None,
    given: str = "",
) -> subprocess.CompletedProcess[str]:
    """The same, and what it wrote is text; in the locale that is prepared where none is given."""
    done = run_command(words, {"LC_ALL": LOCALE, **environment}, folder, given.encode())
    output, messages = (
        data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr)
    )
    return subprocess.CompletedProcess(words, done.returncode, output, messages)


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


@cache
def _server(_pid: int, _network: str, preloaded: str) -> socket.socket:
    """The way to the server of this process and network; it ends when this end is closed."""
    environment = {**os.environ, "LC_ALL": LOCALE, "OPENBLAS_NUM_THREADS": "1"}
    if preloaded:
        environment["LD_PRELOAD"] = preloaded
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-m", "kit.prepared_commands", str(theirs.fileno())],
            cwd=Path(__file__).parents[1],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    return ours


def _load(names: Sequence[str]) -> None:
    for name in names:
        package = importlib.import_module(name)
        inside = getattr(package, "__path__", ())
        for module in pkgutil.walk_packages(inside, f"{package.__name__}."):
            # A library that is not here is loaded, or missed, by the command that wants it; mfusepy
            # raises OSError where libfuse is not.
            with suppress(ImportError, OSError):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _make_passphrases_cheap() -> None:
    """Have new repositories open at once: a third of a second of computing for each try is right
    against those who guess, and was more than all else that most commands of a test do."""
    from strongroom.engine.repository.keys.wrapping import Argon2Cost

    Argon2Cost.__new__.__defaults__ = (1024, 1, 1)


def _serve(requests: socket.socket) -> None:
    """Fork for each request, and tell anyone who asked how it ended; returns in the children."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked_by: dict[int, socket.socket] = {}
    missing = dict(_OF_DAEMONS)
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        ready = [key.fd for key, _ in selector.select()]
        if woken in ready:
            os.read(woken, 4096)
            _tell_of_ends(asked_by)
        if requests.fileno() not in ready:
            continue
        request, files, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 4)
        if not request:
            sys.exit()
        words, environment, folder, umask = marshal.loads(request)
        if words and words[0] in missing:
            _load(missing.pop(words[0]))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            selector.close()
            requests.close()
            for descriptor in (woken, wake, files[3], *(one.detach() for one in asked_by.values())):
                os.close(descriptor)
            os.umask(umask)
            _become(files[:3], words, environment, folder)
        for descriptor in files[:3]:
            os.close(descriptor)
        asked_by[pid] = socket.socket(fileno=files[3])
        asked_by[pid].send(b"%d" % pid)


def _tell_of_ends(asked_by: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with asked_by.pop(pid) as reply, suppress(OSError):
                reply.send(b"%d" % status)


def _become(
    files: Sequence[int], words: list[str], environment: dict[str, str], folder: str
) -> NoReturn:
    from strongroom.cli.main import main

    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    if CLOCK_FILE in os.environ:
        ctypes.CDLL(None).find_shift()
    for period in os.environ.pop(PERIODS, "").split():
        name, _, value = period.partition("=")
        module, _, constant = name.rpartition(".")
        owner = importlib.import_module(f"strongroom.{module}")
        setattr(owner, constant, type(getattr(owner, constant))(value))
    time.tzset()
    os.chdir(folder)
    sys.argv = ["strongroom", *words]
    if words and words[0] in ("agent", "director"):
        prepare_jobs()
    leave(main())


if __name__ == "__main__":
    # The folder of tests has no modules for a command.
    del sys.path[0]
    # What multiprocessing prepares in its processes is then as after `python -m strongroom`.
    sys.modules[__name__].__spec__ = importlib.util.find_spec("strongroom.__main__")
    _load(_LOADED)
    _make_passphrases_cheap()
    _serve(socket.socket(fileno=int(sys.argv[1])))
