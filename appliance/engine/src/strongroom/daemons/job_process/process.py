"""One job process, seen from the agent: started, listened to, told to stop, waited for.

Restores need rights that the agent does not have where it runs in its sandbox. There a socket of
the service manager starts a process with those rights for each connection; it speaks the same
lines. Everywhere else a job is a child of the agent.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.daemons.job_process.messages import (
    LARGEST_LINE_BYTES,
    JobEnded,
    JobLog,
    JobProgress,
    SetLimit,
    Stop,
    decode_from_job,
    encode_line,
)
from strongroom.errors import JobDiedError
from strongroom.net.control.messages import StartRestore

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.daemons.job_process.messages import JobDescription, ToJob

# What a job may take to end that was told to, scripts aside.
STOP_SECONDS: Final = 10.0
_STDERR_BYTES: Final = 16 << 10


class RunProcess:
    """A job under way. `report` gets its progress and log lines, in order."""

    def __init__(
        self,
        description: JobDescription,
        restore_socket: str,
        report: Callable[[JobProgress | JobLog], None],
    ) -> None:
        self._description = description
        self._restore_socket = restore_socket
        self._report = report
        self._writer: asyncio.StreamWriter | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._killer: asyncio.TimerHandle | None = None
        self._waiting: list[ToJob] = []

    async def run(self) -> JobEnded:
        """Start the process and wait for its end. Never raises but for being cancelled."""
        try:
            reader = await self._start()
        except OSError as error:
            return _died(f"the process of the job cannot be started: {error.strerror or error}")
        assert self._writer is not None
        stderr = asyncio.create_task(self._read_stderr())
        try:
            self._writer.write(encode_line(self._description))
            for message in self._waiting:
                self._send(message)
            ended = await self._read(reader)
            status = await self._wait()
            if self._killer is not None:
                self._killer.cancel()
            said = await stderr
        except BaseException:
            stderr.cancel()
            self.kill()
            raise
        finally:
            self._writer.close()
        if ended is not None:
            return ended
        how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return _died(f"the process of the job was {how}: {said or 'it said nothing'}")

    def set_limit(self, maximum_bytes_per_second: int) -> None:
        """Change the job's limit; 0 is none."""
        self._send(SetLimit(maximum_bytes_per_second=maximum_bytes_per_second))

    def stop(self) -> None:
        """Tell it to end; a child that does not is killed."""
        self._send(Stop())
        if self._killer is None:
            scripts = getattr(self._description.request, "scripts", ())
            patience = STOP_SECONDS + (self._description.script_seconds if scripts else 0)
            self._killer = asyncio.get_running_loop().call_later(patience, self.kill)

    def kill(self) -> None:
        """End it at once, and with it all that it started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
        elif self._writer is not None:
            self._writer.close()

    async def _start(self) -> asyncio.StreamReader:
        if self._needs_rights():
            reader, self._writer = await asyncio.open_unix_connection(
                self._restore_socket, limit=LARGEST_LINE_BYTES
            )
            return reader
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "strongroom.daemons.agent.jobs.job",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LARGEST_LINE_BYTES,
            start_new_session=True,
        )
        self._writer = self._process.stdin
        assert self._process.stdout is not None
        return self._process.stdout

    def _needs_rights(self) -> bool:
        """Whether a process that can write everything is to be had, and wanted."""
        is_restore = isinstance(self._description.request, StartRestore)
        return is_restore and os.geteuid() != 0 and os.path.exists(self._restore_socket)

    def _send(self, message: ToJob) -> None:
        if self._writer is None:
            self._waiting.append(message)
        elif not self._writer.is_closing():
            # A job that has just ended hears no more.
            with suppress(OSError):
                self._writer.write(encode_line(message))

    async def _read(self, reader: asyncio.StreamReader) -> JobEnded | None:
        """Until the last report; None when it ended without one."""
        while True:
            try:
                line = await reader.readline()
                if not line:
                    return None
                message = decode_from_job(line)
            except (ValueError, msgspec.MsgspecError, OSError):
                # Not a report of ours, or cut off: nothing that comes after can be trusted.
                self.kill()
                return None
            if isinstance(message, JobEnded):
                return message
            self._report(message)

    async def _read_stderr(self) -> str:
        """What it says besides, the beginning of it."""
        if self._process is None or self._process.stderr is None:
            return ""
        kept = b""
        while data := await self._process.stderr.read(1 << 16):
            kept += data[: _STDERR_BYTES - len(kept)]
        return kept.decode("utf-8", "replace").strip()

    async def _wait(self) -> int:
        return 0 if self._process is None else await self._process.wait()


def _died(text: str) -> JobEnded:
    return JobEnded(
        status="failed",
        exit_code=JobDiedError.exit_code,
        error_id=JobDiedError.error_id,
        error=f"{text}; what was stored is kept: run the job again",
    )
