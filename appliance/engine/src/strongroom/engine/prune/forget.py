"""Forget snapshots: those that are named, or those that no rule of retention keeps.

Only snapshot objects are deleted; prune frees their space. A running backup whose parent is
forgotten is not affected: prune waits for it before it removes anything.

A snapshot's age is counted from its start, or from when the store received it if that is earlier:
a client whose clock is ahead can't push others out. Minimum retention uses the store's time only.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import RightError, UsageError
from strongroom.base.printable import printable
from strongroom.base.progress import Progress
from strongroom.engine.prune.retention import Candidate, RetentionRules, reasons_to_keep
from strongroom.engine.repository.snapshots import Snapshot, begun_ns
from strongroom.engine.stores.at_once import delete_each
from strongroom.engine.stores.store import ObjectInfo

if TYPE_CHECKING:
    from strongroom.engine.repository.repository import Repository

GroupKey = tuple[tuple[str, tuple[str | bytes, ...]], ...]

GROUP_PARTS: Final[dict[str, Callable[[Snapshot], tuple[str | bytes, ...]]]] = {
    "host": lambda snapshot: (snapshot.host,),
    "paths": lambda snapshot: snapshot.paths,
    "tags": lambda snapshot: tuple(sorted(snapshot.tags)),
    "job": lambda snapshot: (snapshot.job,),
}
DEFAULT_GROUP_BY: Final = ("host", "paths")


class ForgetOptions(msgspec.Struct, frozen=True):
    """What to forget.

    snapshot_ids: whole ids; if there are any, `rules` do not apply. group_by: of GROUP_PARTS;
    rules apply to each group separately. allow_remove_all: a group may lose all its snapshots to
    the rules. minimum_retention_seconds: younger snapshots are kept in any case. false: ids of
    snapshots that were found false: no rule counts or removes them, and nothing protects them.
    """

    rules: RetentionRules = msgspec.field(default_factory=RetentionRules)
    group_by: tuple[str, ...] = DEFAULT_GROUP_BY
    snapshot_ids: tuple[str, ...] = ()
    allow_remove_all: bool = False
    minimum_retention_seconds: int = 0
    false: frozenset[str] = frozenset()
    dry_run: bool = False


class Judged(msgspec.Struct, frozen=True):
    """A snapshot and the reasons to keep it; none: it was forgotten."""

    snapshot: Snapshot
    reasons: tuple[str, ...]


class ForgetGroup(msgspec.Struct, frozen=True):
    """Snapshots that were judged together, the newest first; `key`: part and its values."""

    key: GroupKey
    judged: tuple[Judged, ...]

    @property
    def removed(self) -> list[Snapshot]:
        """Snapshots without a reason to keep them."""
        return [item.snapshot for item in self.judged if not item.reasons]

    def without(self, refused: Container[str]) -> ForgetGroup:
        """The same where the store did not remove some."""
        judged = tuple(
            Judged(item.snapshot, ("the storage daemon keeps it",))
            if item.snapshot.id in refused
            else item
            for item in self.judged
        )
        return ForgetGroup(self.key, judged)


class ForgetReport(msgspec.Struct, frozen=True):
    """What was forgotten, or would be. refused: why the store kept some, such as young ones."""

    groups: tuple[ForgetGroup, ...]
    dry_run: bool
    refused: tuple[RightError, ...] = ()

    @property
    def removed_count(self) -> int:
        """Snapshots forgotten."""
        return sum(len(group.removed) for group in self.groups)

    @property
    def kept_count(self) -> int:
        """Snapshots judged and kept."""
        return sum(len(group.judged) for group in self.groups) - self.removed_count


def forget(
    repository: Repository,
    snapshots: Sequence[Snapshot],
    options: ForgetOptions,
    progress: Progress,
) -> ForgetReport:
    """Judge `snapshots` and delete those without a reason to keep them.

    UsageError when no rule and no id was given, or a group would lose everything.
    """
    if not options.snapshot_ids and options.rules.is_empty:
        raise UsageError(
            "choose what to keep (--keep-last 7, --keep-daily 14, --keep-within 30d, --keep-tag T "
            "...), or name the snapshots to forget"
        )
    received = {info.name: info for info in repository.store.list("snapshots")}
    present = [snapshot for snapshot in snapshots if snapshot.id in received]
    groups = tuple(
        ForgetGroup(key, _judge(members, received, options))
        for key, members in _grouped(present, options).items()
    )
    if not options.snapshot_ids and not options.allow_remove_all:
        for group in groups:
            if len(group.removed) == len(group.judged):
                raise UsageError(
                    f"these rules would forget all {len(group.judged)} snapshots of "
                    f"{group_text(group.key)}; nothing was forgotten. Keep some "
                    "(--keep-last 1), or add --allow-remove-all"
                )
    report = ForgetReport(groups, options.dry_run)
    if not options.dry_run:
        progress.message("forgetting snapshots")
        refused: dict[str, RightError] = {}
        removed = [snapshot.id for group in groups for snapshot in group.removed]
        for name, error in delete_each(repository.store, "snapshots", removed):
            if isinstance(error, RightError):
                # A storage daemon has its own Minimum Retention; the others go all the same.
                refused[name] = error
            elif error is not None:
                raise error
        kept = tuple(group.without(refused.keys()) for group in groups)
        report = ForgetReport(kept, options.dry_run, tuple(refused.values()))
        if report.removed_count:
            repository.store.sync()
    return report


def _grouped(
    snapshots: Sequence[Snapshot], options: ForgetOptions
) -> dict[GroupKey, list[Snapshot]]:
    if options.snapshot_ids:
        wanted = set(options.snapshot_ids)
        return {(): [snapshot for snapshot in snapshots if snapshot.id in wanted]}
    groups: dict[GroupKey, list[Snapshot]] = {}
    for snapshot in snapshots:
        if snapshot.id in options.false:
            continue
        key = tuple((part, GROUP_PARTS[part](snapshot)) for part in options.group_by)
        groups.setdefault(key, []).append(snapshot)
    return dict(sorted(groups.items(), key=lambda item: repr(item[0])))


def _judge(
    snapshots: Sequence[Snapshot], received: dict[str, ObjectInfo], options: ForgetOptions
) -> tuple[Judged, ...]:
    candidates = [
        Candidate(
            item.id,
            begun_ns(item, received[item.id]),
            frozenset(item.tags),
            lacks_paths=item.missing_paths > 0,
            unread_marks=frozenset(item.unread_marks),
        )
        for item in snapshots
    ]
    reasons: dict[str, list[str]] = {item.id: [] for item in snapshots}
    if not options.snapshot_ids:
        reasons = reasons_to_keep(candidates, options.rules)
    earliest_ns = clock.now_ns() - options.minimum_retention_seconds * SECOND_NS
    for item in snapshots:
        if item.id in options.false:
            # Its protection and its age are what a forger wants them to be.
            continue
        if item.protected:
            reasons[item.id].append("protected")
        if options.minimum_retention_seconds and received[item.id].modified_ns > earliest_ns:
            reasons[item.id].append("minimum retention")
    by_id = {item.id: item for item in snapshots}
    newest_first = sorted(candidates, key=lambda item: (-item.time_ns, item.snapshot_id))
    return tuple(
        Judged(by_id[item.snapshot_id], tuple(reasons[item.snapshot_id])) for item in newest_first
    )


def group_text(key: GroupKey) -> str:
    """A group in words: `host web1, paths /etc /home`."""
    return (
        ", ".join(
            f"{part} {' '.join(_text(value) for value in values) or '(none)'}"
            for part, values in key
        )
        or "the repository"
    )


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else "/" + printable(value)
