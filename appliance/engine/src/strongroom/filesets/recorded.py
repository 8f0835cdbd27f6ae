"""The rules of a backup as its snapshot records them, to be applied again to a live directory.

Only what judges entries is kept: no lists of files, and no plugins, which may hold passwords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from strongroom.errors import UsageError
from strongroom.filesets.blocks import USUAL_OPTIONS
from strongroom.filesets.exclusions import Selection, SelectionRules
from strongroom.filesets.rules import FileSetRules, FileSetSelection

if TYPE_CHECKING:
    from strongroom.filesets.spec import FileSetSpec


class _Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of them, or neither where everything is kept."""

    selection: SelectionRules | None = None
    fileset: FileSetRules | None = None
    one_file_system: bool = False


class DecodedRules(NamedTuple):
    """What judges entries, None where all are kept; and whether the walk stays on file systems."""

    selection: Selection | FileSetSelection | None
    one_file_system: bool


def encode_selection(
    selection: Selection | FileSetSelection | None, *, one_file_system: bool = False
) -> bytes:
    """The rules of what a backup was compiled from."""
    if isinstance(selection, FileSetSelection):
        rules = msgspec.structs.replace(selection.rules, spec=_bare(selection.rules.spec))
        stays = any(
            options.one_file_system or options.file_system_types
            for include in rules.spec.includes
            for options in include.options or (USUAL_OPTIONS,)
        )
        return msgspec.msgpack.encode(_Recorded(fileset=rules, one_file_system=stays))
    rules_of_it = None if selection is None else selection.rules
    return msgspec.msgpack.encode(_Recorded(rules_of_it, one_file_system=one_file_system))


def decode_selection(data: bytes) -> DecodedRules:
    """What `encode_selection` was given. ValueError for something else."""
    try:
        recorded = msgspec.msgpack.decode(data, type=_Recorded)
        if recorded.fileset is not None:
            selection = FileSetSelection(recorded.fileset, tells_treatments=False)
            return DecodedRules(selection, recorded.one_file_system)
        rules = recorded.selection
        return DecodedRules(None if rules is None else Selection(rules), recorded.one_file_system)
    except (msgspec.MsgspecError, UnicodeDecodeError, UsageError, IndexError) as error:
        raise ValueError(str(error)) from error


def _bare(spec: FileSetSpec) -> FileSetSpec:
    includes = tuple(
        msgspec.structs.replace(include, files=(), plugins=()) for include in spec.includes
    )
    return msgspec.structs.replace(spec, includes=includes)
