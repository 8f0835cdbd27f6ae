"""The agent's description of a job: the first line of the input of a job process."""

from __future__ import annotations

import msgspec

from strongroom.engine.knobs.settings import KnobSettings
from strongroom.net.control.messages import (
    Script,
    StartBackup,
    StartEstimate,
    StartRestore,
    StartVerify,
)

StartMessage = StartBackup | StartRestore | StartVerify | StartEstimate

_KINDS = {
    StartBackup: "backup",
    StartRestore: "restore",
    StartVerify: "verify",
    StartEstimate: "estimate",
}


class JobDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One job.

    start: the director's message. client: the agent's name, the host of its snapshots. director:
    the owner of the job. lock_file: locked while the job runs, so that the same run is never
    executed twice at once. script_folders: where scripts may be. script_seconds: limit of each.
    restore_folders: where restores may write, () for everywhere.
    allow_commands: whether a FileSet may run commands. processes: how many the job may start.
    tuning: the agent's own tuning knobs, which those of the start message override. share_below:
    what a backup may offer to share at most, None for no bound. maximum_...: the lower of the
    agent's and the start message's, 0 is no limit.
    """

    start: StartMessage
    client: str
    director: str
    identity_folder: str
    cache_folder: str
    lock_file: str
    script_folders: tuple[str, ...] = ()
    script_seconds: int = 3600
    restore_folders: tuple[str, ...] = ()
    allow_commands: bool = False
    processes: int = 1
    tuning: KnobSettings = KnobSettings()
    share_below: tuple[str, ...] | None = None
    maximum_bytes_per_second: int = 0
    maximum_run_seconds: int = 0


class PassedRestore(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent tells a `privileged_restore`: those of JobDescription that give no rights."""

    start: StartRestore
    processes: int = 1
    maximum_bytes_per_second: int = 0
    maximum_run_seconds: int = 0


def kind_of(start: StartMessage) -> str:
    """backup, restore, verify or estimate."""
    return _KINDS[type(start)]


def scripts_of(start: StartMessage) -> tuple[Script, ...]:
    """The scripts of a job; some kinds have none."""
    return start.scripts if isinstance(start, StartBackup | StartRestore) else ()


def bandwidth_of(start: StartMessage) -> int:
    """Its limit in bytes per second, 0 for none."""
    return start.maximum_bytes_per_second if isinstance(start, StartBackup | StartRestore) else 0


def run_seconds_of(start: StartMessage) -> int:
    """How long it may run, 0 for no limit."""
    return start.maximum_run_seconds if isinstance(start, StartBackup) else 0
