"""A row of a listing as a line (`ls -l`) and as a JSON object."""

from __future__ import annotations

import os
import stat

from strongroom.base.clock import local_text, utc_text
from strongroom.base.printable import printable
from strongroom.base.quantities import size_text
from strongroom.cli.snapshot_choice import shown_path
from strongroom.cli.terminal import JsonObject
from strongroom.engine.rows.rows import STATE_NAMES, kind_name
from strongroom.engine.rows.views import RowView
from strongroom.engine.scan.attributes import attribute_names

_ACL_NAME = b"system.posix_acl_"


def entry_object(row: RowView) -> JsonObject:
    """The JSON object of a row, without its `type` (docs/reference/json-output.md)."""
    entry: JsonObject = {
        "path": shown_path(row.path),
        "kind": kind_name(row.mode),
        "mode": f"{stat.S_IMODE(row.mode):04o}",
        "uid": row.uid,
        "gid": row.gid,
        "size_bytes": row.size,
        "modified": utc_text(row.mtime_ns),
        "changed": utc_text(row.ctime_ns),
        "inode": row.inode,
        "links": row.link_count,
    }
    if stat.S_ISLNK(row.mode):
        entry["target"] = row.target
    if stat.S_ISCHR(row.mode) or stat.S_ISBLK(row.mode):
        entry["device"] = [os.major(row.rdev), os.minor(row.rdev)]
    if row.xattrs:
        entry["xattrs"] = attribute_names(row.xattrs)
    if row.flags:
        entry["flags"] = row.flags
    if row.signature.strip(b"\0"):
        entry["signature"] = row.signature.hex()
    if row.state in STATE_NAMES:
        entry["state"] = STATE_NAMES[row.state]
    return entry


def entry_line(row: RowView, name: bytes, *, human: bool = False) -> str:
    """A row as `ls -ln` shows it.

    After the mode `+` is an ACL, `@` another attribute, `?` attributes that are damaged.
    """
    if stat.S_ISCHR(row.mode) or stat.S_ISBLK(row.mode):
        size = f"{os.major(row.rdev)}, {os.minor(row.rdev)}"
    else:
        size = size_text(row.size) if human else str(row.size)
    line = (
        f"{stat.filemode(row.mode)}{_attribute_mark(row)} {row.link_count:>3} {row.uid:>5} "
        f"{row.gid:>5} {size:>12} {local_text(row.mtime_ns)} {printable(name)}"
    )
    if stat.S_ISLNK(row.mode):
        line += f" -> {printable(row.target)}"
    if row.state in STATE_NAMES:
        line += f" ({STATE_NAMES[row.state]} when it was backed up)"
    return line


def _attribute_mark(row: RowView) -> str:
    if not row.xattrs:
        return " "
    names = attribute_names(row.xattrs)
    if names is None:
        return "?"
    return "+" if any(name.startswith(_ACL_NAME) for name in names) else "@"
