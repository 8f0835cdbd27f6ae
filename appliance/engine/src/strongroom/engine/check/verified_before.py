"""What an earlier check verified: the packs and pages that `check --new` need not read again.

A complete check that finds nothing notes what was listed when it began (`kept_outcome`); one of
what is new adds to that. After a week all is verified again. Objects do not change, but disks do:
what was verified is what was stored, not that it can still be read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from strongroom.engine.prune.kept_outcome import KeptOutcome
from strongroom.engine.repository.index.objects import read_index_object
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import is_of_one_object


class VerifiedBefore(NamedTuple):
    """Ids of packs with their sizes, names of snapshots and of index objects, and when it was.

    Packs are those that are there with the same size. is_whole: what the snapshots refer to is as
    it was: no pack or index object is gone.
    """

    packs: Mapping[bytes, int]
    snapshots: Collection[str]
    index_names: Collection[str]
    since_ns: int
    is_whole: bool


NOTHING = VerifiedBefore({}, (), (), 0, is_whole=False)


def verified_before(repository: Repository, kept: KeptOutcome) -> VerifiedBefore:
    """By the note of an earlier check; NOTHING where there is none of this week."""
    before, now = kept.recent, kept.listed
    if before is None:
        return NOTHING
    then = before.listed
    packs = then.objects("packs")
    gone = then.without(now, "packs")
    # How a pack was described before is not how it is described now.
    for pack_id in (*gone, *_described(repository, now.without(then, "index"))):
        packs.pop(pack_id, None)
    return VerifiedBefore(
        packs,
        frozenset(name.hex() for name in then.objects("snapshots")),
        frozenset(name.hex() for name in then.objects("index")),
        before.found_ns,
        is_whole=not gone and not then.without(now, "index") and then.unverified == now.unverified,
    )


def _described(repository: Repository, names: Collection[bytes]) -> set[bytes]:
    """The packs that index objects describe; the check reports those that cannot be read."""
    described: set[bytes] = set()
    for name in names:
        try:
            found = read_index_object(repository.store, repository.key, name.hex(), chunks=False)
        except Exception as error:
            if not is_of_one_object(error):
                raise
        else:
            described.update(footer.pack_id for footer in found.footers)
    return described
