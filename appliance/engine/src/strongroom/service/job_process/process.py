"""One job process, as the daemon handles it: start, read reports, stop, wait.

Some jobs need rights that a sandboxed daemon does not have. There a socket of the service manager
starts a process with those rights for each connection; it uses the same messages. Everywhere else
a job process is a child of the daemon, in its own process group, so that it can be killed
together with all processes it started.

Everything runs in the event loop's thread.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from strongroom.base.errors import JobDiedError
from strongroom.base.interpreter import SAFE_FOLDER, module_command
from strongroom.net.control.messages import RunEnded, RunLog, RunProgress
from strongroom.service.job_process.messages import (
    LARGEST_LINE_BYTES,
    SetLimit,
    Stop,
    ToJob,
    decode_from_job,
    encode_line,
)

# How long a job may take to end after Stop, scripts aside.
STOP_SECONDS: Final = 10.0
# The end of standard error is kept: it tells why a process died. The catalog has room for 4 KiB of
# an error.
STDERR_BYTES: Final = 3 << 10
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class JobProgram:
    """How to start a job: a module, or where `socket_path` is set the program behind that socket.

    stop_seconds: how long it may take to end after Stop; then it is killed.
    """

    module: str
    socket_path: str = ""
    stop_seconds: float = STOP_SECONDS


class JobProcess:
    """A running job. `report` gets its progress and log lines, in order."""

    def __init__(
        self,
        program: JobProgram,
        description: msgspec.Struct,
        report: Callable[[RunProgress | RunLog], Awaitable[None]],
    ) -> None:
        self._program = program
        self._description = description
        self._report = report
        self._writer: asyncio.StreamWriter | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._killer: asyncio.TimerHandle | None = None
        self._unsent: list[ToJob] = []

    async def run(self) -> RunEnded:
        """Start the process and wait for its end, however it ends.

        Raises only what `report` raises, and CancelledError; then the process is killed.
        """
        try:
            reader = await self._start()
        except OSError as error:
            return _died(f"the process of the job cannot be started: {error.strerror or error}")
        assert self._writer is not None
        stderr = asyncio.create_task(self._read_stderr())
        leftovers = asyncio.create_task(self._kill_leftovers())
        try:
            self._writer.write(encode_line(self._description))
            for message in self._unsent:
                self._send(message)
            ended = await self._read(reader)
            status = await self._wait()
            printed = await stderr
        except BaseException:
            self.kill()
            raise
        finally:
            stderr.cancel()
            leftovers.cancel()
            if self._killer is not None:
                self._killer.cancel()
            self._writer.close()
        if ended is not None:
            return ended
        how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return _died(f"the process of the job was {how}: {printed or 'it printed nothing'}")

    def set_limit(self, maximum_bytes_per_second: int) -> None:
        """Change the job's limit; 0 is none."""
        self._send(SetLimit(maximum_bytes_per_second=maximum_bytes_per_second))

    def stop(self) -> None:
        """Send Stop; a child that does not end in time is killed."""
        self._send(Stop())
        if self._killer is None:
            loop = asyncio.get_running_loop()
            self._killer = loop.call_later(self._program.stop_seconds, self.kill)

    def kill(self) -> None:
        """Kill it and all processes it started."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif self._writer is not None:
            self._writer.close()

    async def _start(self) -> asyncio.StreamReader:
        if self._program.socket_path:
            reader, self._writer = await asyncio.open_unix_connection(
                self._program.socket_path, limit=LARGEST_LINE_BYTES
            )
            return reader
        self._process = await asyncio.create_subprocess_exec(
            *module_command(self._program.module),
            cwd=SAFE_FOLDER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LARGEST_LINE_BYTES,
            start_new_session=True,
        )
        self._writer = self._process.stdin
        assert self._process.stdout is not None
        return self._process.stdout

    def _send(self, message: ToJob) -> None:
        if self._writer is None:
            self._unsent.append(message)
        elif not self._writer.is_closing():
            # A job that has just ended does not read any more.
            with suppress(OSError):
                self._writer.write(encode_line(message))

    async def _read(self, reader: asyncio.StreamReader) -> RunEnded | None:
        """Read until the last report; None when it ended without one."""
        while True:
            try:
                line = await reader.readline()
                if not line:
                    return None
                message = decode_from_job(line)
            except (ValueError, msgspec.MsgspecError, OSError):
                # Not a valid report, or truncated: nothing after it can be trusted.
                self.kill()
                return None
            if isinstance(message, RunEnded):
                return message
            await self._report(message)

    async def _read_stderr(self) -> str:
        if self._process is None or self._process.stderr is None:
            return ""
        kept = b""
        while data := await self._process.stderr.read(1 << 16):
            kept = (kept + data)[-STDERR_BYTES:]
        return kept.decode("utf-8", "replace").strip()

    async def _wait(self) -> int:
        return 0 if self._process is None else await self._process.wait()

    async def _kill_leftovers(self) -> None:
        """Kill what a process ended by a signal leaves behind: it may hold our pipes open."""
        if self._process is None:
            return
        while self._process.returncode is None:  # noqa: ASYNC110 - no event before the pipes end
            await asyncio.sleep(_LOOK_SECONDS)
        if self._process.returncode < 0:
            self.kill()


def _died(text: str) -> RunEnded:
    return RunEnded(
        status="failed",
        exit_code=JobDiedError.exit_code,
        error_id=JobDiedError.error_id,
        error=f"{text}; what was stored is kept: run the job again",
    )
