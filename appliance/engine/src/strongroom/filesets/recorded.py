"""The rules of a backup as its snapshot records them, to be applied again to a live directory.

Only what judges entries is kept: no lists of files, and no plugins, which may hold passwords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from strongroom.errors import UsageError
from strongroom.filesets.exclusions import Selection, SelectionRules
from strongroom.filesets.rules import FileSetRules, FileSetSelection

if TYPE_CHECKING:
    from strongroom.filesets.spec import FileSetSpec


class _Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of them, or neither where everything is kept."""

    selection: SelectionRules | None = None
    fileset: FileSetRules | None = None


def encode_selection(selection: Selection | FileSetSelection | None) -> bytes:
    """The rules of what a backup was compiled from."""
    if isinstance(selection, FileSetSelection):
        rules = msgspec.structs.replace(selection.rules, spec=_bare(selection.rules.spec))
        return msgspec.msgpack.encode(_Recorded(fileset=rules))
    return msgspec.msgpack.encode(_Recorded(None if selection is None else selection.rules))


def decode_selection(data: bytes) -> Selection | FileSetSelection | None:
    """What `encode_selection` was given. ValueError for something else."""
    try:
        recorded = msgspec.msgpack.decode(data, type=_Recorded)
        if recorded.fileset is not None:
            return FileSetSelection(recorded.fileset, tells_treatments=False)
        return None if recorded.selection is None else Selection(recorded.selection)
    except (msgspec.MsgspecError, UnicodeDecodeError, UsageError, IndexError) as error:
        raise ValueError(str(error)) from error


def _bare(spec: FileSetSpec) -> FileSetSpec:
    includes = tuple(
        msgspec.structs.replace(include, files=(), plugins=()) for include in spec.includes
    )
    return msgspec.structs.replace(spec, includes=includes)
