"""Frees what was deleted in a repository that is locked, as far as its locks have ended.

Deleting a locked object only hides it. Once its lock has ended its versions can be removed for
good; until then the store refuses, which is no error. A lock was extended for the last time before
the object was deleted, so it ends at the latest one duration after that: no request has to ask.

Only what is below a mark of deletion is removed, never what is below a newer version: that is the
object, and the newer version is not ours. Nothing is removed of a repository without a snapshot,
nor a pack that an index still names: a prune takes it out of the index before it deletes it, so
somebody else did.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from strongroom.base.clock import SECOND_NS
from strongroom.engine.stores.object_lock import LOCKED_KINDS, LockRule, LocksObjects, ObjectVersion


class HiddenVersions(msgspec.Struct):
    """What was removed for good, and what is kept by its lock. until_ns: 0 where nothing is."""

    removed: int = 0
    removed_bytes: int = 0
    locked: int = 0
    locked_bytes: int = 0
    until_ns: int = 0


def remove_hidden(
    locking: LocksObjects,
    rule: LockRule,
    store_time_ns: int,
    indexed: Container[str],
    *,
    may_remove: bool,
) -> HiddenVersions:
    """Remove versions of deleted objects whose locks have ended. indexed: names of packs that stay.

    may_remove: False only counts. StoreError when the store fails; that a version is locked is no
    failure.
    """
    found = HiddenVersions()
    duration_ns = rule.seconds * SECOND_NS
    for kind in LOCKED_KINDS:
        by_name: dict[str, list[ObjectVersion]] = {}
        for one in locking.versions(kind):
            by_name.setdefault(one.name, []).append(one)
        ended: list[ObjectVersion] = []
        marks: dict[str, list[ObjectVersion]] = {}
        for name, entries in by_name.items():
            marks_here = [one for one in entries if one.is_marker]
            if not any(one.is_current for one in marks_here):
                continue
            if kind == "packs" and name in indexed:
                continue
            marks[name] = marks_here
            ended += [
                one
                for one in entries
                if may_remove and not one.is_marker and one.stored_ns + duration_ns < store_time_ns
            ]
        kept = {(one.name, one.version) for one in locking.remove_versions(ended)}
        gone = {(one.name, one.version) for one in ended} - kept
        for one in ended:
            if (one.name, one.version) in gone:
                found.removed += 1
                found.removed_bytes += one.size_bytes
        bare: list[ObjectVersion] = []
        for name, marks_here in marks.items():
            left = [
                one
                for one in by_name[name]
                if not one.is_marker and (name, one.version) not in gone
            ]
            if not left:
                bare += marks_here
                continue
            deleted_ns = max(one.stored_ns for one in marks_here)
            found.locked += len(left)
            found.locked_bytes += sum(one.size_bytes for one in left)
            found.until_ns = max(found.until_ns, deleted_ns + duration_ns)
        # After all versions below them: without its mark a version would be there again.
        locking.remove_versions(bare)
    return found
