"""How long each snapshot is protected: until the first object that it needs can be removed.

It needs its own object, the packs that hold its listing and its content, every index, the keys and
the configuration. All is read as it was stored first, so nothing that was laid over an object since
makes a snapshot look worse, or better, than it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import ObjectMissingError
from strongroom.base.quantities import counted
from strongroom.engine.lock.objects import (
    LockedObject,
    ends_of_locks,
    locked_objects,
    locking_store,
)
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.index.block_rows import SHARED_NUMBER
from strongroom.engine.repository.listing.page import decode_parts
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, is_of_one_object, problem_text
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.repository.tombstones import read_tombstones
from strongroom.engine.stores.store import Kind

if TYPE_CHECKING:
    from strongroom.base.progress import Progress

_CACHE_BYTES: Final = 8 << 20
_DAY_NS: Final = 86400 * SECOND_NS
# From when a prune lists the snapshots until it has marked what none of them needs.
_LONGEST_MARKING_NS = _DAY_NS


class Protection(msgspec.Struct, frozen=True):
    """A snapshot; locked_until_ns: 0 where something that it needs is not locked, or not there.

    problem: why, "" where all is locked.
    """

    snapshot: Snapshot
    locked_until_ns: int
    problem: str


class ProtectionReport(msgspec.Struct, frozen=True):
    """All snapshots, and what somebody did to objects.

    overlaid: objects of which a newer version was stored, which Strongroom never does. hidden:
    packs that are marked as deleted although an index names them. marked: packs that a tombstone
    names although a snapshot needs them that was there a day before it. deleted_snapshots:
    forgotten, but still there to be read as of a time before.
    """

    snapshots: tuple[Protection, ...]
    overlaid: tuple[tuple[Kind, str], ...]
    hidden: tuple[tuple[Kind, str], ...]
    marked: tuple[tuple[Kind, str], ...]
    deleted_snapshots: int
    set_aside: SetAside

    @property
    def unprotected(self) -> int:
        """Snapshots that are not locked."""
        now_ns = clock.now_ns()
        return sum(one.locked_until_ns <= now_ns for one in self.snapshots)


def protection(repository: Repository, progress: Progress) -> ProtectionReport:
    """Look how long every snapshot is locked.

    UsageError where the repository is not locked, KeyRightError with a put key.
    """
    _ = repository.restore_key
    locking, _ = locking_store(repository)
    progress.message("listing the versions of all objects")
    objects = locked_objects(locking)
    # As it is now, without what was laid over it; a clock that is behind hides nothing.
    present = Repository(
        locking.as_of(clock.now_ns() + _DAY_NS), repository.config, repository.key
    ).for_all_clients()
    set_aside = SetAside()
    # The objects of all kinds are known at once, so none is looked up by itself.
    for kind in ("packs", "index"):
        present.store.list(kind)
    snapshots = present.snapshots(set_aside)
    progress.message(f"reading what {counted(len(snapshots), 'snapshot')} need")
    needs = _Needs(present)
    indexed = frozenset(needs.names)
    packs: dict[str, frozenset[str]] = {}
    problems: dict[str, str] = {}
    for snapshot in snapshots:
        try:
            packs[snapshot.id] = needs.packs_of(present.snapshot(snapshot.id))
        except Exception as error:
            if not is_of_one_object(error):
                raise
            problems[snapshot.id] = problem_text(error)
    needed = frozenset().union(*packs.values())
    wanted = {
        one.first: key
        for key, one in objects.items()
        if key[1] in needed or (key[0] != "packs" and not one.is_hidden)
    }
    progress.message(f"asking how long {counted(len(wanted), 'object')} are locked")
    ends = {wanted[version]: end for version, end in ends_of_locks(locking, wanted)}
    common = {key: end for key, end in ends.items() if key[0] not in ("packs", "snapshots")}
    return ProtectionReport(
        tuple(
            _protection(snapshot, packs.get(snapshot.id), ends, common, problems)
            for snapshot in snapshots
        ),
        tuple(sorted(key for key, one in objects.items() if one.later and not one.is_hidden)),
        tuple(sorted(key for key, one in objects.items() if one.is_hidden and key[1] in indexed)),
        _marked_in_use(repository, packs, objects),
        sum(one.is_hidden for key, one in objects.items() if key[0] == "snapshots"),
        set_aside,
    )


def _marked_in_use(
    repository: Repository,
    packs: dict[str, frozenset[str]],
    objects: dict[tuple[Kind, str], LockedObject],
) -> tuple[tuple[Kind, str], ...]:
    """Packs that no prune can have marked: it marks what no snapshot needs.

    A backup that began before may need a marked pack all the same, and its snapshot comes later.
    """
    stored_ns = {info.name: info.modified_ns for info in repository.store.list("tombstones")}
    found: set[tuple[Kind, str]] = set()
    for tombstone in read_tombstones(repository.store, repository.key):
        named = {pack_id.hex() for pack_id in tombstone.pack_ids}
        before_ns = stored_ns.get(tombstone.name, tombstone.created_ns) - _LONGEST_MARKING_NS
        for name, needed in packs.items():
            if objects["snapshots", name].first.stored_ns < before_ns:
                found.update(("packs", one) for one in named & needed)
    return tuple(sorted(found))


def _protection(
    snapshot: Snapshot,
    packs: frozenset[str] | None,
    ends: dict[tuple[Kind, str], int],
    common: dict[tuple[Kind, str], int],
    problems: dict[str, str],
) -> Protection:
    if packs is None:
        return Protection(snapshot, 0, problems[snapshot.id])
    mine: dict[tuple[Kind, str], int] = {
        **common,
        ("snapshots", snapshot.id): ends.get(("snapshots", snapshot.id), 0),
    }
    mine.update((("packs", name), ends.get(("packs", name), 0)) for name in packs)
    (kind, name), until_ns = min(mine.items(), key=lambda item: item[1])
    problem = "" if until_ns > clock.now_ns() else f"{kind} {name} is not locked"
    return Protection(snapshot, until_ns, problem)


class _Needs:
    """Finds the packs of snapshots; a page that several of them share is read once."""

    def __init__(self, repository: Repository) -> None:
        self._index = repository.load_index()
        self._readers = ClientReaders(repository, self._index, _CACHE_BYTES)
        self.names = [pack.pack_id.hex() for pack in self._index.packs()]
        self._shared = frozenset(
            pack.pack_id.hex() for pack in self._index.packs() if pack.owner == SHARED_NUMBER
        )
        self._pages: dict[tuple[bytes, bytes], frozenset[str]] = {}

    def packs_of(self, snapshot: Snapshot) -> frozenset[str]:
        """Names of the packs that a snapshot needs. ObjectMissingError where one is unknown."""
        blocks = self._index.of_client(snapshot.owner)
        pages = [page.block_id for page in snapshot.pages]
        found = self._packs_with(blocks.rows_of(b"".join(pages)))
        reader = self._readers.of(snapshot.owner)
        for page in dict.fromkeys(pages):
            key = (snapshot.owner, page)
            if key not in self._pages:
                parts = decode_parts(reader.block(page))
                self._pages[key] = self._packs_with(blocks.rows_of(parts.block_ids))
            found |= self._pages[key]
        return found

    def _packs_with(self, rows: NDArray[np.int64]) -> frozenset[str]:
        if not len(rows):
            return frozenset()
        if int(rows.min()) < 0:
            raise ObjectMissingError("it needs a block that no index knows; run check")
        numbers = np.unique(self._index.pack_numbers[rows]).tolist()
        names = frozenset(self.names[number] for number in numbers)
        # A block that lost chunks to shared packs does not say to which.
        return names | self._shared if self._index.thinned[rows].any() else names
