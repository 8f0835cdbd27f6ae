"""Messages between coordinators and workers of every kind of job.

Messages are tagged structs in msgpack arrays: a tag, then the fields in order. Both ends are forks
of one process, so the format is internal and may change with any release.
Each kind of job has its own messages beside these: `backup.shards.messages`, `restore.messages`
and `verify.messages`. Structs cost what untyped lists would: all messages of a directory of 30
rows that changed take 1.4 microseconds of CPU, within a tenth of one (`python -m bench.messages`).
"""

from __future__ import annotations

import msgspec

from strongroom import errors


class WorkerMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all messages and of what they consist of."""


class Failed(WorkerMessage, frozen=True, tag="failed"):
    """The job failed in a worker; the job is over."""

    error_id: str
    exit_code: int
    text: str


class RowsEntry(WorkerMessage, frozen=True):
    """Rows of one directory, as `encode_rows` has them, without the ones whose numbers are skipped.

    is_new: the directory was made by this job, so it holds nothing yet.
    """

    place: bytes
    is_new: bool
    skipped: list[int]
    rows: bytes


def failure(error: errors.StrongroomError) -> Failed:
    """The message for an error."""
    return Failed(error.error_id, error.exit_code, str(error))


def error_of(failed: Failed) -> errors.StrongroomError:
    """The error that a worker failed with, as its original class."""
    return errors.error_named(failed.error_id, failed.text, exit_code=failed.exit_code)
