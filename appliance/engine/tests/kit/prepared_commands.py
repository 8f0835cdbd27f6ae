"""Commands in their own processes that need not start Python and load the engine first.

That costs more than most commands of a test do. A server, started when it is first needed, has
loaded everything; for each command it forks a process that gets arguments, environment, working
directory and standard files, and from there on is what `python -m strongroom` is. Tests of how a
command starts, of terminals, pipes and signals start a real one.
"""

from __future__ import annotations

import gc
import importlib
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

# Encodings are settled when Python starts, so the server's must be the command's.
LOCALE: Final = "C.UTF-8"
TIMEOUT_SECONDS: Final = 300
_LARGEST_REQUEST: Final = 1 << 17
_LOADED: Final = ("cli.commands", "cli.client.client", "engine", "sources", "config", "net")


def run_command(
    words: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `strongroom WORDS` to its end, in `folder` or where we are, without standard input.

    With other settings of Python in the environment, or in another locale, it starts as usual.
    """
    is_other_python = any(
        name.startswith("PYTHON") and os.environ.get(name) != value
        for name, value in environment.items()
    )
    if environment.get("LC_ALL") != LOCALE or is_other_python:
        return subprocess.run(
            [sys.executable, "-m", "strongroom", *words],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    ours, theirs = socket.socketpair()
    output, messages = (os.memfd_create(name) for name in ("output", "messages"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        with ours, theirs:
            request = marshal.dumps(
                (list(words), dict(environment), os.fspath(folder or os.getcwd()))
            )
            files = [nothing, output, messages, theirs.fileno()]
            # A process stays in the network in which it was started.
            network = os.readlink("/proc/thread-self/ns/net")
            socket.send_fds(_server(os.getpid(), network), [request], files)
            theirs.close()
            status = _await_end(ours, words)
        return subprocess.CompletedProcess(words, status, _content(output), _content(messages))
    finally:
        for descriptor in (nothing, output, messages):
            os.close(descriptor)


def run_for_text(
    words: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The same, and what it wrote is text; in the locale that is prepared where none is given."""
    done = run_command(words, {"LC_ALL": LOCALE, **environment}, folder)
    output, messages = (
        data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr)
    )
    return subprocess.CompletedProcess(words, done.returncode, output, messages)


def _await_end(reply: socket.socket, words: Sequence[str]) -> int:
    reply.settimeout(TIMEOUT_SECONDS)
    with reply.makefile("r") as lines:
        pid = int(lines.readline())
        try:
            return os.waitstatus_to_exitcode(int(lines.readline()))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(words), TIMEOUT_SECONDS) from None


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


@cache
def _server(_pid: int, _network: str) -> socket.socket:
    """The way to the server of this process and network; it ends when this end is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "LC_ALL": LOCALE, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
        )
    return ours


def _load_everything() -> None:
    import strongroom

    for room in _LOADED:
        package = importlib.import_module(f"{strongroom.__name__}.{room}")
        inside = getattr(package, "__path__", ())
        for module in pkgutil.walk_packages(inside, f"{package.__name__}."):
            # A library that is not here is loaded, or missed, by the command that wants it; mfusepy
            # raises OSError where libfuse is not.
            with suppress(ImportError, OSError):
                importlib.import_module(module.name)


def _serve(requests: socket.socket) -> None:
    """Fork for each request, and tell anyone who asked how it ended; returns in the children."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked_by: dict[int, socket.socket] = {}
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
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            selector.close()
            requests.close()
            for descriptor in (woken, wake, files[3], *(one.fileno() for one in asked_by.values())):
                os.close(descriptor)
            _become(files[:3], *marshal.loads(request))
        for descriptor in files[:3]:
            os.close(descriptor)
        asked_by[pid] = socket.socket(fileno=files[3])
        asked_by[pid].sendall(b"%d\n" % pid)


def _tell_of_ends(asked_by: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with asked_by.pop(pid) as reply, suppress(OSError):
                reply.sendall(b"%d\n" % status)


def _become(
    files: Sequence[int], words: list[str], environment: dict[str, str], folder: str
) -> NoReturn:
    from strongroom.cli.main import main

    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.argv = ["strongroom", *words]
    sys.exit(main())


if __name__ == "__main__":
    # The folder of this file holds no modules for a command.
    del sys.path[0]
    _load_everything()
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
