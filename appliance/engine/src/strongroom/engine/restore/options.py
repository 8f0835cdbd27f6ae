"""Options and report of a restore, validated once by the caller.

A restore never stops for one file: what could not be restored or set becomes a `RestoreProblem` of
one kind, is passed to the observer at once and is counted in the report.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from strongroom.base.errors import EXIT_DONE, EXIT_INCOMPLETE, DamageError
from strongroom.engine.restore.scope import Spared
from strongroom.engine.restore.target import WhereRules
from strongroom.engine.scan.patterns import Patterns
from strongroom.engine.scan.privileges import Privilege

MOST_DEFAULT_PROCESSES: Final = 4


class EntryKind(StrEnum):
    """What a problem is about. The first five lose an entry, the others an attribute of it."""

    CONTENT = "content"  # what is stored (content, attributes) is damaged or missing
    UNREAD = "unread"  # the backup could not read it, so there is nothing to restore
    ENTRY = "entry"  # it could not be created or replaced in the target
    LINK = "link"  # another name of a file could not be made
    DELETE = "delete"  # what the snapshot does not hold could not be removed
    OWNER = "owner"
    MODE = "mode"
    TIMES = "times"
    ACL = "acl"
    XATTR = "xattr"
    FLAGS = "flags"


class Overwrite(StrEnum):
    """What to do with an entry that exists already.

    ALWAYS compares content and writes what differs. IF_CHANGED does so only where size or mtime
    differ, and sets attributes. IF_NEWER leaves an entry alone unless the snapshot's is newer.
    NEVER only makes what is missing.
    """

    ALWAYS = "always"
    IF_CHANGED = "if-changed"
    IF_NEWER = "if-newer"
    NEVER = "never"


class Action(StrEnum):
    """What was done (or, in a dry run, would be done) with an entry."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"  # left alone as --overwrite asks
    DELETED = "deleted"
    SPARED = "not-deleted"  # the snapshot does not have it, and its backup would not have stored it


class RestoreProblem(NamedTuple):
    """Something that differs from the snapshot; `path` is relative to the target."""

    kind: EntryKind
    path: bytes
    reason: str


class LeftOut(NamedTuple):
    """A privilege that was not restored, as `keeps_privileges` says; no problem."""

    kind: Privilege
    path: bytes


class Step(NamedTuple):
    """One finished entry; reported only if the options ask for it."""

    action: Action
    path: bytes


class RestoreOptions(msgspec.Struct, frozen=True):
    """One restore.

    target: absolute path of the directory to restore into; it is made when it is missing.
    subpath: what to restore, from the root, b"" for everything; its own content goes right into
    the target unless `in_place`, which keeps every path where it was (target is then b"/").
    includes, excludes: see `choice`. processes: that restore; 0 means one a core,
    at most MOST_DEFAULT_PROCESSES. tells_steps: report every entry, not only problems. where: rules
    for where the target may really be, None for anywhere. keeps_privileges: restore set-id bits,
    devices, capabilities and trusted attributes (`scan.privileges`) too. in_use: folders from which
    nothing is deleted, besides those of the repository and of the program.
    """

    target: bytes
    subpath: bytes = b""
    in_place: bool = False
    includes: Patterns | None = None
    excludes: Patterns | None = None
    overwrite: Overwrite = Overwrite.IF_CHANGED
    delete: bool = False
    dry_run: bool = False
    processes: int = 0
    tells_steps: bool = False
    where: WhereRules | None = None
    keeps_privileges: bool = False
    in_use: tuple[bytes, ...] = ()

    def process_count(self) -> int:
        """The number of child processes to start."""
        if self.processes:
            return self.processes
        return max(1, min(MOST_DEFAULT_PROCESSES, len(os.sched_getaffinity(0))))


class RestoreReport(msgspec.Struct, frozen=True):
    """Report of a restore; all but the last two count by kind, in no order.

    not_deleted: what is not in the snapshot and stays (`scope.Spared`).
    """

    actions: dict[Action, int] = {}
    problems: dict[EntryKind, int] = {}
    left_out: dict[Privilege, int] = {}
    not_deleted: dict[Spared, int] = {}
    written_bytes: int = 0
    elapsed_seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether the target now matches the snapshot (and the options)."""
        return not self.problems

    @property
    def exit_code(self) -> int:
        """That of damage where there is any, else whether it is complete."""
        if self.problems.get(EntryKind.CONTENT):
            return DamageError.exit_code
        return EXIT_DONE if self.is_complete else EXIT_INCOMPLETE

    def actions_text(self) -> str:
        """`3 created, 1 updated`."""
        counts = [f"{count:,} {action}" for action, count in sorted(self.actions.items()) if count]
        return ", ".join(counts) or "nothing to restore"

    def summary(
        self, snapshot_id: str, options: RestoreOptions, differences: Mapping[str, int] | None
    ) -> dict[str, Any]:
        """The fields of the JSON report (docs/reference/json-output.md), where names may be bytes.

        differences: what a verify afterwards found; None: there was none.
        """
        return {
            "type": "summary",
            "snapshot": snapshot_id,
            "target": options.target,
            "dry_run": options.dry_run,
            "actions": {str(action): count for action, count in self.actions.items() if count},
            "problems": {str(kind): count for kind, count in self.problems.items()},
            "left_out": {str(kind): count for kind, count in self.left_out.items()},
            "not_deleted": {str(kind): count for kind, count in self.not_deleted.items()},
            "written_bytes": self.written_bytes,
            "elapsed_seconds": round(self.elapsed_seconds, 3),
            "differences": None if differences is None else dict(differences),
        }
