"""Kinds of job and their levels: from the words of the language to those of the engine.

A level of a backup is `full`, `differential` or `incremental`; the other levels of Bareos mean
what they are for here: Base is full; Since and VirtualFull are incremental, since every snapshot
restores by itself. A verify compares the live files of the client, all content that is stored, or
a sample that is restored. Jobs of other kinds have no level.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from strongroom.base.errors import UsageError

JobKind = Literal["backup", "restore", "verify", "copy", "admin"]

VERIFY_CLIENT: Final = "client"
VERIFY_SAMPLE: Final = "data"
VERIFY_CONTENT: Final = "content"
JOB_KINDS: Final[Mapping[str, JobKind]] = {
    "Backup": "backup",
    "Restore": "restore",
    "Verify": "verify",
    "Copy": "copy",
    "Migrate": "copy",
    "Admin": "admin",
    "Archive": "admin",
    "Consolidate": "admin",
}
# Types that Bareos knows and that have no work here, and why.
NOTHING_TO_DO: Final[Mapping[str, str]] = {
    "Archive": "does nothing: jobs of Type Archive do not exist here. Remove the job",
    "Consolidate": (
        "has nothing to consolidate: every snapshot is complete, whatever its level. Remove the job"
    ),
}
BACKUP_LEVELS: Final[Mapping[str, str]] = {
    "full": "full",
    "base": "full",
    "differential": "differential",
    "incremental": "incremental",
    "since": "incremental",
    "virtualfull": "incremental",
}
VERIFY_LEVELS: Final[Mapping[str, str]] = {
    "catalog": VERIFY_CLIENT,
    "disktocatalog": VERIFY_CLIENT,
    "initcatalog": VERIFY_CLIENT,
    "volumetocatalog": VERIFY_CONTENT,
    "data": VERIFY_SAMPLE,
    "client": VERIFY_CLIENT,
    "content": VERIFY_CONTENT,
}
# The level of a job that says none.
_USUAL: Final = {"backup": "incremental", "verify": "catalog"}


def level_of(kind: str, text: str) -> str:
    """The level that a word means in a job of this kind, "" for kinds that have none.

    Raises UsageError for a level that jobs of this kind do not have.
    """
    if kind not in _USUAL:
        return ""
    known = BACKUP_LEVELS if kind == "backup" else VERIFY_LEVELS
    level = known.get(text.lower() or _USUAL[kind])
    if level is None:
        raise UsageError(f"a {kind} has no level {text!r}; there are {', '.join(sorted(known))}")
    return level
