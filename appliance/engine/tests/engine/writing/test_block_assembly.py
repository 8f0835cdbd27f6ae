"""Chunks get their references as soon as the answers about them have come."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from kit.memory_store import MemoryStore
from kit.tiny_backup import new_repository
from strongroom.engine.repository.index.chunk_table import ChunkTable
from strongroom.engine.writing.block_assembly import BATCH_CHUNKS, BlockAssembler
from strongroom.engine.writing.deduplication import Deduplication

KEYS = new_repository(MemoryStore()).writer.client


class Coordinator:
    """Decides about claims when told to, as one in another process does."""

    def __init__(self) -> None:
        self.deduplication = Deduplication(ChunkTable, KEYS)
        self.asked = deque()
        self.answers = deque()

    def decide(self) -> None:
        while self.asked:
            groups = self.asked.popleft()
            self.answers.append([self.deduplication.claim(group) for group in groups])

    def claim(self, groups):
        self.asked.append(groups)

    def claim_answer(self):
        """The oldest answer, which is waited for."""
        if not self.answers:
            self.decide()
        return self.answers.popleft()


class Lane:
    """Keeps the chunks of each block."""

    def __init__(self) -> None:
        self.blocks = {}

    def store(self, block, data, compression):
        assert block.block_id not in self.blocks
        assert block.chunk_lengths == [len(chunk) for chunk in data]
        self.blocks[block.block_id] = [bytes(chunk) for chunk in data]


class Sink:
    """Collects the references of its chunks."""

    def __init__(self) -> None:
        self.references = {}

    def place(self, row, part, reference):
        assert (row, part) not in self.references
        self.references[row, part] = reference


def assembler_of(coordinator: Coordinator, lane: Lane) -> BlockAssembler:
    return BlockAssembler(KEYS, lane, coordinator)


def test_references_come_with_the_answer_and_not_with_the_next_claim() -> None:
    coordinator, sink = Coordinator(), Sink()
    assembler = assembler_of(coordinator, Lane())
    for row in range(BATCH_CHUNKS + 1):
        assembler.add_small(sink, row, 0, b"%d" % row)
    assembler.settle(len(coordinator.answers))
    assert not sink.references, "nothing was answered yet"
    coordinator.decide()
    assembler.settle(len(coordinator.answers))
    assert len(sink.references) == BATCH_CHUNKS
    assembler.flush()
    assert len(sink.references) == BATCH_CHUNKS + 1
    assert assembler.is_idle


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.booleans(), st.sampled_from(["", "decide", "settle"])),
        max_size=60,
    )
)
def test_every_chunk_is_where_its_reference_says(steps: list[tuple[int, bool, str]]) -> None:
    coordinator, lane, sink = Coordinator(), Lane(), Sink()
    assembler = assembler_of(coordinator, lane)
    added = []
    for content, is_large, then in steps:
        data = b"%d" % content
        if is_large:
            assembler.add_large(sink, len(added), 0, [data])
        else:
            assembler.add_small(sink, len(added), 0, data)
        added.append(data)
        if then:
            coordinator.decide()
        if then == "settle":
            assembler.settle(len(coordinator.answers))
    assembler.flush()
    assert assembler.is_idle
    for row, data in enumerate(added):
        block_id, slot = sink.references[row, 0]
        assert lane.blocks[block_id][slot] == data
    assert sum(map(len, lane.blocks.values())) == len(set(added))
