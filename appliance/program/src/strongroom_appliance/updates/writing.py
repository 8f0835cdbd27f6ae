"""Writing an update into the root that does not run.

That root is left by GRUB before the first byte is written, and tried only after all of it was
compared with what is signed. So a power cut at any moment leaves the running root first.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final

from strongroom.base.errors import ConflictError, DamageError, RefusedError, StoreError
from strongroom.base.printable import printable
from strongroom_appliance.disks.erasing import refuse_used
from strongroom_appliance.disks.looking import size_of
from strongroom_appliance.state import the_only_one
from strongroom_appliance.updates.record import UpdateRecord, read_record, write_record
from strongroom_appliance.updates.slots import (
    GOOD,
    LEFT,
    TRIES,
    Running,
    change_states,
    device_of_slot,
    image_time,
    running_here,
    states,
)
from strongroom_appliance.updates.update_file import (
    Manifest,
    Update,
    opened_source,
    opened_update,
)

_PIECE_BYTES: Final = 4 << 20
_REPORTED_EVERY_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What an update did. is_new: something waits for a restart; else there was nothing to do."""

    manifest: Manifest
    slot: str
    is_new: bool


def write_update(place: str, *, is_older_wanted: bool, say: Callable[[str], None]) -> UpdateResult:
    """Write an update beside the running root; the next start tries it.

    Raises RefusedError for one that is not signed by the key of this image, or is older and not
    wanted; DamageError, ConflictError, UsageError, StoreError.
    """
    now = running_here()
    if now.is_trial:
        raise ConflictError(
            "this root is being tried, and the other one is the fallback; wait until "
            "`strongroom-appliance slots` shows it as good"
        )
    with the_only_one(), opened_source(place) as stream, opened_update(stream, place) as update:
        manifest = update.manifest
        if manifest.image == now.image:
            return UpdateResult(manifest, now.slot, is_new=False)
        if image_time(manifest.image) < image_time(now.image) and not is_older_wanted:
            raise RefusedError(
                f"{printable(place)} is older than what runs ({printable(manifest.image)}, "
                f"{printable(now.image)}); nothing was changed. Add --older to install it anyway"
            )
        if _waits(manifest, now):
            return UpdateResult(manifest, now.other, is_new=True)
        _write(update, now, say)
        return UpdateResult(manifest, now.other, is_new=True)


def _waits(manifest: Manifest, now: Running) -> bool:
    """Whether just this was written before, and has not been tried yet."""
    record = read_record()
    return (
        record is not None
        and (record.image, record.slot, record.result) == (manifest.image, now.other, "written")
        and states().get(f"{now.other}_state") == TRIES
    )


def _write(update: Update, now: Running, say: Callable[[str], None]) -> None:
    manifest, slot = update.manifest, now.other
    device = device_of_slot(slot)
    refuse_used(device)
    if size_of(device) < manifest.bytes:
        raise StoreError(
            f"the root of {printable(manifest.image)} needs {manifest.bytes >> 20} MiB, and the "
            f"partition has {size_of(device) >> 20}; install the new image instead"
        )
    say(f"writes {printable(manifest.version)} ({manifest.image}) to root {slot}")
    change_states(
        **{f"{now.slot}_state": GOOD, f"{slot}_state": LEFT, "order": f"{now.slot} {slot}"}
    )
    with update.root() as source:
        _copy(source, device, manifest, say)
    write_record(
        UpdateRecord(slot=slot, image=manifest.image, version=manifest.version, result="written")
    )
    change_states(**{f"{slot}_state": TRIES, "order": f"{slot} {now.slot}"})
    say(f"the next start tries root {slot}")


def _copy(source: IO[bytes], device: str, manifest: Manifest, say: Callable[[str], None]) -> None:
    """Copy and compare, while it is read and once more from the disk."""
    digest = hashlib.sha256()
    done = 0
    with open(device, "r+b", buffering=0) as disk:
        while piece := source.read(_PIECE_BYTES):
            if done + len(piece) > manifest.bytes:
                break
            digest.update(piece)
            view = memoryview(piece)
            while view:
                view = view[disk.write(view) :]
            if (done + len(piece)) // _REPORTED_EVERY_BYTES > done // _REPORTED_EVERY_BYTES:
                say(f"  {(done + len(piece)) >> 20} MiB")
            done += len(piece)
        if piece or done != manifest.bytes or digest.hexdigest() != manifest.sha256:
            raise DamageError(
                "the root in this update does not match its signature; the running root stays. "
                "Download the file again"
            )
        os.fsync(disk.fileno())
        # Past what the kernel remembers.
        os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        disk.seek(0)
        found = hashlib.sha256()
        left = manifest.bytes
        while left and (piece := disk.read(min(_PIECE_BYTES, left))):
            found.update(piece)
            left -= len(piece)
    if found.hexdigest() != manifest.sha256:
        raise StoreError(f"{device} loses data that is written to it; replace the disk")
