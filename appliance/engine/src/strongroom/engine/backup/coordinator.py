"""The coordinator of a backup: hands out directories, decides what is new, writes the listing.

One thread and one `selectors` loop. It owns the deduplication table, the parent's listing and the
order of rows; shards scan directories, read files and write packs (see `shards.messages`).
File content never passes through this process. Any error of a shard ends the job.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from typing import Final

import msgspec

from strongroom.base import errors
from strongroom.base.progress import Progress
from strongroom.engine.backup.deferred_content import DeferredContent
from strongroom.engine.backup.options import BackupOptions
from strongroom.engine.backup.ordering import (
    READ_WEIGHT,
    SLICE_WEIGHT,
    ContentRead,
    Node,
    Ordering,
    PathGoals,
    StreamRows,
    directory_weight,
    is_quick,
    room_for,
)
from strongroom.engine.backup.parent import ParentListing
from strongroom.engine.backup.scanned_rows import ROOT_NAME, without_vanished
from strongroom.engine.backup.shards.examined import ExaminedEntry
from strongroom.engine.backup.shards.group import ShardGroup
from strongroom.engine.backup.shards.messages import (
    Claim,
    Claimed,
    ContentIsRead,
    DirectorySlice,
    Examined,
    Finish,
    Finished,
    Flush,
    FromShard,
    Lost,
    OfScan,
    PackStored,
    PageIsEncoded,
    ParentRows,
    ParentWanted,
    ReadContent,
    ReadStreams,
    Same,
    ScanDirectory,
    Scanned,
    Settled,
    Sliced,
)
from strongroom.engine.backup.shards.tally import ShownProgress
from strongroom.engine.processes.channel import (
    ChannelClosedError,
    CoordinatorChannel,
    Failed,
    error_of,
)
from strongroom.engine.rows.entry_counts import count_files, hole_bytes
from strongroom.engine.rows.left_out import UNREAD, VANISHED, LeftOutRanges
from strongroom.engine.rows.rows import Rows, decode_rows, encode_rows
from strongroom.engine.scan.share_folders import SHARED, ShareFolders
from strongroom.engine.writing.deduplication import Deduplication
from strongroom.engine.writing.listing import ListingWriter
from strongroom.engine.writing.pack_lanes import PackTarget
from strongroom.sources.source import UNSIZED, Problem

# Longest interval between progress updates while shards read and send no messages.
_TELL_SECONDS: Final = 0.25
# Longest interval between adjustments of the scan threads.
_ADJUST_SECONDS: Final = 0.02


class BackupCounts(msgspec.Struct):
    """Totals of all shards."""

    files_read: int = 0
    files_changed: int = 0
    bytes_read: int = 0
    problems: list[Problem] = []


class _ShardState:
    __slots__ = (
        "channel", "is_finished", "is_flushed", "is_quick", "number", "queued", "room", "scanned",
        "unsettled", "writes",
    )  # fmt: skip

    def __init__(self, number: int, channel: CoordinatorChannel[FromShard]) -> None:
        self.number = number
        self.channel = channel
        # What is queued there, by weight, and how much may be.
        self.queued = 0
        self.room = room_for(1)
        # Directories scanned, and whether they are on file systems that answer at once.
        self.scanned = 0
        self.is_quick = False
        self.unsettled = 0
        self.is_flushed = True
        self.is_finished = False
        # Whether the selector waits for room in the socket.
        self.writes = False


class Coordinator:
    """Runs the shards, which were started, until the listing is complete.

    `deduplication` decides which chunks are new; `packs` takes the footers of the packs that shards
    stored; `listing` takes rows in order; `tell` gets what becomes of each entry.
    """

    def __init__(
        self,
        shards: ShardGroup,
        options: BackupOptions,
        deduplication: Deduplication,
        packs: PackTarget,
        parent: ParentListing | None,
        listing: ListingWriter,
        progress: Progress,
        tell: Callable[[ExaminedEntry], None] | None,
    ) -> None:
        self._shards = [
            _ShardState(number, channel) for number, channel in enumerate(shards.channels)
        ]
        self._deduplication = deduplication
        self._packs = packs
        self._parent = parent
        self._listing = listing
        self._pages = shards.pages
        self._progress = progress
        self._shown_progress = ShownProgress(progress, shards.tally, shards.count)
        self._pace = shards.pace
        # Whether tasks have begun or ended since tasks were last handed out.
        self._has_moved = False
        self._tell_entry = tell
        self._order = Ordering()
        self.counts = BackupCounts(problems=[*options.known_problems, *options.warnings])
        self._reported_once: set[Problem] = set()
        self.left_out = LeftOutRanges()
        self._streams = StreamRows()
        self._order.add_streams()
        self._places = ShareFolders(options.share_below)
        if not shards.paths:
            return
        way = PathGoals.to(shards.paths)
        names = None if way is None else b"\0".join([ROOT_NAME, *way.names()])
        root = self._order.add(b"", 0, names, way)
        root.standing = self._places.root(os.stat("/").st_mode)

    def run(self) -> None:
        """Run until every row is in the listing and every pack in the store.

        Raises StoreError and other errors of shards.
        """
        with selectors.DefaultSelector() as selector:
            for shard in self._shards:
                selector.register(shard.channel.socket, selectors.EVENT_READ, shard)
            self._hand_out()
            self._send_posted(selector)
            while not self._order.is_done:
                self._turn(selector)
            for rows in self._streams.rest():
                self._listing.add(rows)
            self._listing.end()
            for shard in self._shards:
                shard.channel.post(Finish())
            self._send_posted(selector)
            while not all(shard.is_finished for shard in self._shards):
                self._turn(selector)
        self._shown_progress.tell()

    def _turn(self, selector: selectors.BaseSelector) -> None:
        is_adjusted = self._pace.is_adjusted
        for key, events in selector.select(_ADJUST_SECONDS if is_adjusted else _TELL_SECONDS):
            shard = key.data
            if events & selectors.EVENT_READ:
                try:
                    messages = shard.channel.receive()
                except ChannelClosedError as error:
                    raise errors.StrongroomError(
                        "a backup process was killed by the system, perhaps for lack "
                        "of memory; nothing was committed: run the same command again, it "
                        "reuses what was stored"
                    ) from error
                for message in messages:
                    self._take(shard, message)
                if shard.is_finished:
                    selector.unregister(shard.channel.socket)
        if is_adjusted:
            self._pace.adjust()
        if self._has_moved or is_adjusted:
            self._has_moved = False
            self._emit()
            self._hand_out()
        self._send_posted(selector)
        self._shown_progress.tell_again()

    def _send_posted(self, selector: selectors.BaseSelector) -> None:
        for shard in self._shards:
            channel = shard.channel
            if channel.has_outgoing:
                channel.flush()
            if shard.writes != channel.has_outgoing and not shard.is_finished:
                shard.writes = channel.has_outgoing
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if shard.writes else 0)
                selector.modify(channel.socket, events, shard)

    def _take(self, shard: _ShardState, message: FromShard) -> None:
        match message:
            case Claim():
                # About half of what wakes this process: no task begins or ends by it.
                claim = self._deduplication.claim
                shard.channel.post(Claimed([claim(group) for group in message.groups]))
                return
            case PackStored():
                self._packs.take(message.footer)
                return
            case PageIsEncoded():
                self._pages.take(message)
                return
        self._has_moved = True
        match message:
            case Settled():
                task = self._order.tasks[message.task]
                if isinstance(task, ContentRead):
                    self._content_settled(shard, task, message)
                else:
                    self._node_settled(shard, task, message)
            case ContentIsRead():
                shard.queued -= READ_WEIGHT
                self._order.tasks[message.task].is_scanned = True
            case Examined():
                if self._tell_entry is not None:
                    for entry in message.entries:
                        self._tell_entry(entry)
            case Finished():
                shard.is_finished = True
            case Failed():
                raise error_of(message)
            case _:
                self._take_of_node(shard, self._order.node(message.task), message)

    def _take_of_node(self, shard: _ShardState, node: Node, message: OfScan) -> None:
        match message:
            case Scanned():
                self._scanned(shard, node, message)
            case Same():
                self._scanned(shard, node, message)
                self._settled(shard, node)
                size_bytes = message.size_bytes - sum(map(hole_bytes, node.parent))
                self._settle(node, node.parent, (message.files, size_bytes))
            case ParentWanted():
                assert self._parent is not None
                # The shard holds them from now on, while it fills a block with files of a hundred
                # such directories.
                pieces, node.parent = node.parent, []
                shard.channel.post(ParentRows(encode_rows(self._parent.joined(pieces))))
            case DirectorySlice():
                part = self._order.add(node.path, message.number, None, None, message.part)
                part.standing = node.standing
            case Sliced() | Lost():
                self._scanned(shard, node, Scanned(node.number, []))
                self._settled(shard, node)
                self._order.settle(node, [])
                if isinstance(message, Lost):
                    is_gone = message.problem.is_harmless
                    self.left_out.add(node.path, {b"": VANISHED if is_gone else UNREAD})
                    self._report([message.problem])

    def _node_settled(self, shard: _ShardState, node: Node, message: Settled) -> None:
        self._settled(shard, node)
        self._count(message, message.problems)
        rows = decode_rows(message.rows)
        if message.deferred:
            content = DeferredContent(
                rows, message.deferred, message.tallied_files, message.read_bytes
            )
            self._order.defer(node, content)
        else:
            if node.path:
                # The root has rows that are not in the listing.
                rows.page_ends = message.page_ends
            found = (message.files, message.size_bytes)
            tallied = (message.tallied_files, message.read_bytes)
            self._settle(node, [self._without_vanished(rows)], found, tallied)

    def _content_settled(self, shard: _ShardState, read: ContentRead, message: Settled) -> None:
        self._settled(shard, read)
        node = read.node
        assert node.content is not None
        self._count(message, node.content.first_reported(message.problems))
        node.content.tallied_files += message.tallied_files
        node.content.read_bytes += message.read_bytes
        whole = node.content.settle(read.place, decode_rows(message.rows))
        if whole is not None:
            content, node.content = node.content, None
            kept = self._without_vanished(whole)
            tallied = (content.tallied_files, content.read_bytes)
            files, size_bytes = count_files(kept.stats)
            self._settle(node, [kept], (files, size_bytes - hole_bytes(kept)), tallied)

    def _without_vanished(self, rows: Rows) -> Rows:
        kept, gone = without_vanished(rows)
        self.left_out.add(rows.directory, dict.fromkeys(gone, VANISHED))
        return kept

    def _settle(
        self,
        node: Node,
        rows: list[Rows],
        found: tuple[int, int],
        tallied: tuple[int, int] = (0, 0),
    ) -> None:
        """The rows of a node are final; files and bytes that it has, and that the tally counted."""
        self._shown_progress.settled(found, tallied)
        self._order.settle(node, rows)

    def _settled(self, shard: _ShardState, task: Node | ContentRead) -> None:
        del self._order.tasks[task.number]
        shard.unsettled -= 1

    def _count(self, settled: Settled, problems: list[Problem]) -> None:
        self.counts.files_read += settled.files_read
        self.counts.files_changed += settled.known_files
        self.counts.bytes_read += settled.read_bytes
        self._report(problems)

    def _scanned(self, shard: _ShardState, node: Node, found: Scanned | Same) -> None:
        self.left_out.add(node.path, found.left_out)
        shard.queued -= node.weight
        shard.scanned += 1
        node.is_scanned = True
        prefix = node.path + b"/" if node.path else b""
        closed = frozenset(found.closed)
        for name in found.children:
            way = None
            if node.way is not None and name not in node.way.goals:
                way = node.way.steps[name]
            only = None if way is None else b"\0".join(way.names())
            path = prefix + name
            child = self._order.add(path, 0, only, way)
            child.standing = self._places.below(
                node.standing, path, is_searchable=name not in closed
            )

    def _parent_pieces(self, node: Node) -> list[Rows]:
        if self._parent is None:
            return []
        offers = node.standing == SHARED
        if node.part is None:
            return self._parent.directory(node.path, offers=offers)
        return self._parent.between(node.path, node.part.first, node.part.last, offers=offers)

    def _hand_out(self) -> None:
        for shard in self._shards:
            threads = self._pace.threads_of(shard.number)
            shard.room = room_for(threads)
            shard.is_quick = is_quick(threads, shard.scanned)
        while self._order.waiting_tasks:
            shard = min(self._shards, key=_load)
            if shard.queued >= shard.room:
                break
            task = self._order.next_task()
            if task is None:
                break
            task.shard = shard.number
            shard.unsettled += 1
            shard.is_flushed = False
            if isinstance(task, ContentRead):
                self._send_read(shard, task)
            else:
                self._send_scan(shard, task)
        self._flush_where_needed()

    def _send_scan(self, shard: _ShardState, node: Node) -> None:
        if node.is_streams:
            shard.queued += node.weight
            shard.channel.post(ReadStreams(node.number))
            return
        digest = None
        node.parent = self._parent_pieces(node)
        if node.parent:
            assert self._parent is not None
            digest = self._parent.digest(node.parent)
        node.weight = SLICE_WEIGHT
        if node.part is None:
            waiting = self._order.waiting_tasks
            node.weight = directory_weight(node.parent, quick=shard.is_quick, waiting=waiting)
        shard.queued += node.weight
        shard.channel.post(
            ScanDirectory(
                node.number,
                node.path,
                node.only,
                node.part,
                node.way is None,
                digest,
                bool(node.parent),
                node.standing == SHARED,
            )
        )

    def _send_read(self, shard: _ShardState, read: ContentRead) -> None:
        content = read.node.content
        assert content is not None
        names, stats = content.names_and_stats(read.place)
        byte_range = content.tasks[read.place].byte_range
        shard.queued += READ_WEIGHT
        offers = read.node.standing == SHARED
        shard.channel.post(
            ReadContent(read.number, read.node.path, names, stats, byte_range, offers)
        )

    def _flush_where_needed(self) -> None:
        """Have shards flush incomplete batches when the job would otherwise stall."""
        waiting = self._shards
        if any(shard.queued for shard in self._shards):
            if not self._order.is_full:
                return
            blocking = self._order.blocking_shard
            waiting = [] if blocking is None else [self._shards[blocking]]
        for shard in waiting:
            if not shard.is_flushed and shard.unsettled:
                shard.is_flushed = True
                shard.channel.post(Flush())

    def _emit(self) -> None:
        while True:
            node = self._order.next_to_emit()
            if node is None:
                return
            for piece in node.rows or ():
                if node.is_streams:
                    self._streams.hold(piece)
                    continue
                for rows in self._streams.rest() if node.path else self._streams.among(piece):
                    self._listing.add(rows)
                if node.path:
                    self._listing.add(piece)

    def _report(self, problems: list[Problem]) -> None:
        # Each shard may find what concerns a whole file system.
        problems = [
            one for one in problems if one.text != UNSIZED or one not in self._reported_once
        ]
        self._reported_once.update(one for one in problems if one.text == UNSIZED)
        self.counts.problems += problems
        if problems:
            self._progress.add(errors=len(problems))


def _load(shard: _ShardState) -> float:
    return shard.queued / shard.room
