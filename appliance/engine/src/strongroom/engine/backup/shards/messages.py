"""Messages between the coordinator of a backup and its shards.

Task numbers are the coordinator's, see `Ordering`. Rows are encoded by `encode_rows` and names
joined by NUL, so that large data crosses as one piece of bytes, without being decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from strongroom.engine.backup.shards.examined import ExaminedEntry
from strongroom.engine.backup.wide_directory import NameSlice
from strongroom.engine.processes.channel import Failed, ProcessMessage
from strongroom.engine.repository.packs import PackFooter
from strongroom.engine.writing.deduplication import (
    ChunkGroup,
    GroupAnswer,
)
from strongroom.engine.writing.listing import EncodedPage
from strongroom.sources.source import Problem

# From the coordinator to a shard.


class ScanDirectory(ProcessMessage, frozen=True, tag="scan"):
    """Scan a directory, or `names` of it, or those of `part`.

    selects: whether the exclusions apply there. parent_digest: the comparison digest of the
    parent's rows. has_parent: whether the parent has rows of it. offers: whether its public files
    are offered to share.
    """

    task: int
    path: bytes
    names: bytes | None
    part: NameSlice | None
    selects: bool
    parent_digest: bytes | None
    has_parent: bool
    offers: bool


class ReadContent(ProcessMessage, frozen=True, tag="read"):
    """Read deferred content: of these files, or (offset, length) of one.

    offers: as of ScanDirectory.
    """

    task: int
    path: bytes
    names: bytes
    stats: bytes
    byte_range: tuple[int, int] | None
    offers: bool


class ReadStreams(ProcessMessage, frozen=True, tag="streams"):
    """Read the source's streams, which are files of the root."""

    task: int


class Claimed(ProcessMessage, frozen=True, tag="claimed"):
    """The answer to the oldest claim: one for each of its groups."""

    answers: list[GroupAnswer]


class ParentRows(ProcessMessage, frozen=True, tag="rows"):
    """The answer to ParentWanted."""

    rows: bytes


class EncodePage(ProcessMessage, frozen=True, tag="page"):
    """Encode a page of the listing, as soon as this comes, whatever else waits.

    groups: its rows, by `encode_groups`. keeps_raw: as of `PageEncoder`.
    """

    number: int
    groups: bytes
    keeps_raw: bool


class Flush(ProcessMessage, frozen=True, tag="flush"):
    """Flush incomplete batches: no more tasks may come for a while."""


class Finish(ProcessMessage, frozen=True, tag="finish"):
    """Flush, finish the packs, send Finished, end."""


# From a shard to the coordinator.


class Scanned(ProcessMessage, frozen=True, tag="scanned"):
    """The directories that a scan found; sent before any content is read.

    closed: those that others may not search. left_out: as of `FoundDirectories`.
    """

    task: int
    children: list[bytes]
    closed: list[bytes] = msgspec.field(default_factory=list)
    left_out: dict[bytes, int] = msgspec.field(default_factory=dict)


class ContentIsRead(ProcessMessage, frozen=True, tag="content-is-read"):
    """All of a ReadContent was read, though not yet stored."""

    task: int


class DirectorySlice(ProcessMessage, frozen=True, tag="slice"):
    """Some names of a directory that is too large for one task; numbered from 1."""

    task: int
    number: int
    part: NameSlice


class Sliced(ProcessMessage, frozen=True, tag="sliced"):
    """The last slice of a directory was sent; the task itself has no rows."""

    task: int


class Same(ProcessMessage, frozen=True, tag="same"):
    """The directory equals the parent's by digest; with its sub-directories, as of Scanned.

    files, size_bytes: its regular files, and their sizes together.
    """

    task: int
    files: int
    size_bytes: int
    children: list[bytes]
    closed: list[bytes] = msgspec.field(default_factory=list)
    left_out: dict[bytes, int] = msgspec.field(default_factory=dict)


class ParentWanted(ProcessMessage, frozen=True, tag="parent"):
    """The parent's rows of the task are needed."""

    task: int


class Claim(ProcessMessage, frozen=True, tag="claim"):
    """Which of these chunks are new?"""

    groups: list[ChunkGroup]


class Settled(ProcessMessage, frozen=True, tag="settled"):
    """Rows of a task with the references of their content.

    files, size_bytes: as of Same. deferred: numbers of rows whose content is still to be read, by a
    ReadContent. files_read: of them known_files are in the parent too. tallied_files: those that
    the ShardTally has counted. page_ends: as of Rows, for all of the rows.
    """

    task: int
    rows: bytes
    files: int
    size_bytes: int
    files_read: int
    known_files: int
    read_bytes: int
    tallied_files: int
    problems: list[Problem]
    deferred: list[int]
    page_ends: list[int]


class PageIsEncoded(ProcessMessage, frozen=True, tag="page-is-encoded"):
    """The answer to EncodePage."""

    number: int
    page: EncodedPage


class Examined(ProcessMessage, frozen=True, tag="examined"):
    """Entries of a directory and what becomes of each, for a backup that tells that."""

    entries: list[ExaminedEntry]


class Lost(ProcessMessage, frozen=True, tag="lost"):
    """The directory could not be read at all."""

    task: int
    problem: Problem


class PackStored(ProcessMessage, frozen=True, tag="pack"):
    """A pack is in the store."""

    footer: PackFooter


class Finished(ProcessMessage, frozen=True, tag="finished"):
    """Everything is in the store; the shard ends."""


ShardTask: TypeAlias = ScanDirectory | ReadContent | ReadStreams | Flush | Finish
ToShard: TypeAlias = ShardTask | Claimed | ParentRows | EncodePage
OfScan: TypeAlias = Scanned | DirectorySlice | Sliced | Same | ParentWanted | Lost
FromShard: TypeAlias = (
    OfScan
    | ContentIsRead
    | Settled
    | Claim
    | PackStored
    | PageIsEncoded
    | Examined
    | Finished
    | Failed
)

decode_to_shard: Callable[[memoryview], ToShard] = msgspec.msgpack.Decoder(ToShard).decode
decode_from_shard: Callable[[memoryview], FromShard] = msgspec.msgpack.Decoder(FromShard).decode
