"""Values of knobs from a configuration or a command line to the backup.

Any field may be unset; then the layer below decides. `merged` is the only place that defines the
order of precedence, `check` the only validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from strongroom.errors import UsageError
from strongroom.knobs.table import BACKUP_KNOBS

if TYPE_CHECKING:
    from strongroom.knobs.knob import Knob, Spelling, Value


class KnobSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The knobs of a backup that one layer sets; None: not set.

    Units are those of the options: `lru_size` counts pages.
    """

    compression: str | None = None
    signature: str | None = None
    workers: int | None = None
    scan_threads: int | None = None
    shards: int | None = None
    upload_queue_size: int | None = None
    lru_size: int | None = None
    acls: bool | None = None
    xattrs: bool | None = None
    flags: bool | None = None

    def said(self) -> dict[str, Value]:
        """Name -> value, of what is set."""
        return {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }


def merged(*layers: KnobSettings, spelling: Spelling) -> dict[str, Value]:
    """A valid value for every knob of a backup: the default unless a layer sets it.

    A later layer takes precedence. The order everywhere: the agent's own Client resource, then the
    director's Client or the command line. (Options blocks of a FileSet take precedence over all of
    them, entry by entry: see `with_fileset`.) Raises UsageError that spells the knob as the user
    did.
    """
    said: dict[str, Value] = {}
    for layer in layers:
        said.update(layer.said())
    settled = {}
    for knob in BACKUP_KNOBS:
        value = said.get(knob.name, knob.default)
        check(knob, value, spelling)
        if isinstance(value, str):
            value = value.strip().lower()
        settled[knob.name] = knob.default if knob.zero_is_default and not value else value
    return settled


def check(knob: Knob, value: Value, spelling: Spelling) -> None:
    """Raise UsageError for a value that the knob does not take."""
    if knob.kind == "number":
        fits = isinstance(value, int) and knob.least <= value <= knob.most
    elif knob.kind == "word":
        fits = isinstance(value, str) and value.strip().lower() in knob.words
    else:
        fits = True
    if not fits:
        raise UsageError(f"{knob.spelled(value, spelling)}: write {knob.expected}")
