"""Which snapshots of a repository are false: those that are new, and those whose verdict changed.

New ones are walked. Later the storage daemon knows more: `vouch` has read what the snapshot refers
to, and calls it sound or false. A false one that lacks what the disk had lost becomes sound when
that is there again; nothing is ever removed because it was found false.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from strongroom.base.errors import JobDiedError
from strongroom.director.catalog.snapshots import KnownSnapshot
from strongroom.director.context import DirectorContext
from strongroom.director.results.snapshots import Snapshot
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.capabilities import KeepsJudgements, found_false

FOUND_BY_VOUCH: Final = "it was found false when uploads were verified (see the log of vouch)"
_log = logging.getLogger(__name__)


def walked(
    context: DirectorContext, storage: str, records: Sequence[Snapshot]
) -> tuple[list[Snapshot], dict[str, str]]:
    """New snapshots with what is wrong with them; and those that cannot be walked, and why.

    Those that are gone are left out. Blocks; raises what reading the repository does.
    """
    by_client: dict[str, list[Snapshot]] = {}
    for record in records:
        by_client.setdefault(record.client, []).append(record)
    done: list[Snapshot] = []
    failed: dict[str, str] = {}
    for mine in by_client.values():
        faults, failures = _faults(context, storage, [record.id for record in mine])
        failed |= failures
        done += [
            replace(record, false_reason=faults[record.id])
            for record in mine
            if record.id in faults
        ]
    return done, failed


def changed_verdicts(
    context: DirectorContext,
    repository: Repository,
    storage: str,
    known: Mapping[str, KnownSnapshot],
    present: Collection[str],
    *,
    anew: bool,
) -> dict[str, str]:
    """What is wrong with snapshots of the catalog of which something else is known, "": nothing.

    anew: false ones are walked again.
    """
    changed = {}
    false = {name for name, one in known.items() if one.false_reason and name in present}
    store = repository.store
    if store.capability(KeepsJudgements) is not None:
        judged_false = found_false(store)
        unverified = store.unverified("snapshots")
        mine = {name for name, one in known.items() if name in present and not one.false_reason}
        changed = dict.fromkeys(mine & judged_false, FOUND_BY_VOUCH)
        changed |= dict.fromkeys(false - unverified, "")
    if anew:
        faults, _ = _faults(context, storage, sorted(false - changed.keys()))
        changed |= {name: fault for name, fault in faults.items() if not fault}
    return changed


def _faults(
    context: DirectorContext, storage: str, ids: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """What is wrong with each, "" for nothing; and those that cannot be walked."""
    if not ids:
        return {}, {}
    try:
        return context.walk(storage, ids), {}
    except JobDiedError:
        _log.warning("storage %s: walking %d snapshots failed; one by one", storage, len(ids))
    found: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name in ids:
        try:
            found |= context.walk(storage, [name])
        except JobDiedError as error:
            failed[name] = f"its listing cannot be walked: {error}"
    return found, failed
