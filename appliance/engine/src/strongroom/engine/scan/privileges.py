"""What in rows would give power on the machine that they are restored to.

Set-id bits (of directories too: a file made in one belongs to a group that its maker need not be
in), device nodes, file capabilities, and `trusted.` attributes, which mean something to the kernel
(overlayfs). They mean the same again only where they came from. The sticky bit takes rights away,
and a FIFO gives none: these stay. The flags immutable and append-only give no power, but only root
takes them away again: what is restored could be neither changed nor removed.
"""

from __future__ import annotations

import stat
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec
import numpy as np

from strongroom.base.errors import DamageError
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE, Rows
from strongroom.engine.rows.views import RowView
from strongroom.engine.scan.attributes import decode_xattrs, encode_xattrs

SET_ID_BITS: Final = stat.S_ISUID | stat.S_ISGID
_FORMAT: Final = 0o170000
_CAPABILITY: Final = b"security.capability"
_TRUSTED: Final = b"trusted."
# chattr +i and +a.
_PROTECTING: Final = 0x10 | 0x20


class Privilege(StrEnum):
    """A kind of it."""

    SET_ID = "set-id"
    DEVICE = "device"
    CAPABILITY = "capability"
    TRUSTED = "trusted"
    PROTECTED = "protected"


class Stripped(NamedTuple):
    """Rows without privileges. `lost`: (row number, what it had). `devices`: rows to skip."""

    rows: Rows
    lost: list[tuple[int, Privilege]]
    devices: list[int]


def without_privileges(rows: Rows) -> Stripped:
    """All rows, bare of privileges; device nodes stay among them and are named in `devices`."""
    stats = np.frombuffer(rows.stats, "<i8").reshape(-1, COLUMN_COUNT)
    modes = stats[:, MODE]
    formats = modes & _FORMAT
    devices = np.flatnonzero((formats == stat.S_IFCHR) | (formats == stat.S_IFBLK)).tolist()
    has_set_id = ((modes & SET_ID_BITS) != 0) & (formats != stat.S_IFLNK)
    set_id = np.flatnonzero(has_set_id).tolist()
    lost = [(number, Privilege.DEVICE) for number in devices]
    is_device = frozenset(devices)
    lost += [(number, Privilege.SET_ID) for number in set_id if number not in is_device]
    xattrs = dict(rows.xattrs)
    for number, encoded in rows.xattrs.items():
        xattrs[number], kinds = _bare_xattrs(encoded)
        lost += [(number, kind) for kind in kinds if number not in is_device]
    flags = {number: found & ~_PROTECTING for number, found in rows.flags.items()}
    for number, found in rows.flags.items():
        if found != flags[number] and number not in is_device:
            lost.append((number, Privilege.PROTECTED))
    if not lost:
        return Stripped(rows, [], [])
    bare = stats.copy()
    bare[has_set_id, MODE] &= ~SET_ID_BITS
    kept = {number: encoded for number, encoded in xattrs.items() if encoded}
    flags = {number: found for number, found in flags.items() if found}
    stripped = msgspec.structs.replace(rows, stats=bare.tobytes(), xattrs=kept, flags=flags)
    return Stripped(stripped, sorted(lost), devices)


def bare_directory(row: RowView) -> tuple[RowView, list[Privilege]]:
    """The row of a directory without privileges, and those it had."""
    xattrs, kinds = _bare_xattrs(row.xattrs)
    if row.mode & SET_ID_BITS:
        kinds.insert(0, Privilege.SET_ID)
    if row.flags & _PROTECTING:
        kinds.append(Privilege.PROTECTED)
    if not kinds:
        return row, []
    mode, flags = row.mode & ~SET_ID_BITS, row.flags & ~_PROTECTING
    return row._replace(mode=mode, xattrs=xattrs, flags=flags), kinds


def _bare_xattrs(encoded: bytes) -> tuple[bytes, list[Privilege]]:
    if _CAPABILITY not in encoded and _TRUSTED not in encoded:
        return encoded, []
    try:
        pairs = decode_xattrs(encoded)
    except DamageError:
        # Anyone who sets them decodes them too, and reports that.
        return encoded, []
    kinds = dict.fromkeys(kind for name, _ in pairs if (kind := _kind_of(name)) is not None)
    return encode_xattrs(pair for pair in pairs if _kind_of(pair[0]) is None), list(kinds)


def _kind_of(name: bytes) -> Privilege | None:
    if name == _CAPABILITY:
        return Privilege.CAPABILITY
    return Privilege.TRUSTED if name.startswith(_TRUSTED) else None
