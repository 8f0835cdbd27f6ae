"""Checks one pack: its frame against the index, or every byte of it."""

from __future__ import annotations

from typing import NamedTuple

from strongroom.base.decoding import reading
from strongroom.base.errors import (
    DamageError,
    MemoryLimitError,
    ObjectMissingError,
    StoreError,
    UnknownFormatError,
)
from strongroom.engine.check.verified_index import footer_summary
from strongroom.engine.content.ciphers import BlockCipher
from strongroom.engine.content.codecs import decompress
from strongroom.engine.content.digests import (
    CHUNK_ID_SIZE,
    block_id,
    chunk_id,
    ids_and_lengths,
    object_name,
)
from strongroom.engine.prune.repack import is_dead
from strongroom.engine.repository.keys.owners import OwnerKeys
from strongroom.engine.repository.packs import (
    HEADER_SIZE,
    BlockEntry,
    PackFooter,
    PackHeader,
    entry_aad,
    open_block_cipher,
    parse_header,
    read_footer,
)
from strongroom.engine.repository.repository import Repository


class PackQuestion(NamedTuple):
    """A pack to check; `summary`: of its footer, by the index; None if it is in no index."""

    pack_id: bytes
    summary: bytes | None
    read_data: bool


class PackAnswer(NamedTuple):
    """What is wrong with a pack.

    problems: of the pack as a whole. bad_blocks: numbers and problems of blocks that are lost;
    block_ids: their ids. unreadable: none of it can be used. read_bytes: how much was read.
    is_unknown: of a version that is not known, or too large for this machine: it may be sound, and
    no one may touch it.
    """

    problems: list[str]
    bad_blocks: list[tuple[int, str]]
    block_ids: list[bytes]
    unreadable: bool
    is_missing: bool
    read_bytes: int
    is_unknown: bool = False


def check_pack(repository: Repository, question: PackQuestion) -> PackAnswer:
    """Check one pack; problems are returned, not raised."""
    store, name = repository.store, question.pack_id.hex()
    problems: list[str] = []
    bad: list[tuple[int, str]] = []
    ids: list[bytes] = []
    read_bytes = 0
    try:
        footer = read_footer(store, repository.key, question.pack_id)
        if question.summary is not None and footer_summary(footer) != question.summary:
            problems.append("its footer does not match the index")
        if question.read_data:
            data = store.get("packs", name)
            read_bytes = len(data)
            if object_name(data) != name:
                problems.append("its content does not match its name")
            with reading(f"pack {name}"):
                for entry, problem in bad_blocks(repository, footer, memoryview(data)):
                    bad.append((entry.number, problem))
                    ids.append(entry.block_id)
    except ObjectMissingError:
        return PackAnswer(["it is missing"], [], [], True, True, 0)
    except UnknownFormatError as error:
        is_unknown = (
            isinstance(error, MemoryLimitError) or object_name(store.get("packs", name)) == name
        )
        texts = [*problems, str(error)]
        return PackAnswer(texts, bad, ids, True, False, read_bytes, is_unknown)
    except (DamageError, StoreError) as error:
        return PackAnswer([*problems, str(error)], bad, ids, True, False, read_bytes)
    return PackAnswer(problems, bad, ids, False, False, read_bytes)


def bad_blocks(
    repository: Repository, footer: PackFooter, data: memoryview
) -> list[tuple[BlockEntry, str]]:
    """The blocks of a pack that do not match their ids, and why; `data` is the whole pack."""
    key = repository.restore_key
    keys = key.owner(footer.owner)
    try:
        header = parse_header(bytes(data[:HEADER_SIZE]))
        cipher = open_block_cipher(header, key, footer.pack_id)
    except DamageError as error:
        return [(entry, str(error)) for entry in footer.blocks]
    found = []
    for entry in footer.blocks:
        try:
            open_entry(header, cipher, keys, entry, data[entry.offset :])
        except DamageError as error:
            found.append((entry, str(error)))
    return found


def open_entry(
    header: PackHeader,
    cipher: BlockCipher,
    keys: OwnerKeys,
    entry: BlockEntry,
    stored: memoryview,
) -> bytes:
    """The compressed bytes of a block, verified chunk by chunk; DamageError.

    `stored` may be longer than the block.
    """
    if len(stored) < entry.stored_length:
        raise DamageError("the pack ends before it")
    content = keys.content(offered=entry.offered)
    compressed = cipher.open(stored[: entry.stored_length], entry_aad(header.raw, entry))
    raw = decompress(entry.codec, compressed, entry.raw_length)
    view = memoryview(raw)
    at = 0
    for slot, length in enumerate(entry.chunk_lengths):
        if is_dead(entry.dead, slot):
            continue
        expected = entry.chunk_ids[slot * CHUNK_ID_SIZE : (slot + 1) * CHUNK_ID_SIZE]
        if chunk_id(content.chunk_key, view[at : at + length]) != expected:
            raise DamageError(f"chunk {slot} does not match its id")
        at += length
    text = ids_and_lengths(entry.chunk_ids, entry.chunk_lengths.tobytes())
    if block_id(content.block_key, text) != entry.block_id:
        raise DamageError("its chunks are not those of its id")
    return compressed
