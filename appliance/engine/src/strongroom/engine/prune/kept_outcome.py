"""What a job over all clients found when there was nothing to do, and in which state.

Prune and share decide by what is in the repository and by nothing else. Objects do not change, so
where the same ones are there again, with the same sizes and verified as before, there is nothing to
do again: a list of names is read instead of all of the index and all listings. Where others came
besides, only these need to be read (`growth`).

The note of an outcome has the names of all objects, and is sealed (`kept_notes`). It only ever says
that nothing is to be done. So one that is wrong, no matter who made it, removes nothing: space is
freed a week later. What removes something has read all that snapshots use in the same run.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import numpy as np
from blake3 import blake3

import strongroom
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
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


class Listed(msgspec.Struct, frozen=True, array_like=True):
    """What is in a repository.

    rows: of each kind the names and sizes, 40 bytes for each object, in order. unverified: names.
    """

    rows: dict[str, bytes]
    unverified: dict[str, tuple[str, ...]]

    @classmethod
    def read(cls, store: Store) -> Listed:
        """What is there now. Raises StoreError."""
        rows: dict[str, bytes] = {}
        unverified: dict[str, tuple[str, ...]] = {}
        for kind in _KINDS:
            rows[kind] = _rows(store, kind)
            unverified[kind] = tuple(sorted(store.unverified(kind)))
        return cls(rows, unverified)

    def objects(self, kind: Kind) -> dict[bytes, int]:
        """Names and sizes of all objects of a kind."""
        return _objects(self.rows[kind])

    def without(self, other: Listed, kind: Kind) -> dict[bytes, int]:
        """Names and sizes of objects of a kind that are here and not in the other list."""
        mine, others = (np.frombuffer(one.rows[kind], _ROW) for one in (self, other))
        return _objects(np.setdiff1d(mine, others, assume_unique=True).tobytes())


class Margin(msgspec.Struct, frozen=True, array_like=True):
    """How far from something to repack it was.

    freeable_bytes: what repacking all packs would free. least_used: the smallest used share of a
    pack of which anything could be freed.
    """

    freeable_bytes: int
    least_used: float


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """When it was found, the figures of the report, and bytes to be charged by client.

    found_ns: when all was counted. margin: None where what comes may change what is used of what
    was there. is_grown: something came since all was counted.
    """

    found_ns: int
    figures: tuple[int, ...]
    listed: Listed
    charges: dict[bytes, int] = {}
    margin: Margin | None = None
    is_grown: bool = False

    @property
    def is_recent(self) -> bool:
        """Whether it may be relied on; not either where the clock was set back."""
        return 0 <= clock.now_ns() - self.found_ns < RECOUNT_SECONDS * SECOND_NS


class KeptOutcome:
    """The outcomes of one job.

    found: that of the repository as it is; None where none is kept. earlier: one of an earlier
    state that may be relied on, else None. listed: what is there.
    """

    def __init__(
        self, repository: Repository, job: Literal["prune", "share", "check"], settings: object
    ) -> None:
        """Lists the repository. settings: what else the job decides by. Raises StoreError."""
        self.found: Outcome | None = None
        self.earlier: Outcome | None = None
        self.listed = Listed({}, {})
        self._store = repository.store
        self._notes: KeptNotes | None = None
        self._name = blake3(
            msgspec.msgpack.encode((strongroom.__version__, job, settings))
        ).digest()
        # Without a cache it is not worth a list.
        if repository.cache_folder is not None:
            self._notes = KeptNotes(repository.cache_folder, repository.key, job)
            self.listed = Listed.read(self._store)
            note = self._notes.get(self._name.hex())
            kept = None if note is None else msgspec.msgpack.decode(note, type=decodable(Outcome))
            if kept is not None and kept.listed == self.listed:
                self.found = kept
            elif kept is not None and kept.is_recent:
                self.earlier = kept

    @property
    def recent(self) -> Outcome | None:
        """That of this or an earlier state, if it may be relied on."""
        kept = self.found or self.earlier
        return kept if kept is not None and kept.is_recent else None

    def is_unchanged(self) -> bool:
        """Whether nothing came or went since it was listed. Raises StoreError."""
        return Listed.read(self._store) == self.listed

    def keep(
        self,
        figures: tuple[int, ...],
        charges: dict[bytes, int] | None = None,
        margin: Margin | None = None,
    ) -> None:
        """Nothing was to be done. It is noted if nothing came or went meanwhile."""
        self.keep_grown(Outcome(clock.now_ns(), figures, self.listed, charges or {}, margin))

    def keep_grown(self, outcome: Outcome) -> None:
        """Note what holds for `listed` if nothing came or went meanwhile."""
        if self._notes is not None and self.is_unchanged():
            self.keep_anyway(outcome)

    def keep_anyway(self, outcome: Outcome) -> None:
        """Note what holds for what was listed, whatever came or went meanwhile."""
        if self._notes is not None:
            note = {self._name: msgspec.msgpack.encode(outcome)}
            self._notes.add(note, note.keys())

    def remove(self) -> None:
        """What was noted before holds no longer."""
        if self._notes is not None:
            self._notes.remove(self._name)


def _objects(rows: bytes) -> dict[bytes, int]:
    each = (rows[at : at + _ROW.itemsize] for at in range(0, len(rows), _ROW.itemsize))
    return {
        row[:OBJECT_NAME_SIZE]: int.from_bytes(row[OBJECT_NAME_SIZE:], "little") for row in each
    }


def _rows(store: Store, kind: Kind) -> bytes:
    rows = bytearray()
    for info in store.list(kind):
        if is_object_name(info.name):
            rows += bytes.fromhex(info.name) + info.size_bytes.to_bytes(_SIZE_BYTES, "little")
    return np.sort(np.frombuffer(rows, _ROW)).tobytes()
