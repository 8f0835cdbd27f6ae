"""What the agent and a job process say to each other: JSON objects, one a line.

The first line to the job is its JobDescription; after that SetLimit and Stop may come at any
time. The end of the job's input means Stop: nobody is there any more who would hear of the job.
The job answers with reports, the last of which is JobEnded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from strongroom.knobs.settings import KnobSettings
from strongroom.net.control.messages import (
    LARGEST_WHOLE_BYTES,
    LogLevel,
    RunStatus,
    StartBackup,
    StartEstimate,
    StartRestore,
    StartVerify,
)

# A longer line of the job's input or output is a fault.
LARGEST_LINE_BYTES = 9 << 20
# But for the first, which has all of the request.
LARGEST_DESCRIPTION_BYTES = LARGEST_WHOLE_BYTES + LARGEST_LINE_BYTES

Request = StartBackup | StartRestore | StartVerify | StartEstimate


class JobDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One job.

    client: the agent's name, the host of its snapshots. director: whose job it is. lock_file: is
    locked while the job is under way, so that the same run is never done twice at once.
    script_folders: where scripts may lie. script_seconds: how long each may take. allow_commands:
    whether a FileSet may have commands run. processes: how many the job may start to work for it.
    tuning: the agent's own knobs, which those of the request override. maximum_...: the lower of
    the agent's and the request's, 0 is no limit.
    """

    request: Request
    client: str
    director: str
    identity_folder: str
    cache_folder: str
    lock_file: str
    script_folders: tuple[str, ...] = ()
    script_seconds: int = 3600
    allow_commands: bool = False
    processes: int = 1
    tuning: KnobSettings = KnobSettings()
    maximum_bytes_per_second: int = 0
    maximum_run_seconds: int = 0


class SetLimit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="set-limit"):
    """The limit of the job from now on; 0 is none."""

    maximum_bytes_per_second: int


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="stop"):
    """End the job now and leave nothing half done."""


class JobProgress(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="progress"):
    """Counts so far."""

    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    errors: int = 0
    total_files: int | None = None
    total_bytes: int | None = None
    message: str = ""


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
_description: msgspec.json.Decoder[JobDescription] = msgspec.json.Decoder(JobDescription)


def encode_line(message: JobDescription | ToJob | FromJob) -> bytes:
    """A message as a line."""
    return _encoder.encode(message) + b"\n"


def decode_description(line: bytes) -> JobDescription:
    """The first line. Raises msgspec.MsgspecError."""
    return _description.decode(line)


def decode_to_job(line: bytes) -> ToJob:
    """A later line to the job. Raises msgspec.MsgspecError."""
    return _to_job.decode(line)


def decode_from_job(line: bytes) -> FromJob:
    """A line from the job. Raises msgspec.MsgspecError."""
    return _from_job.decode(line)
