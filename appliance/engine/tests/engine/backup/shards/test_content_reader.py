"""A large file is cut where its content says so, however it is read, and is stored as it is."""

import hashlib
import random
import stat
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.memory_store import MemoryStore
from kit.tiny_backup import new_repository
from strongroom.engine.backup.options import Treatment, Tuning
from strongroom.engine.backup.shards.content_reader import ContentReader
from strongroom.engine.backup.shards.directory_work import DirectoryWork, WorkTask
from strongroom.engine.backup.shards.lot_cutter import LOT_BYTES, LotBuffer
from strongroom.engine.content.chunker import GREATEST_SIZE, Chunker
from strongroom.engine.content.codecs import AUTO
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE
from strongroom.engine.writing.block_assembly import CLAIMS_IN_FLIGHT

KEYS = new_repository(MemoryStore()).writer.client
MIB = 1 << 20


class Assembler:
    """Keeps chunks, and looks after those that are still waited for by a real one."""

    def __init__(self):
        self.chunks = []
        self._waiting = []

    def add_large(self, sink, row, first_part, chunks, compression, *, offered):
        assert first_part == len(self.chunks)
        for views, copies in self._waiting:
            assert list(map(bytes, views)) == copies
        copies = list(map(bytes, chunks))
        self._waiting = [*self._waiting, (chunks, copies)][-CLAIMS_IN_FLIGHT:]
        self.chunks += copies
        for part in range(first_part, len(self.chunks)):
            sink.place(row, part, (bytes(24), 0))


class ByteStream:
    """A stream that gives at most so many bytes at a time."""

    name, mode = b"stream", 0o600

    def __init__(self, data, step):
        self._data, self._step, self._at = data, step, 0

    def readinto(self, buffer):
        piece = self._data[self._at : self._at + min(self._step, len(buffer))]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def finish(self):
        """Nothing is missing."""


class Outbox:
    """Keeps what the coordinator would get."""

    def __init__(self):
        self.messages = []

    def post(self, message):
        self.messages.append(message)


def read(data, step):
    """The chunks of a stream, and what the coordinator gets of it."""
    assembler, outbox = Assembler(), Outbox()
    treatment = Treatment(AUTO, signs=True, acls=False, xattrs=False)
    reader = ContentReader(
        assembler,
        Tuning(signature="sha256"),
        KEYS,
        (treatment,),
        (AUTO,),
        memoryview(bytearray(64)).cast("Q"),
        {},
        allows_empty=True,
    )
    stream = ByteStream(data, step)
    columns = array("q", [0] * COLUMN_COUNT)
    columns[MODE] = stat.S_IFREG | stream.mode
    work = DirectoryWork(
        WorkTask(1, b"", "sha256"), [stream.name], stream.name, columns, [], outbox
    )
    reader.read_stream(work, 0, stream)
    work.seal()
    (message,) = outbox.messages
    return assembler.chunks, message


PIECES = st.tuples(st.sampled_from(["random", "zeros"]), st.integers(1, 20 * MIB))


@settings(max_examples=12, deadline=None)
@given(st.lists(PIECES, max_size=3), st.sampled_from([MIB + 1, 64 * MIB]))
def test_chunks_are_those_of_the_whole_content(pieces, step):
    generator = random.Random(1)
    data = b"".join(
        generator.randbytes(size) if kind == "random" else bytes(size) for kind, size in pieces
    )
    chunks, message = read(data, step)
    assert b"".join(chunks) == data
    lengths = Chunker(KEYS.own.chunker_seed).cut(memoryview(data), final=True) if data else []
    assert [len(chunk) for chunk in chunks] == lengths
    assert message.read_bytes == len(data)
    assert hashlib.sha256(data).digest() in message.rows


def test_a_buffer_gives_back_what_only_a_great_chunk_needs():
    buffer = LotBuffer(GREATEST_SIZE)
    buffer.view_again()[:] = b"\1" * GREATEST_SIZE
    assert bytes(buffer.view_again()[LOT_BYTES:]) == bytes(GREATEST_SIZE - LOT_BYTES)


@pytest.mark.parametrize("size", [LOT_BYTES - 1, LOT_BYTES, GREATEST_SIZE, GREATEST_SIZE + 1])
def test_one_byte_repeated_is_cut_at_the_greatest_size(size):
    chunks, _ = read(b"\7" * size, 64 * MIB)
    whole, rest = divmod(size, GREATEST_SIZE)
    assert list(map(len, chunks)) == [GREATEST_SIZE] * whole + [rest] * (rest > 0)
