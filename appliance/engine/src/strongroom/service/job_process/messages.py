"""The messages between a daemon and a job process: JSON objects, one a line.

The first line to the job process is its description, which each daemon defines for its jobs;
after that SetLimit and Stop may follow at any time. The end of the input means Stop, because the
daemon is gone. The job process answers with reports of its run, the last of which is RunEnded.
"""

from __future__ import annotations

import msgspec

from strongroom.net.control.messages import RunEnded, RunLog, RunProgress

# A longer line of the job's input or output is an error. The first line holds a whole message of
# the director (net.control LARGEST_MESSAGE_BYTES) and the agent's settings.
LARGEST_LINE_BYTES = 9 << 20


class SetLimit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="set-limit"):
    """The limit of the job from now on; 0 is none."""

    maximum_bytes_per_second: int


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="stop"):
    """End the job now and clean up."""


ToJob = SetLimit | Stop
FromJob = RunProgress | RunLog | RunEnded

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
