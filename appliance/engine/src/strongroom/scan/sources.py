"""Where the content of a snapshot comes from: files, standard input, a command, plugins.

A source gives paths of the local file system, which the engine scans by itself, or streams,
each of which becomes one regular file in the root of the snapshot, or both. The engine reads a
stream to its end, then calls `finish`; only when that returns does the stream count as good.
A snapshot with a stream that is not good is never made.

Other distributions add sources through the entry point group `strongroom.sources`: an entry
point is a callable that takes a SourceRequest and returns a Source (docs/sources.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from strongroom.errors import SourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ENTRY_POINT_GROUP: Final = "strongroom.sources"
DEFAULT_STREAM_NAME: Final = b"stdin"
_STREAM_MODE: Final = 0o600
_PIPE_BYTES: Final = 1 << 20
_END_SECONDS: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What the user asked of a source.

    arguments: paths for `files`, the command's words for `command`. stream_name: name of the
    file that a single stream becomes. options: for plugins, as given by the user.
    """

    arguments: tuple[bytes, ...] = ()
    stream_name: bytes = DEFAULT_STREAM_NAME
    options: Mapping[str, str] = field(default_factory=dict)


class Stream(Protocol):
    """One file of the snapshot, read once from its beginning to its end."""

    @property
    def name(self) -> bytes:
        """Name of the file in the root of the snapshot."""

    @property
    def mode(self) -> int:
        """Permission bits of the file."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` as far as there is data; 0 only at the end. Raises SourceError."""

    def finish(self) -> None:
        """After the end: settle that the content is whole. Raises SourceError when it is not."""

    def close(self) -> None:
        """Let go of everything, at any time; a stream that is not finished is broken off."""


class Source(Protocol):
    """What a snapshot is made from."""

    def paths(self) -> tuple[bytes, ...]:
        """Paths to scan, relative to "/", without links on the way, none below another.

        Raises SourceError.
        """

    def streams(self) -> Iterator[Stream]:
        """Streams, each started when it is asked for. Raises SourceError."""


class FilesSource:
    """Files and directories of this machine."""

    def __init__(self, request: SourceRequest) -> None:
        if not request.arguments:
            raise UsageError("name at least one file or directory to back up")
        self._arguments = request.arguments

    def paths(self) -> tuple[bytes, ...]:
        """The arguments, made absolute; see `settled_path`."""
        settled = sorted(
            {settled_path(path) for path in self._arguments},
            key=lambda path: path.replace(b"/", b"\0"),
        )
        outermost: list[bytes] = []
        for path in settled:
            above = outermost[-1] if outermost else None
            if above is None or not (above == b"" or path.startswith(above + b"/")):
                outermost.append(path)
        return tuple(outermost)

    def streams(self) -> Iterator[Stream]:
        """None."""
        return iter(())


class StandardInputSource:
    """Whatever comes in on standard input, until its end."""

    def __init__(self, request: SourceRequest) -> None:
        self._name = _checked_name(request.stream_name)

    def paths(self) -> tuple[bytes, ...]:
        """None."""
        return ()

    def streams(self) -> Iterator[Stream]:
        """The one stream."""
        yield DescriptorStream(0, self._name, "standard input")


class CommandSource:
    """The output of a command. Its exit status decides whether a snapshot is made."""

    def __init__(self, request: SourceRequest) -> None:
        if not request.arguments:
            raise UsageError("name the command whose output is to be backed up")
        self._arguments = request.arguments
        self._name = _checked_name(request.stream_name)

    def paths(self) -> tuple[bytes, ...]:
        """None."""
        return ()

    def streams(self) -> Iterator[Stream]:
        """The command's output; the command starts when this is asked for."""
        yield CommandStream(self._arguments, self._name)


class DescriptorStream:
    """Reads a descriptor that stays its owner's to close; usable by plugins too."""

    def __init__(self, fd: int, name: bytes, shown: str, mode: int = _STREAM_MODE) -> None:
        self.name = name
        self.mode = mode
        self._fd = fd
        self._shown = shown
        # A wider pipe means fewer switches; descriptors that are no pipe have no width.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer`; less than its length only at the end."""
        filled = 0
        while filled < len(buffer):
            try:
                count = os.readv(self._fd, [buffer[filled:]])
            except OSError as error:
                raise SourceError(f"cannot read {self._shown}: {error.strerror}") from error
            if not count:
                break
            filled += count
        return filled

    def finish(self) -> None:
        """Nothing but the end says whether a descriptor's data is whole."""

    def close(self) -> None:
        """Nothing to let go of."""


class CommandStream:
    """The standard output of a command, which has no standard input; its errors go to ours."""

    def __init__(self, arguments: Sequence[bytes], name: bytes) -> None:
        self.name = name
        self.mode = _STREAM_MODE
        self._shown = arguments[0].decode("utf-8", "backslashreplace")
        try:
            self._process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                bufsize=0,
                # No other thread runs yet.
                preexec_fn=partial(_end_with_parent, os.getpid()),  # noqa: PLW1509
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SourceError(
                f"cannot start {self._shown}: {reason}; no snapshot was made"
            ) from error
        assert self._process.stdout is not None
        self._output = DescriptorStream(
            self._process.stdout.fileno(), name, f"the output of {self._shown}"
        )

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer`; less than its length only at the end."""
        return self._output.readinto(buffer)

    def finish(self) -> None:
        """Wait for the command to end. Raises SourceError unless its exit status is 0."""
        status = self._process.wait()
        self.close()
        if status:
            how = f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"
            raise SourceError(f"the command {self._shown} {how}; no snapshot was made")

    def close(self) -> None:
        """End the command if it still runs."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _end_with_parent(parent: int) -> None:
    """Have the kernel end this process when the one that started it dies, however it dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # It may have died before it was said what happens then.
    if os.getppid() != parent:
        os._exit(1)
    # What a shard ignores, so that its coordinator decides, is for the command to heed again.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


_BUILT_IN: Final[Mapping[str, Callable[[SourceRequest], Source]]] = {
    "files": FilesSource,
    "stdin": StandardInputSource,
    "command": CommandSource,
}


def open_source(name: str, request: SourceRequest) -> Source:
    """The source `name`: one of ours, else the plugin of that name.

    Raises UsageError when there is none, SourceError when a plugin cannot be loaded.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name](request)
    # Only plugins pay for looking through what is installed.
    from importlib.metadata import entry_points

    found = entry_points(group=ENTRY_POINT_GROUP, name=name)
    if not found:
        known = ", ".join(source_names())
        raise UsageError(f"there is no source {name!r}; there are: {known}")
    entry = next(iter(found))
    try:
        factory: Callable[[SourceRequest], Source] = entry.load()
    except (ImportError, AttributeError) as error:
        raise SourceError(
            f"the source {name!r} ({entry.value}) cannot be loaded: {error}"
        ) from error
    return factory(request)


def source_names() -> list[str]:
    """Names of all sources there are, sorted."""
    from importlib.metadata import entry_points

    return sorted({*_BUILT_IN, *entry_points(group=ENTRY_POINT_GROUP).names})


def settled_path(path: bytes) -> bytes:
    """`path` relative to "/", with links on the way resolved; a link at its end stays one.

    A slash, "." or ".." at the end means the directory behind a link. Raises SourceError when
    there is nothing at the path.
    """
    above, name = os.path.split(path)
    try:
        if name in (b"", b".", b".."):
            settled = os.path.realpath(path or b".", strict=True)
        else:
            settled = os.path.join(os.path.realpath(above or b".", strict=True), name)
            os.lstat(settled)
    except (OSError, ValueError) as error:
        shown = path.decode("utf-8", "backslashreplace")
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError(f"cannot back up {shown}: {reason}") from error
    return settled.strip(b"/")


def _checked_name(name: bytes) -> bytes:
    if not name or b"/" in name or b"\0" in name or name in (b".", b".."):
        shown = name.decode("utf-8", "backslashreplace")
        raise UsageError(f"{shown!r} cannot be the name of a file in a snapshot")
    return name
