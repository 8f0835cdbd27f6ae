"""What the director tells a process of its own to do: one JSON object on its standard input.

The process answers as an agent's job does (daemons.agent.job_messages): progress, log lines, and as
the last line how it ended. Places are named, never keys: the process reads the passphrase itself.
"""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True):
    """A repository; see repositories.RepositoryPlace."""

    place: str
    passphrase_file: str = ""


class Task(msgspec.Struct, frozen=True, kw_only=True, tag_field="task"):
    """Base of all tasks. host: whose name leases bear."""

    place: Place
    host: str
    cache_folder: str = ""


class ReadSnapshot(Task, frozen=True, kw_only=True, tag="read-snapshot"):
    """Read all that a snapshot needs; see jobs.verify_stored."""

    snapshot: str


class RestoreSample(Task, frozen=True, kw_only=True, tag="restore-sample"):
    """Restore a sample of a snapshot and compare it; see jobs.restore_sample."""

    snapshot: str
    scratch: str
    most_files: int
    most_bytes: int


class CopySnapshots(Task, frozen=True, kw_only=True, tag="copy-snapshots"):
    """Copy snapshots to another repository. The end's summary has `copies`: [original, copy]."""

    target: Place
    snapshots: tuple[str, ...]


class Prune(Task, frozen=True, kw_only=True, tag="prune"):
    """Vouch, where there is a storage daemon, then give back the space that no snapshot needs."""


class Vouch(Task, frozen=True, kw_only=True, tag="vouch"):
    """Look at what agents stored, so that others may share it; see jobs.vouch."""


class BackUpFolder(Task, frozen=True, kw_only=True, tag="back-up-folder"):
    """Make a snapshot of folders of this machine: the catalog's copy and the configuration."""

    job: str
    folders: tuple[str, ...]
    tags: tuple[str, ...]


AnyTask = ReadSnapshot | RestoreSample | CopySnapshots | Prune | Vouch | BackUpFolder

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyTask] = msgspec.json.Decoder(AnyTask)


def encode_task(task: AnyTask) -> bytes:
    """A task as a line."""
    return _encoder.encode(task) + b"\n"


def decode_task(line: bytes) -> AnyTask:
    """The task of a line. Raises msgspec.MsgspecError."""
    return _decoder.decode(line)
