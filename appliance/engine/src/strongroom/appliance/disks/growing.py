"""Using all of a data disk that was enlarged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.appliance.disks.looking import device_of, size_of
from strongroom.appliance.machine import MOUNT_POINT, run

if TYPE_CHECKING:
    from strongroom.appliance.state import State

# It enlarges the encryption, too.
_GROW: Final = "/usr/lib/systemd/systemd-growfs"
_LEAST_GROWTH: Final = 64 << 20


def grow(state: State) -> str:
    """Enlarge the file system, which is mounted; what was done, in words, "" for nothing."""
    plan = state.known.disk
    assert plan is not None
    size = size_of(device_of(plan.device))
    if size <= plan.size + _LEAST_GROWTH:
        return ""
    run([_GROW, MOUNT_POINT])
    plan.size = size
    state.write()
    return f"enlarged the file system on {plan.device} to {size / 1e9:.1f} GB"
