"""The two roots of the appliance, a and b, and what GRUB knows of them (packer/base/grub.cfg).

Each is good, or is tried a number of times (3, 2, 1) and then left (0). GRUB takes the first of
`order` that is good or has tries left, and counts a try before it starts it.

That is in `grubenv`, which GRUB and the running system both write. The file has 1024 bytes and its
place on the disk never changes: GRUB writes into that place, past any file system. So it is
overwritten in place here, too. All that changes lies in its first 512 bytes, which a disk writes as
a whole or not at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from strongroom.base import clock
from strongroom.base.errors import DamageError, OperatingSystemError, StrongroomError, UsageError
from strongroom_appliance.finding import mounted
from strongroom_appliance.machine import RUN_FOLDER

IMAGE_FOLDER: Final = "/usr/lib/strongroom/image"
IMAGE_ID: Final = f"{IMAGE_FOLDER}/id"
GOOD: Final = "good"
LEFT: Final = "0"
TRIES: Final = "3"
Slot = Literal["a", "b"]
_OTHERS: Final[dict[Slot, Slot]] = {"a": "b", "b": "a"}
_LABELS: Final = "/dev/disk/by-partlabel"
_BOOT: Final = f"{_LABELS}/strongroom-boot"
_ENVIRONMENT: Final = "grub/grubenv"
_ENVIRONMENT_BYTES: Final = 1024
_SECTOR_BYTES: Final = 512
_HEAD: Final = b"# GRUB Environment Block\n"
_SLOT: Final = "strongroom.slot="
_TRIAL: Final = "strongroom.trial"
_PATIENCE_SECONDS: Final = 60
_PAUSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Running:
    """The root that runs. is_trial: it is not known to be good yet. image: its id."""

    slot: Slot
    is_trial: bool
    image: str

    @property
    def other(self) -> Slot:
        """The slot that an update is written to."""
        return _OTHERS[self.slot]


def running() -> Running | None:
    """Which root runs; None on a machine that has no two roots."""
    with open("/proc/cmdline", encoding="utf-8", errors="replace") as file:
        words = file.read().split()
    slots = [word.removeprefix(_SLOT) for word in words if word.startswith(_SLOT)]
    if not slots or slots[-1] not in _OTHERS:
        return None
    was_trial = any(word.partition("=")[0] == _TRIAL for word in words)
    return Running(slots[-1], was_trial and not _is_good(slots[-1]), image_id())


def _is_good(slot: Slot) -> bool:
    """Whether a root that was started to be tried has been found good since."""
    try:
        return states().get(f"{slot}_state") == GOOD
    except (StrongroomError, OSError):
        return False


def running_here() -> Running:
    """Which root runs. Raises UsageError on a machine that has no two roots."""
    found = running()
    if found is None:
        raise UsageError(
            "this machine was not started from an image with two roots; it gets updates by apt"
        )
    return found


def image_id() -> str:
    """The id of the image that the running root is. Raises DamageError."""
    try:
        with open(IMAGE_ID, encoding="ascii") as file:
            found = file.read(256).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DamageError(f"{IMAGE_ID} cannot be read; this root is damaged") from error
    image_time(found)
    return found


def image_time(image: str) -> int:
    """When what an image is made of was current, seconds; newer images have greater ones.

    Raises DamageError.
    """
    word = image.partition("-")[0]
    if not (word.isascii() and word.isdigit() and len(word) < 16):
        raise DamageError("an image has no time in its id")
    return int(word)


def device_of_slot(slot: str) -> str:
    """The partition of a root. Raises OperatingSystemError."""
    return _there(f"{_LABELS}/strongroom-{slot}")


def states() -> dict[str, str]:
    """What GRUB knows: `a_state`, `b_state` and `order`. Raises StrongroomError."""
    found: dict[str, str] = {}
    _with_environment("ro", lambda path: found.update(_read_environment(path)))
    return found


def change_states(**changed: str) -> None:
    """Tell GRUB, durably; all of it or nothing. Raises StrongroomError."""

    def change(path: str) -> None:
        _write_environment(path, {**_read_environment(path), **changed})

    _with_environment("rw", change)


def _with_environment(mode: str, act: Callable[[str], None]) -> None:
    # A folder of its own: a start that looks for answers has its mounts elsewhere.
    with mounted(_there(_BOOT), mode, f"{RUN_FOLDER}/boot") as folder:
        act(os.path.join(folder, _ENVIRONMENT))


def _read_environment(path: str) -> dict[str, str]:
    """Its variables. Raises DamageError, OSError."""
    with open(path, "rb") as file:
        data = file.read(_ENVIRONMENT_BYTES + 1)
    if len(data) != _ENVIRONMENT_BYTES or not data.startswith(_HEAD):
        raise DamageError(f"{path} is not an environment block of GRUB; install the image again")
    lines = data.removeprefix(_HEAD).rstrip(b"#").decode("ascii", "replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _write_environment(path: str, variables: dict[str, str]) -> None:
    """Replace its variables, durably. Raises DamageError, OSError."""
    text = b"".join(f"{name}={value}\n".encode("ascii") for name, value in variables.items())
    if len(_HEAD + text) > _SECTOR_BYTES:
        raise DamageError(f"{path} holds more than GRUB's menu of the image needs")
    data = (_HEAD + text).ljust(_ENVIRONMENT_BYTES, b"#")
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_size != _ENVIRONMENT_BYTES:
            raise DamageError(
                f"{path} is not an environment block of GRUB; install the image again"
            )
        os.pwrite(descriptor, data, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _there(path: str) -> str:
    """A device, once it is there: a start that is tried looks for it early."""
    ends = clock.elapsed_seconds() + _PATIENCE_SECONDS
    while not os.path.exists(path):
        if clock.elapsed_seconds() > ends:
            raise OperatingSystemError(f"there is no partition {path}; install the image again")
        time.sleep(_PAUSE_SECONDS)
    return os.path.realpath(path)
