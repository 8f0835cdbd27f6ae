"""Kinds of entries and states of rows in words, as results and the API have them."""

from __future__ import annotations

import stat
from typing import Final

from strongroom.rows.rows import CHANGED, UNREADABLE

KINDS: Final = {
    "file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "character-device": stat.S_IFCHR,
    "block-device": stat.S_IFBLK,
}
STATE_NAMES: Final = {UNREADABLE: "unreadable", CHANGED: "changed"}
_NAMES: Final = {bits: name for name, bits in KINDS.items()}


def kind_name(mode: int) -> str:
    """`file`, `directory`, `symlink`, `fifo`, `character-device` or `block-device`."""
    return _NAMES.get(stat.S_IFMT(mode), "other")


def type_bits(kind: str) -> int:
    """The file type bits (S_IFMT) of a kind, 0 for `other`."""
    return KINDS.get(kind, 0)
