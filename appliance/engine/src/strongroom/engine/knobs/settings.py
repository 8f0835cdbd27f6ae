"""Values of knobs from a configuration or a command line to the backup.

Any field may be unset; then the layer below decides. `merged` is the only place that defines the
order of precedence, `check` the only validation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from strongroom.base.errors import UsageError
from strongroom.engine.knobs.knob import Knob, Spelling, Value
from strongroom.engine.knobs.table import BACKUP_KNOBS, knob_named


class KnobSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The knobs of a job that one layer sets; None: not set.

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
    nice: int | None = None

    def given(self) -> dict[str, Value]:
        """Name -> value, of what is set."""
        return {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }


def merged(
    *layers: KnobSettings, spelling: Spelling, knobs: Sequence[Knob] = BACKUP_KNOBS
) -> dict[str, Value]:
    """A valid value for each of `knobs`: the default unless a layer sets it.

    A later layer takes precedence; of a limit the highest counts. The order everywhere: the agent's
    own Client resource, then the director's Client or the command line. (Options blocks of a
    FileSet take precedence over all of them, entry by entry: see `with_fileset`.) Raises UsageError
    that spells the knob as the user did.
    """
    given: dict[str, Value] = {}
    for layer in layers:
        for name, value in layer.given().items():
            is_limit = knob_named(name).is_limit and name in given
            given[name] = max(int(value), int(given[name])) if is_limit else value
    settled = {}
    for knob in knobs:
        value = given.get(knob.name, knob.default)
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
