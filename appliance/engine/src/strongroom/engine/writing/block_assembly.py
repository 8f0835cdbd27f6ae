"""From raw chunks to blocks in packs, inside one shard process.

Small files are gathered into a batch; a batch, or a chunk of a large file, becomes a block once
the coordinator has reported which of its chunks are new (a *claim*). While a claim is in flight
the shard reads on: at most `CLAIMS_IN_FLIGHT` batches wait, which bounds memory. Blocks are then
compressed, encrypted and written, inline or by the workers of `BlockLane`. Files with different
compressions (by number, see `LaneSettings`) never share a batch.

Every chunk has an owner, a `ContentSink`, that receives its reference `(block id, slot)`.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import Final, Protocol

from blake3 import blake3

from strongroom.engine.content.digests import block_id, ids_and_lengths
from strongroom.engine.repository.keys.owners import OwnerKeys
from strongroom.engine.writing.deduplication import ChunkGroup, GroupAnswer
from strongroom.engine.writing.pack_lanes import BlockLane, NewBlock

Buffer = bytes | bytearray | memoryview
Reference = tuple[bytes, int]

WHOLE_FILE_BYTES: Final = 512 << 10
BATCH_BYTES: Final = 1 << 20
BATCH_CHUNKS: Final = 512
CHUNK_ID_BYTES: Final = 24
CLAIMS_IN_FLIGHT: Final = 1
# A batch of offered chunks ends, from this size on, at a chunk whose id says so, wherever a backup
# began: so equal folders of two clients give equal blocks.
SHARED_BATCH_BYTES: Final = 256 << 10
_END_MASK: Final = 0b11111


class ContentSink(Protocol):
    """Receives the references of chunks."""

    def place(self, row: int, part: int, reference: Reference) -> None:
        """The chunk that is part `part` of row `row` is stored at `reference`."""


class Claims(Protocol):
    """Decides which chunks are new, perhaps in another process."""

    def claim(self, groups: list[ChunkGroup]) -> None:
        """Ask about the chunks of these groups."""

    def claim_answer(self) -> list[GroupAnswer]:
        """The answer to the oldest claim, one for each of its groups; waits for it."""


class _Group:
    """Chunks that will share one block."""

    __slots__ = ("compression", "data", "ids", "lengths", "offered", "owners", "raw_bytes", "seen")

    def __init__(self, compression: int, *, offered: bool) -> None:
        self.compression = compression
        self.offered = offered
        self.ids: list[bytes] = []
        self.data: list[Buffer] = []
        self.lengths = array("I")
        self.owners: list[tuple[ContentSink, int, int, int]] = []
        self.seen: dict[bytes, int] = {}
        self.raw_bytes = 0


def _ends_block(chunk_id: bytes) -> bool:
    return not chunk_id[0] & _END_MASK


class BlockAssembler:
    """Gathers chunks, claims them and passes new ones on as blocks."""

    def __init__(self, keys: OwnerKeys, lane: BlockLane, claims: Claims) -> None:
        # By whether the content is offered to share.
        self._keys = (keys.own, keys.common)
        self._chunk_keys = (keys.own.chunk_key, keys.common.chunk_key)
        self._lane = lane
        self._claims = claims
        self._batches: dict[tuple[int, bool], _Group] = {}
        self._claimed: deque[list[_Group]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether every chunk added has its reference."""
        return not self._batches and not self._claimed

    def add_small(
        self,
        sink: ContentSink,
        row: int,
        part: int,
        data: Buffer,
        compression: int = 0,
        *,
        offered: bool = False,
    ) -> None:
        """Add a chunk that may share its block with others.

        offered: to share with other clients; such chunks have their own blocks.
        """
        batch = self._batches.get((compression, offered))
        if batch is None:
            batch = self._begin_batch(compression, offered=offered)
        elif batch.raw_bytes + len(data) > BATCH_BYTES or len(batch.ids) >= BATCH_CHUNKS:
            self._claim([batch])
            batch = self._begin_batch(compression, offered=offered)
        self._put(batch, sink, row, part, data)
        if offered and batch.raw_bytes >= SHARED_BATCH_BYTES and _ends_block(batch.ids[-1]):
            del self._batches[compression, offered]
            self._claim([batch])

    def add_large(
        self,
        sink: ContentSink,
        row: int,
        first_part: int,
        chunks: list[Buffer],
        compression: int = 0,
        *,
        offered: bool = False,
    ) -> None:
        """Add consecutive chunks of a large file; each becomes its own block.

        The memory behind `chunks` must stay unchanged until they have their references, that is
        until `CLAIMS_IN_FLIGHT` further calls or `flush`.
        """
        groups = []
        for part, data in enumerate(chunks, first_part):
            group = _Group(compression, offered=offered)
            self._put(group, sink, row, part, data)
            groups.append(group)
        self._claim(groups)

    def settle(self, answered: int) -> None:
        """Store what so many answers are about, which have come; the directories wait for it."""
        for _ in range(answered):
            self._settle()

    def flush(self) -> None:
        """Store everything added so far."""
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._claim([batch])
        while self._claimed:
            self._settle()

    def _begin_batch(self, compression: int, *, offered: bool) -> _Group:
        batch = self._batches[compression, offered] = _Group(compression, offered=offered)
        return batch

    def _put(self, group: _Group, sink: ContentSink, row: int, part: int, data: Buffer) -> None:
        chunk_id = blake3(data, key=self._chunk_keys[group.offered]).digest(CHUNK_ID_BYTES)
        ids = group.ids
        count = len(ids)
        position = group.seen.setdefault(chunk_id, count)
        if position == count:
            ids.append(chunk_id)
            group.data.append(data)
            size = len(data)
            group.lengths.append(size)
            group.raw_bytes += size
        group.owners.append((sink, row, part, position))

    def _claim(self, groups: list[_Group]) -> None:
        self._claims.claim([self._group(group) for group in groups])
        self._claimed.append(groups)
        while len(self._claimed) > CLAIMS_IN_FLIGHT:
            self._settle()

    def _group(self, group: _Group) -> ChunkGroup:
        ids, lengths = b"".join(group.ids), group.lengths.tobytes()
        block = block_id(self._keys[group.offered].block_key, ids_and_lengths(ids, lengths))
        return ChunkGroup(ids, lengths, block, group.offered)

    def _settle(self) -> None:
        answers = self._claims.claim_answer()
        for group, answer in zip(self._claimed.popleft(), answers, strict=True):
            block_id, new = answer.block_id, answer.new
            references: list[Reference] = [(block_id, 0)] * len(group.ids)
            for position, known_block, slot in answer.known:
                references[position] = (known_block, slot)
            if new:
                for slot, position in enumerate(new):
                    references[position] = (block_id, slot)
                block = NewBlock(
                    block_id,
                    b"".join([group.ids[position] for position in new]),
                    [group.lengths[position] for position in new],
                    group.offered,
                )
                data = [group.data[position] for position in new]
                self._lane.store(block, data, group.compression)
            for sink, row, part, position in group.owners:
                sink.place(row, part, references[position])
