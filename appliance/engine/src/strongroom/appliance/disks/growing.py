"""Using all of a data disk that was enlarged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.appliance.disks.looking import device_of, size_of
from strongroom.appliance.machine import MOUNT_POINT, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.appliance.state import State

# What is inside the encryption, see unlocking.py.
INSIDE: Final = "/dev/mapper/strongroom-data"
_GROW: Final = "/usr/lib/systemd/systemd-growfs"
# Less is what the encryption needs for itself.
_LEAST_GROWTH: Final = 64 << 20


def grow(state: State, did: Callable[[str], None], say: Callable[[str], None]) -> None:
    """Enlarge the file system, which is mounted, if its disk is larger than it was."""
    plan = state.known.disk
    assert plan is not None
    size = size_of(device_of(plan.device))
    if size <= plan.size + _LEAST_GROWTH:
        return
    # Encryption has the size that the disk had when it was unlocked.
    if plan.encryption != "none" and size_of(INSIDE) + _LEAST_GROWTH < size:
        say(f"{plan.device} was enlarged, and is used as a whole after a restart")
        return
    run([_GROW, MOUNT_POINT])
    plan.size = size
    state.write()
    did(f"enlarged the file system on {plan.device} to {size / 1e9:.1f} GB")
