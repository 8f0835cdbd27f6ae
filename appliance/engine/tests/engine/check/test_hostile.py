"""A hostile repository gives clear errors in bounded memory, and never another's content.

Its author holds the put key, as any client does: every seal is right, what it holds is not.
"""

import resource
import struct
import zlib
from array import array

import pytest
import zstandard

from kit.killed_process import in_child
from kit.tiny_backup import Files, back_up, new_repository
from strongroom.base.errors import DamageError, UnknownFormatError, WrongKeyError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.content.ciphers import seal_object
from strongroom.engine.content.codecs import GZIP, LZ4, NONE, ZSTD
from strongroom.engine.content.digests import block_id, chunk_id, ids_and_lengths, object_name
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repair.repair import RepairOptions, repair
from strongroom.engine.repository.blocks import BlockReader
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

GIB = 1 << 30
# Far below what the forged lengths announce, far above what honest work takes.
MEMORY_BYTES = 600 << 20


def files(*numbers: int) -> Files:
    return {b"file%d" % number: b"content %d " % number * 50 for number in numbers}


def in_bounded_memory(action) -> int:
    """The exit code of `action` in a child that may not take more memory than is sane."""

    def limited() -> None:
        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY_BYTES, taken + MEMORY_BYTES))
        action()

    return in_child(limited)


def forged_index(repository: Repository, text: bytes) -> None:
    key = repository.writer
    first = seal_object(key.client.index_key, b"strongroom index 1", text, repository.cipher)
    data = struct.pack("<4sB3x16sI", b"SRIX", 1, key.client_id, len(first)) + first
    repository.store.put("index", object_name(data), data)


def bomb(size: int) -> bytes:
    """A zstd frame of few bytes that says it holds very many, and does."""
    compressor = zstandard.ZstdCompressor(1).compressobj(size)
    zeros = bytes(1 << 20)
    return b"".join([compressor.compress(zeros) for _ in range(size >> 20)]) + compressor.flush()


HUGE = 0xFFFF_FFF0
# Of a second part; none of these objects gets as far as that.
DIGEST = bytes(32)


@pytest.mark.parametrize(
    "text",
    [
        DIGEST + struct.pack("<III", HUGE, 0, 0),
        DIGEST + struct.pack("<III", 0, HUGE, 0),
        DIGEST + struct.pack("<III", 1, 0, 40) + bytes(32) + bytes(40),
        DIGEST + struct.pack("<III", 0, 0, 0) + struct.pack("<IIII", HUGE, HUGE, HUGE, HUGE),
        DIGEST + struct.pack("<III", 0, 0, 0),
        b"",
    ],
    ids=["packs", "superseded", "columns", "blocks", "nothing", "empty"],
)
def test_an_index_of_forged_counts_is_refused(repository, text):
    back_up(repository, files(1))
    forged_index(repository, text)
    assert in_bounded_memory(repository.load_index) == DamageError.exit_code
    report = check(repository, CheckOptions(processes=1), NullProgress())
    assert [finding.kind for finding in report.findings] == ["index"]


def test_an_index_that_explodes_is_refused(repository):
    packed = bomb(GIB)
    forged_index(repository, DIGEST + struct.pack("<III", 1, 0, len(packed)) + bytes(32) + packed)
    assert in_bounded_memory(repository.load_index) == DamageError.exit_code


@pytest.mark.parametrize("raw_size", [4 << 20, 2 * GIB - 1])
def test_a_snapshot_that_explodes_is_refused(repository, raw_size):
    packed = struct.pack("<I", raw_size) + bomb(GIB)
    key = repository.writer
    label = b"strongroom snapshot 1"
    envelope = seal_object(key.client.snapshot_key, label, packed, repository.cipher)
    head = struct.pack("<4sB3x16sI", b"SRSN", 1, key.client_id, len(envelope))
    data = head + envelope + bytes(100)
    repository.store.put("snapshots", object_name(data), data)
    assert in_bounded_memory(repository.snapshots) == DamageError.exit_code
    report = check(repository, CheckOptions(processes=1), NullProgress())
    assert [finding.kind for finding in report.findings] == ["snapshots"]


def forged_block(
    repository: Repository,
    claimed: bytes,
    ids: bytes,
    lengths: list[int],
    codec: int,
    stored: bytes,
) -> None:
    """A pack that says of `stored` that it is the block `claimed`, and an index that has it."""
    pack = repository.new_pack(0)
    pack.add(claimed, ids, lengths, codec, stored, sum(lengths))
    repository.write_index([pack.finish()])


def own_reader(repository: Repository) -> BlockReader:
    return repository.block_reader(repository.load_index().of_client(repository.writer.client_id))


_EXPLOSIVES = {
    NONE: lambda: b"short",
    ZSTD: lambda: bomb(GIB),
    LZ4: lambda: bytes([0x1F, 0, 1, 0]) + b"\xff" * 100_000,
    GZIP: lambda: zlib.compress(bytes(400 << 20), 1),
}


@pytest.mark.parametrize("codec", [NONE, ZSTD, LZ4, GZIP])
def test_a_block_that_explodes_is_refused(repository, codec):
    size = 200 << 20
    data = _EXPLOSIVES[codec]()
    ids, lengths = bytes(24), [size]
    claimed = block_id(
        repository.writer.client.own.block_key, ids_and_lengths(ids, array("I", lengths))
    )
    forged_block(repository, claimed, ids, lengths, codec, data)

    def read() -> None:
        own_reader(repository).block(claimed)

    assert in_bounded_memory(read) == DamageError.exit_code
    options = CheckOptions(read_data=DataSubset(), processes=1)
    report = check(repository, options, NullProgress())
    assert [finding.kind for finding in report.findings] == ["packs"]


def test_a_pack_that_claims_anothers_block_is_found_out_and_gives_nothing_away(repository):
    """The block id belongs to a victim's chunks; the bytes are the attacker's."""
    key = repository.writer.client.own
    victim, attacker = b"what the victim stored", b"what the attacker says"
    ids = chunk_id(key.chunk_key, victim)
    lengths = [len(victim)]
    claimed = block_id(key.block_key, ids_and_lengths(ids, array("I", lengths)))
    forged_block(repository, claimed, ids, lengths, NONE, attacker)
    reader = own_reader(repository)
    with pytest.raises(DamageError):
        reader.chunk(claimed, 0)
    options = CheckOptions(read_data=DataSubset(), processes=1)
    report = check(repository, options, NullProgress())
    assert [finding.kind for finding in report.findings] == ["packs"]


def test_slots_that_changed_places_are_found_out(repository):
    """Right chunks under the right block id, but their bytes in another order."""
    key = repository.writer.client.own
    one, other = b"a" * 100, b"b" * 100
    ids = chunk_id(key.chunk_key, one) + chunk_id(key.chunk_key, other)
    lengths = [100, 100]
    claimed = block_id(key.block_key, ids_and_lengths(ids, array("I", lengths)))
    forged_block(repository, claimed, ids, lengths, NONE, other + one)
    reader = own_reader(repository)
    for slot in (0, 1):
        with pytest.raises(DamageError):
            reader.chunk(claimed, slot)
    options = CheckOptions(read_data=DataSubset(), processes=1)
    assert check(repository, options, NullProgress()).findings


def test_another_repositorys_key_and_a_wrong_passphrase_are_refused(repository, folder):
    other = new_repository(LocalStore(str(folder / "other")))
    for secret in (other.key, other.writer, b"wrong", None):
        with pytest.raises(WrongKeyError):
            Repository.open(repository.store, secret)


def test_objects_of_another_repository_are_refused(repository, folder):
    other = new_repository(LocalStore(str(folder / "other")))
    back_up(other, files(1))
    for kind in ("index", "snapshots"):
        for info in list(other.store.list(kind)):
            repository.store.put(kind, info.name, other.store.get(kind, info.name))
    with pytest.raises(DamageError):
        repository.for_all_clients().load_index()
    with pytest.raises(DamageError):
        repository.snapshots()
    # Their client has another id there, so a client here passes over them.
    assert len(repository.load_index()) == 0
    kinds = {finding.kind for finding in check(repository, CheckOptions(), NullProgress()).findings}
    assert kinds == {"index", "snapshots"}


OPTIONS = {check: CheckOptions(), prune: PruneOptions()}


@pytest.mark.parametrize(("kind", "place"), [("index", 4), ("snapshots", 4)])
def test_an_object_of_a_version_to_come_is_left_alone(repository, kind, place):
    back_up(repository, files(1))
    (info,) = repository.store.list(kind)
    data = bytearray(repository.store.get(kind, info.name))
    data[place] = 2
    repository.store.put(kind, object_name(data), bytes(data))
    if kind == "index":
        # Who does not know where blocks are can neither judge nor remove anything.
        for job in (check, prune):
            with pytest.raises(UnknownFormatError, match="update strongroom"):
                job(repository, OPTIONS[job], NullProgress())
        return
    (finding,) = check(repository, CheckOptions(), NullProgress()).findings
    assert (finding.kind, finding.name) == (kind, object_name(data))
    report = prune(repository, PruneOptions(), NullProgress())
    assert [name for name, _ in report.false_snapshots] == [object_name(data)]
    fixed = repair(repository, RepairOptions(), NullProgress())
    assert fixed.set_aside.names(kind) == [object_name(data)]
    assert object_name(data) in {one.name for one in repository.store.list(kind)}
