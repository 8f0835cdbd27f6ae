"""The rules of a backup as its snapshot records them, to be applied again to a live directory.

Only what judges entries is kept: no lists of files, and no plugins, which may hold passwords.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

import msgspec

from strongroom.base.decoding import decodable
from strongroom.base.errors import UsageError
from strongroom.engine.filesets.blocks import USUAL_OPTIONS
from strongroom.engine.filesets.exclusions import Selection, SelectionRules
from strongroom.engine.filesets.posix_regex import is_costly
from strongroom.engine.filesets.rules import FileSetRules, FileSetSelection
from strongroom.engine.filesets.spec import FileSetSpec

_MOST_REGEX_BYTES: Final = 1 << 16


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
    """What `encode_selection` was given. ValueError for something else.

    Also for rules that cost too much to apply: anyone who made the snapshot wrote them.
    """
    try:
        recorded = msgspec.msgpack.decode(data, type=decodable(_Recorded))
        if recorded.fileset is not None:
            _refuse_costly(recorded.fileset.spec)
            selection = FileSetSelection(recorded.fileset, tells_treatments=False)
            return DecodedRules(selection, recorded.one_file_system)
        rules = recorded.selection
        return DecodedRules(None if rules is None else Selection(rules), recorded.one_file_system)
    except (msgspec.MsgspecError, UnicodeDecodeError, UsageError, IndexError) as error:
        raise ValueError(str(error)) from error


def _refuse_costly(spec: FileSetSpec) -> None:
    regexes = [
        os.fsencode(text)
        for include in spec.includes
        for options in include.options
        for text in (*options.regex, *options.regex_dir, *options.regex_file)
    ]
    if sum(map(len, regexes)) > _MOST_REGEX_BYTES or any(map(is_costly, regexes)):
        raise ValueError("its regular expressions may take too long to match")


def _bare(spec: FileSetSpec) -> FileSetSpec:
    includes = tuple(
        msgspec.structs.replace(include, files=(), plugins=()) for include in spec.includes
    )
    return msgspec.structs.replace(spec, includes=includes)
