"""What has been done: a file of the state, which is on disk before the next step begins.

It reports, and it remembers what cannot be seen: that a disk was free before we began to format
it, and which tokens were made. Everything else is checked on the machine.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

import msgspec

from strongroom.base import clock
from strongroom.base.errors import ConflictError, DamageError
from strongroom.net.identities.private_files import SECRET_MODE, read_bounded, write_file
from strongroom_appliance.machine import STATE_FOLDER

STATE_FILE: Final = f"{STATE_FOLDER}/state.json"
_LOCK: Final = f"{STATE_FOLDER}/lock"
_GREATEST_BYTES: Final = 4 << 20
_MOST_KEPT: Final = 50


class StepReport(msgspec.Struct, kw_only=True):
    """result: of the last time. did: what it changed, in words. at: UTC."""

    result: Literal["begun", "done", "failed"]
    did: list[str] = []
    error: str = ""
    at: str = ""


class DiskPlan(msgspec.Struct, kw_only=True):
    """A data disk that was free when it was chosen.

    is_made: its file system is complete. is_sealed: the TPM of this machine unlocks it. luks_uuid,
    xfs_uuid: those that it gets. stable_name: of the disk itself, with its serial number where it
    has one.
    """

    device: str
    stable_name: str
    size: int
    encryption: str
    luks_uuid: str
    xfs_uuid: str
    is_made: bool = False
    is_sealed: bool = False


class _Known(msgspec.Struct, kw_only=True):
    version: int = 1
    is_ready: bool = False
    answers_from: str = ""
    trouble: str = ""
    steps: dict[str, StepReport] = {}
    disk: DiskPlan | None = None
    tokens: list[str] = []


class State:
    """What was done, and what failed. Every change is on disk when the method returns."""

    def __init__(self) -> None:
        try:
            data = read_bounded(os.fsencode(STATE_FILE), _GREATEST_BYTES)
            self.known = msgspec.json.decode(data, type=_Known)
        except FileNotFoundError:
            self.known = _Known()
        except msgspec.DecodeError as error:
            raise DamageError(
                f"{STATE_FILE} is damaged: {error}; move it elsewhere and apply the answers again"
            ) from error

    def write(self) -> None:
        """Put it on disk."""
        os.makedirs(STATE_FOLDER, 0o700, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(self.known), indent=2)
        write_file(os.fsencode(STATE_FILE), text + b"\n", SECRET_MODE)

    def begin(self, step: str) -> None:
        """A step begins."""
        before = self.known.steps[step].did if step in self.known.steps else []
        self.known.steps[step] = StepReport(result="begun", did=before, at=_now())
        self.write()

    def end(self, step: str, did: list[str], error: str = "") -> None:
        """A step has ended."""
        result: Literal["done", "failed"] = "failed" if error else "done"
        before = self.known.steps[step].did if step in self.known.steps else []
        did = [*(one for one in before if one not in did), *did][-_MOST_KEPT:]
        self.known.steps[step] = StepReport(result=result, did=did, error=error, at=_now())
        self.write()


def _now() -> str:
    return clock.utc_text(clock.now_ns())


@contextmanager
def the_only_one() -> Iterator[None]:
    """Let one process at a time change the machine. Raises ConflictError."""
    os.makedirs(STATE_FOLDER, 0o700, exist_ok=True)
    descriptor = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConflictError(
                "this machine is being set up at the moment; wait until that has ended"
            ) from error
        yield
    finally:
        os.close(descriptor)
