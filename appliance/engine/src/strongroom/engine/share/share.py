"""The job: stores once, for all clients, what enough of them have and offer.

Only chunks that their owners offered (`Share Below`) and that snapshots of at least so many clients
use are copied, from packs that were verified. What was copied stays shared as long as any snapshot
uses it. A prune afterwards drops the bytes from the packs of those who stored them. It may run at
any time, several times at once, and may be interrupted anywhere: packs that no index names yet are
removed by a prune.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Final

import msgspec

from strongroom.base import clock
from strongroom.base.errors import UsageError
from strongroom.base.progress import Progress
from strongroom.base.quantities import counted
from strongroom.engine.content.digests import is_object_name
from strongroom.engine.prune.kept_outcome import KeptOutcome, Listed, Outcome
from strongroom.engine.prune.marking import Marker
from strongroom.engine.repository.index.index import Index, IndexState, again_if_replaced
from strongroom.engine.repository.index.objects import read_index_columns
from strongroom.engine.repository.index.selection import IdsAmong, ListingPacks, OfferedBlocks
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.leases import Lease
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, is_of_one_object
from strongroom.engine.share.copying import SharedPacks
from strongroom.engine.share.counting import Chosen, Offers

LEAST_CLIENTS: Final = 3


class ShareOptions(msgspec.Struct, frozen=True):
    """Options of a run.

    least_clients: how many clients must have a chunk; 0 shares nothing. clients: ids of those that
    count, None for all that have packs.
    """

    least_clients: int = LEAST_CLIENTS
    clients: frozenset[bytes] | None = None
    dry_run: bool = False


class ShareReport(msgspec.Struct, frozen=True):
    """What a run found and did; sizes in bytes.

    offered_chunks: that clients offer, use and do not share yet, a chunk counting for each client.
    shared_chunks, shared_bytes: copied, before compression. stored_bytes: the packs written.
    """

    offered_chunks: int
    shared_chunks: int
    shared_bytes: int
    read_bytes: int
    packs: int
    stored_bytes: int
    elapsed_seconds: float
    dry_run: bool
    set_aside: SetAside = msgspec.field(default_factory=SetAside)

    def summary(self) -> dict[str, Any]:
        """The fields of the JSON report (docs/reference/json-output.md)."""
        return {
            "type": "share",
            "dry_run": self.dry_run,
            "offered_chunks": self.offered_chunks,
            "shared_chunks": self.shared_chunks,
            "shared_bytes": self.shared_bytes,
            "read_bytes": self.read_bytes,
            "packs": self.packs,
            "stored_bytes": self.stored_bytes,
            "elapsed_seconds": round(self.elapsed_seconds, 3),
        }


def share(repository: Repository, options: ShareOptions, progress: Progress) -> ShareReport:
    """Copy what is to be shared into shared packs.

    KeyRightError with a put key; DamageError when a verified snapshot is not sound: then nothing is
    shared. StoreError, LeaseError.
    """
    started = clock.elapsed_seconds()
    _ = repository.restore_key
    repository = repository.for_all_clients()
    if options.least_clients < 0:
        raise UsageError("the number of clients that must have a chunk cannot be negative")
    if not options.least_clients:
        return ShareReport(0, 0, 0, 0, 0, 0, clock.elapsed_seconds() - started, options.dry_run)
    with repository.lease(socket.gethostname(), os.getpid(), "share") as lease:
        lease.start_renewing()
        clients = None if options.clients is None else sorted(options.clients)
        kept = KeptOutcome(repository, "share", (options.least_clients, clients))
        found = None if options.dry_run else _still_holds(repository, kept)
        if found is not None:
            (offered_chunks,) = found.figures
            elapsed = clock.elapsed_seconds() - started
            return ShareReport(offered_chunks, 0, 0, 0, 0, 0, elapsed, dry_run=False)
        set_aside = SetAside()
        offers, chosen, shared = _choose(repository, options, progress, set_aside)
        if not len(chosen) and not set_aside:
            kept.keep((offers.chunks,))
        if options.dry_run or not len(chosen):
            elapsed = clock.elapsed_seconds() - started
            figures = (offers.chunks, len(chosen), 0, 0, 0, 0, elapsed, options.dry_run)
            return ShareReport(*figures, set_aside)
        return _copy(repository, lease, offers, chosen, shared, progress, started, set_aside)


def _still_holds(repository: Repository, kept: KeptOutcome) -> Outcome | None:
    """The outcome of an earlier run where no more is offered; None where that is not known.

    What snapshots came to use of what was offered before and not used counts a week later.
    """
    if kept.found is not None:
        return kept.found if kept.found.is_recent else None
    if kept.earlier is None or not _offers_no_more(repository, kept.earlier.listed, kept.listed):
        return None
    outcome = msgspec.structs.replace(kept.earlier, listed=kept.listed)
    kept.keep_grown(outcome)
    return outcome


def _offers_no_more(repository: Repository, before: Listed, now: Listed) -> bool:
    """Whether nothing that came is offered: then no chunk is used by more clients than before."""
    if now.unverified != before.unverified or before.without(now, "tombstones"):
        return False
    new_packs = now.without(before, "packs").keys()
    described: set[bytes] = set()
    try:
        for name in now.without(before, "index"):
            found = read_index_columns(repository.store, repository.key, name.hex(), chunks=False)
            if OfferedBlocks().rows(found.packs, found.columns).any():
                return False
            described.update(found.packs.pack_ids)
    except Exception as error:
        if not is_of_one_object(error):
            raise
        return False
    return new_packs <= described


def _choose(
    repository: Repository, options: ShareOptions, progress: Progress, set_aside: SetAside
) -> tuple[Offers, Chosen, SharedChunks]:
    return again_if_replaced(lambda: _choose_once(repository, options, progress, set_aside))


def _choose_once(
    repository: Repository, options: ShareOptions, progress: Progress, set_aside: SetAside
) -> tuple[Offers, Chosen, SharedChunks]:
    store = repository.store
    names = [info.name for info in store.list("snapshots")]
    state = IndexState.read(store, repository.key)
    # Only of what is offered it matters what snapshots use.
    index = Index.of_state(store, repository.key, state, selection=OfferedBlocks())
    present = {info.name: info for info in store.list("packs") if is_object_name(info.name)}
    unverified = store.unverified("packs")
    sound = {
        pack.pack_id: info.modified_ns
        for pack in index.packs()
        if (info := present.get(pack.pack_id.hex())) is not None
        and info.size_bytes == pack.size_bytes
        and info.name not in unverified
    }
    progress.message(f"reading which chunks {counted(len(names), 'snapshot')} need")
    marker = Marker(repository, progress, IdsAmong(index.block_ids()))
    if len(index):
        listings = Index.of_state(store, repository.key, state, selection=ListingPacks())
        marker.mark(names, index, listings)
    set_aside.take(marker.set_aside)
    unsound = {pack.pack_id for pack in index.packs()} - sound.keys()
    shared = SharedChunks.load(store, repository.key, index, unsound)
    progress.message("counting what clients offer")
    offers = Offers(repository, index, marker.live, shared, sound, options.clients)
    return offers, offers.choose(options.least_clients), shared


def _copy(
    repository: Repository,
    lease: Lease,
    offers: Offers,
    chosen: Chosen,
    shared: SharedChunks,
    progress: Progress,
    started: float,
    set_aside: SetAside,
) -> ShareReport:
    progress.message(f"sharing {counted(len(chosen), 'chunk')}")
    packs = SharedPacks(repository, chosen, shared, lambda: progress.add(files=0), set_aside)
    try:
        packs.copy_all()
        footers = packs.finish()
    except BaseException:
        packs.abort()
        raise
    # Clients may leave out what the index names, so the packs must be on the disk before it.
    repository.store.sync()
    lease.require()
    repository.write_index(footers)
    repository.store.sync()
    return ShareReport(
        offered_chunks=offers.chunks,
        shared_chunks=packs.chunks,
        shared_bytes=packs.raw_bytes,
        read_bytes=packs.read_bytes,
        packs=len(footers),
        stored_bytes=sum(footer.size_bytes for footer in footers),
        elapsed_seconds=clock.elapsed_seconds() - started,
        dry_run=False,
        set_aside=set_aside,
    )
