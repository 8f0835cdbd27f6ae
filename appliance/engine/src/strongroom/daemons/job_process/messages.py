"""The messages between a daemon and a job process: JSON objects, one a line.

The first line to the job process is its description, which each daemon defines for its jobs;
after that SetLimit and Stop may follow at any time. The end of the input means Stop, because the
daemon is gone. The job process answers with reports, the last of which is JobEnded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from strongroom.net.control.messages import (
    LogLevel,
    RunProgress,
    RunStatus,
)

# A longer line of the job's input or output is an error. The first line holds a whole message of
# the director (net.control LARGEST_MESSAGE_BYTES) and the agent's settings.
LARGEST_LINE_BYTES = 9 << 20


class SetLimit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="set-limit"):
    """The limit of the job from now on; 0 is none."""

    maximum_bytes_per_second: int


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="stop"):
    """End the job now and clean up."""


class JobProgress(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="progress"):
    """Counts so far; fields as of progress.Counts and control.RunProgress."""

    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    errors: int = 0
    total_files: int | None = None
    total_bytes: int | None = None
    total_is_estimate: bool = False
    message: str = ""
    stage_seconds: dict[str, float] = {}
    queued_blocks: int = 0

    def of_run(self, run_id: str) -> RunProgress:
        """The same as it is said of a run."""
        return RunProgress(run_id=run_id, **msgspec.structs.asdict(self))


class JobLog(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="log"):
    """A line of the log, or several."""

    time_ns: int
    level: LogLevel
    text: str


class JobEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ended"):
    """The end; fields as of control.RunEnded."""

    status: RunStatus
    exit_code: int
    error_id: str = ""
    error: str = ""
    snapshot: str = ""
    summary: dict[str, Any] = {}
    security: dict[str, Any] = {}


ToJob = SetLimit | Stop
FromJob = JobProgress | JobLog | JobEnded

_encoder = msgspec.json.Encoder()
_to_job: msgspec.json.Decoder[ToJob] = msgspec.json.Decoder(ToJob)
_from_job: msgspec.json.Decoder[FromJob] = msgspec.json.Decoder(FromJob)


def encode_line(message: msgspec.Struct) -> bytes:
    """A description or a message as a line."""
    return _encoder.encode(message) + b"\n"


def decode_to_job(line: bytes) -> ToJob:
    """Decode a later line to the job. Raises msgspec.MsgspecError."""
    return _to_job.decode(line)


def decode_from_job(line: bytes) -> FromJob:
    """Decode a line from the job. Raises msgspec.MsgspecError."""
    return _from_job.decode(line)
