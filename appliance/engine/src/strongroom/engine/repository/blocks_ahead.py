"""Blocks of a distant store, on their way before they are asked for.

Blocks are announced in the order of their use. Neighbours in a pack come by one request, and
several requests are in flight while the user works. What is in flight, or came and was not asked
for yet, takes at most AHEAD_BYTES; one request by itself may take more, as a block may.

Blocks may be passed over, as the content of a file that is there already: what is in flight of
them is dropped when a later one is asked for. One before those that were asked for begins anew
from there.

For one thread; the requests are made by those of `threads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from strongroom.base.errors import DamageError, KeyRightError
from strongroom.engine.repository.index.block_rows import BlockLocation

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

AHEAD_BYTES: Final = 16 << 20
# Of requests for blocks of one stream: what opens their packs has to stay in the caches.
_MOST_AHEAD: Final = 256

# A block, and where it is.
Stored: TypeAlias = tuple[BlockLocation, bytes]


class _Group(msgspec.Struct, eq=False):
    """Neighbours in a pack, those that were not asked for yet. data: None before it is read."""

    blocks: dict[bytes, BlockLocation]
    last_turn: int = 0
    offset: int = 0
    size_bytes: int = 0
    data: Future[bytes | None] | None = None
    openings: list[Future[bytes]] = []


class BlocksAhead:
    """Announced blocks of one stream."""

    def __init__(
        self,
        threads: ThreadPoolExecutor,
        read: Callable[[bytes, int, int], bytes],
        openings: Callable[[Iterable[BlockLocation]], list[Callable[[], bytes]]],
    ) -> None:
        """read: bytes of a pack, from an offset. openings: what opens the packs of blocks."""
        self._threads = threads
        self._read = read
        self._openings = openings
        self._groups: list[_Group] = []
        self._turns: dict[bytes, int] = {}
        self._numbers: dict[bytes, int] = {}
        self._next = 0
        # By number; and those that are not wanted any more and still take memory.
        self._begun: dict[int, _Group] = {}
        self._leaving: list[tuple[Future[bytes | None], int]] = []
        self._held_bytes = 0
        # By pack: all announced blocks in it, and what reads what opens them.
        self._in_packs: dict[bytes, list[BlockLocation]] = {}
        self._opened: dict[bytes, list[Future[bytes]]] = {}

    def expect(self, order: list[bytes], groups: Iterable[list[Stored]]) -> None:
        """Announce blocks, in the order of their use, instead of those before."""
        for number in list(self._begun):
            self._drop(number)
        self._opened.clear()
        self._in_packs.clear()
        self._turns = {block_id: turn for turn, block_id in enumerate(order)}
        found = [_Group({block_id: location for location, block_id in group}) for group in groups]
        for group in found:
            group.last_turn = max(map(self._turns.__getitem__, group.blocks))
            for location in group.blocks.values():
                self._in_packs.setdefault(location.pack_id, []).append(location)
        self._groups = sorted(
            found, key=lambda group: min(map(self._turns.__getitem__, group.blocks))
        )
        self._numbers = {
            block_id: number
            for number, group in enumerate(self._groups)
            for block_id in group.blocks
        }
        self._next = 0

    def take(self, block_id: bytes) -> memoryview | None:
        """A block as it is stored; None where it was not announced, or cannot be read so.

        Raises StoreError.
        """
        number = self._numbers.pop(block_id, None)
        if number is None:
            return None
        turn, group = self._turns[block_id], self._groups[number]
        if number not in self._begun:
            self._go_to(number)
        for other in [other for other, one in self._begun.items() if one.last_turn < turn]:
            self._drop(other)
        self._begin_more()
        location = group.blocks.pop(block_id)
        if group.data is None:
            # There is no room as long as what is not wanted any more is in flight.
            return None
        for opening in group.openings:
            # What is wrong with it is raised where the block is decoded.
            with suppress(DamageError, KeyRightError):
                opening.result()
        data, offset = group.data.result(), group.offset
        if not group.blocks:
            self._drop(number)
        self._begin_more()
        if data is None:
            return None
        start = location.offset - offset
        return memoryview(data)[start : start + location.stored_length]

    def _go_to(self, number: int) -> None:
        if number < self._next:
            for other in list(self._begun):
                self._drop(other)
        self._next = number

    def _begin_more(self) -> None:
        leaving, self._leaving = self._leaving, []
        for data, size_bytes in leaving:
            self._leave(data, size_bytes)
        while self._next < len(self._groups) and len(self._begun) < _MOST_AHEAD:
            group = self._groups[self._next]
            if group.blocks:
                locations = list(group.blocks.values())
                group.offset = locations[0].offset
                end = locations[-1].offset + locations[-1].stored_length
                group.size_bytes = end - group.offset
                if self._held_bytes and self._held_bytes + group.size_bytes > AHEAD_BYTES:
                    return
                self._begin(self._next, locations)
            self._next += 1

    def _begin(self, number: int, locations: list[BlockLocation]) -> None:
        group, pack_id = self._groups[number], locations[0].pack_id
        if pack_id not in self._opened:
            openings = self._openings(self._in_packs[pack_id])
            self._opened[pack_id] = [self._threads.submit(opening) for opening in openings]
        group.openings = self._opened[pack_id]
        group.data = self._threads.submit(self._read_group, pack_id, group.offset, group.size_bytes)
        self._begun[number] = group
        self._held_bytes += group.size_bytes

    def _read_group(self, pack_id: bytes, offset: int, size_bytes: int) -> bytes | None:
        try:
            return self._read(pack_id, offset, size_bytes)
        except DamageError:
            # Each block is read by itself then: there may be another copy.
            return None

    def _drop(self, number: int) -> None:
        group = self._begun.pop(number)
        # It may begin anew before its request has ended.
        data, group.data = group.data, None
        if data is not None:
            self._leave(data, group.size_bytes)

    def _leave(self, data: Future[bytes | None], size_bytes: int) -> None:
        """Free what came, now or when its request, which cannot be stopped, has ended."""
        if data.cancel() or data.done():
            self._held_bytes -= size_bytes
        else:
            self._leaving.append((data, size_bytes))
