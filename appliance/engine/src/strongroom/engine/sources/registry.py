"""Sources by name: built-in ones, and those of other distributions.

Other distributions add sources through the entry point group `strongroom.sources`: an entry
point is a callable that takes a SourceRequest and returns a Source (docs/reference/filesets.md).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from strongroom.base.errors import SourceError, UsageError
from strongroom.base.printable import printable
from strongroom.engine.sources.files import FilesSource
from strongroom.sources.source import STREAM_MODE, Source, SourceRequest, Stream, checked_name
from strongroom.sources.stream import DescriptorStream, StandardInputSource

_END_SECONDS: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1


class CommandSource:
    """The output of a command. Its exit status decides whether a snapshot is made."""

    def __init__(self, request: SourceRequest) -> None:
        if not request.arguments:
            raise UsageError("name the command whose output is to be backed up")
        self._arguments = request.arguments
        self._name = checked_name(request.stream_name)

    def paths(self) -> tuple[bytes, ...]:
        """A command has only its output."""
        return ()

    def streams(self) -> Iterator[Stream]:
        """The command's output; the command starts when this is called."""
        yield CommandStream(self._arguments, self._name)


class CommandStream:
    """The standard output of a command, which has no standard input; its standard error is ours."""

    def __init__(self, arguments: Sequence[bytes], name: bytes) -> None:
        self.name = name
        self.mode = STREAM_MODE
        self._shown = printable(arguments[0])
        try:
            self._process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                bufsize=0,
                # No other thread runs yet.
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509
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


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent dies, however it dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # The parent may have died before the request took effect.
    if os.getppid() != parent:
        os._exit(1)
    # Signals that a shard ignores, as its coordinator handles them, are reset for the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


ENTRY_POINT_GROUP: Final = "strongroom.sources"

_BUILT_IN: Final[Mapping[str, Callable[[SourceRequest], Source]]] = {
    "files": FilesSource,
    "stdin": StandardInputSource,
    "command": CommandSource,
}


def open_source(name: str, request: SourceRequest) -> Source:
    """The source `name`: a built-in one, else the plugin of that name.

    Raises UsageError when there is none, SourceError when a plugin cannot be loaded.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name](request)
    # Installed distributions are searched only for plugins.
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
