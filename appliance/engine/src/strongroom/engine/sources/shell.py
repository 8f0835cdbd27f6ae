"""The output of a shell command, within bounds of time and size; and lists of files from one."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from typing import IO, Final

from strongroom.base import clock
from strongroom.base.errors import RefusedError, SourceError, UsageError
from strongroom.base.text_marks import plain_text

COMMAND_SECONDS: Final = 30
_KEPT_ERROR_BYTES: Final = 4096


def run_command(command: str, limit_bytes: int) -> bytes:
    """The output of `command`, run by a shell; only where the caller allowed commands.

    Raises OSError when it fails, takes longer than COMMAND_SECONDS or writes over `limit_bytes`;
    it is then killed with all its children.
    """
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, complaint = _bounded_output(process, command, limit_bytes)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        reason = complaint.decode("utf-8", "replace").strip().splitlines()
        message = f"exit status {process.returncode} {reason[-1] if reason else ''}"
        raise OSError(5, message, command)
    return output


def _bounded_output(
    process: subprocess.Popen[bytes], command: str, limit_bytes: int
) -> tuple[bytes, bytes]:
    """The complete output of the process, and the end of its error output."""
    deadline = clock.elapsed_seconds() + COMMAND_SECONDS
    output = bytearray()
    complaint = b""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            selector.register(_opened(stream), selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - clock.elapsed_seconds()))
            if not ready:
                raise OSError(110, f"took longer than {COMMAND_SECONDS} s", command)
            for key, _ in ready:
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    complaint = (complaint + piece)[-_KEPT_ERROR_BYTES:]
                else:
                    output += piece
                if len(output) > limit_bytes:
                    raise OSError(27, f"wrote more than {limit_bytes} bytes", command)
    try:
        # It may have closed its output and continued.
        process.wait(max(0.0, deadline - clock.elapsed_seconds()))
    except subprocess.TimeoutExpired as error:
        raise OSError(110, f"took longer than {COMMAND_SECONDS} s", command) from error
    return bytes(output), complaint


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise OSError(9, "the command has no output")
    return stream


# Lists of files that a FileSet names: the lines of a file, or of a command's output.

_LIST_BYTES_LIMIT: Final = 64 << 20


def listed_lines(text: str, *, allow_commands: bool) -> list[bytes]:
    """The lines of `<list` or `|command` that are not blank. Raises RefusedError, SourceError."""
    kind, what = text[0], text[1:].strip()
    if kind == "|" and not allow_commands:
        raise RefusedError(
            f"the FileSet runs the command {what!r} for a list of files, and commands are not "
            "allowed here"
        )
    try:
        if kind == "|":
            data = run_command(what, _LIST_BYTES_LIMIT)
        else:
            with open(what, "rb") as file:
                data = file.read(_LIST_BYTES_LIMIT)
    except OSError as error:
        raise SourceError(f"cannot read the list of files {text!r}: {error.strerror}") from error
    try:
        data = plain_text(data, f"the list of files {text!r}")
    except UsageError as error:
        raise SourceError(str(error)) from error
    return [line for line in (line.strip() for line in data.splitlines()) if line]
