"""What a job over all clients found when there was nothing to do, and that it holds still.

Prune and share decide by what is in the repository and by nothing else. Objects do not change, so
where the same ones are there again, with the same sizes and verified as before, there is nothing to
do again: a list of names is read instead of all of the index and all listings.

The note of an outcome is named by the digest of these lists, and sealed (`kept_notes`). It only
ever says that nothing is to be done. So one that is wrong, no matter who made it, removes nothing:
space is freed a week later. What removes something has read all that snapshots use in the same run.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import numpy as np
from blake3 import blake3

import strongroom
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.engine.content.digests import OBJECT_NAME_SIZE, is_object_name
from strongroom.engine.repository.kept_notes import KeptNotes
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.store import Kind, Store

# Then everything is read and counted again.
RECOUNT_SECONDS: Final = 7 * 86400
_SIZE_BYTES: Final = 8
_ROW: Final = np.dtype((np.void, OBJECT_NAME_SIZE + _SIZE_BYTES))
# In the order in which prune reads them.
_KINDS: Final[tuple[Kind, ...]] = ("packs", "snapshots", "tombstones", "index")


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """When it was found, the figures of the report, and bytes to be charged by client."""

    found_ns: int
    figures: tuple[int, ...]
    charges: dict[bytes, int] = {}

    @property
    def is_recent(self) -> bool:
        """Whether it may be relied on; not either where the clock was set back."""
        return 0 <= clock.now_ns() - self.found_ns < RECOUNT_SECONDS * SECOND_NS


class KeptOutcome:
    """The outcome of one job in one state of a repository; `found` is None where none is kept."""

    def __init__(
        self, repository: Repository, job: Literal["prune", "share"], settings: object
    ) -> None:
        """Lists the repository. settings: what else the job decides by. Raises StoreError."""
        self.found: Outcome | None = None
        self._store = repository.store
        self._settings = msgspec.msgpack.encode((strongroom.__version__, job, settings))
        self._notes: KeptNotes | None = None
        self._state = b""
        # Without a cache it is not worth a list.
        if repository.cache_folder is not None:
            self._notes = KeptNotes(repository.cache_folder, repository.key, job)
            self._state = self._listed()
            note = self._notes.get(self._state.hex())
            self.found = None if note is None else msgspec.msgpack.decode(note, type=Outcome)

    def is_unchanged(self) -> bool:
        """Whether nothing came or went since it was listed. Raises StoreError."""
        return self._listed() == self._state

    def keep(self, figures: tuple[int, ...], charges: dict[bytes, int] | None = None) -> None:
        """Nothing was to be done. It is noted if nothing came or went meanwhile."""
        if self._notes is not None and self.is_unchanged():
            outcome = Outcome(clock.now_ns(), figures, charges or {})
            note = {self._state: msgspec.msgpack.encode(outcome)}
            self._notes.add(note, note.keys())

    def _listed(self) -> bytes:
        digest = blake3(self._settings)
        for kind in _KINDS:
            rows = _rows(self._store, kind)
            unverified = sorted(self._store.unverified(kind))
            digest.update(msgspec.msgpack.encode((kind, len(rows), unverified)))
            digest.update(rows.tobytes())
        return digest.digest()


def _rows(store: Store, kind: Kind) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Names and sizes, in order: 40 bytes for each of what may be millions of packs."""
    rows = bytearray()
    for info in store.list(kind):
        if is_object_name(info.name):
            rows += bytes.fromhex(info.name) + info.size_bytes.to_bytes(_SIZE_BYTES, "little")
    return np.sort(np.frombuffer(rows, _ROW))
