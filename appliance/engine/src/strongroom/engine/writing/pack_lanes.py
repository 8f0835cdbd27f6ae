"""From blocks to packs: compress, seal, write; inline or by worker threads.

A lane keeps several packs open and puts each block into one of them at random, because with a
keyed chunker alone the order and sizes of blocks reveal which files are stored (eprint 2025/532,
2025/558). A pack that reaches its size is finished in the background, so that nothing waits for a
distant store, and its footer passed on. So is one that has been open for long: the blocks of an
open pack are sent again after an interruption, which at a low throughput would be hours of
work.

Threads: the shard's thread calls `store`, `finish` and `abort`; workers compress and write, or one
thread writes what the shard's has compressed (see `store_pace`); finishers publish full packs. A
pack slot is used by one thread at a time, which holds the slot's lock. At most
`upload_queue_size_blocks` blocks are queued or in progress, and at most FINISHED_AT_ONCE packs are
being finished; `store` blocks at these limits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec
from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import CancelledError
from strongroom.engine.content.codecs import Compression, Compressor
from strongroom.engine.repository.packs import KIND_DATA, PackFooter
from strongroom.engine.writing.stages import COMPRESS, QUEUE, STORE, StageTimes
from strongroom.engine.writing.store_pace import BlockQueue, StorePace, Waiting

OPEN_PACKS: Final = 2
FINISHED_AT_ONCE: Final = 4
# A pack that has been open for so long is finished unless it is very small.
OPEN_SECONDS: Final = 30.0
WORTH_FINISHING_BYTES: Final = 1 << 20


class NewBlock(NamedTuple):
    """What a pack says of a block. offered: to share with other clients."""

    block_id: bytes
    chunk_ids: bytes
    chunk_lengths: list[int]
    offered: bool = False


class OpenPack(Protocol):
    """A pack being written, or a dry run's substitute."""

    size_bytes: int

    def add(
        self,
        block_id: bytes,
        chunk_ids: Buffer,
        chunk_lengths: Sequence[int],
        codec: int,
        compressed: Buffer,
        raw_length: int,
        *,
        offered: bool = False,
    ) -> None:
        """Append a block."""

    def finish(self) -> PackFooter:
        """Publish the pack."""

    def abort(self) -> None:
        """Discard the pack."""


class PackTarget(Protocol):
    """Where packs are opened, and where their footers go once they are stored."""

    def open_pack(self, kind: int) -> OpenPack:
        """Begin a pack of KIND_DATA or KIND_LISTING. Raises StoreError."""

    def take(self, footer: PackFooter) -> None:
        """A pack was stored. Raises StoreError."""


class LaneSettings(msgspec.Struct, frozen=True):
    """How one shard turns blocks into packs. compressions: what a block refers to by number."""

    compressions: tuple[Compression, ...]
    worker_threads: int  # 0: inline
    upload_queue_size_blocks: int
    pack_size_bytes: int
    # Inline: a thread stores what is compressed where the store makes wait.
    adapts: bool = False


class _PackSlot:
    """A slot for one open pack; the holder of `lock` may use it."""

    __slots__ = ("lock", "opened_at", "pack")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pack: OpenPack | None = None
        self.opened_at = 0.0


class BlockLane:
    """Stores blocks and counts what it wrote.

    `packs.open_pack` is called by any thread that writes, `packs.take` in the shard's thread, from
    `store` or `finish`. Errors of workers are raised by the next call.
    """

    def __init__(
        self,
        settings: LaneSettings,
        packs: PackTarget,
        times: StageTimes | None = None,
    ) -> None:
        self._settings = settings
        self._times = times or StageTimes()
        self._during = self._times.worker_during if settings.worker_threads else self._times.during
        self._packs = packs
        self._slots = [_PackSlot() for _ in range(max(OPEN_PACKS, settings.worker_threads))]
        # The choice of the pack is not secret; it only must not depend on the files.
        self._random = clock.random_choices()
        self._footers: list[PackFooter] = []
        self._failure: BaseException | None = None
        self._compressors = threading.local()
        self._executor: ThreadPoolExecutor | None = None
        most_queued = max(1, settings.upload_queue_size_blocks)
        self._pace = StorePace(most_queued) if settings.adapts else None
        self._queue = BlockQueue(most_queued if self._pace is None else self._pace.queued_blocks)
        self._finishers: ThreadPoolExecutor | None = None
        self._finishing = threading.Semaphore(FINISHED_AT_ONCE)
        self._starting = threading.Lock()
        if settings.worker_threads:
            self._times.tell_queue(most_queued)

    @property
    def compressions(self) -> tuple[Compression, ...]:
        """The compressions that `store` takes by number."""
        return self._settings.compressions

    def store(self, block: NewBlock, data: Sequence[Buffer], compression: int = 0) -> None:
        """Write one block of chunks `data`. Raises StoreError."""
        if self._settings.worker_threads == 0:
            raw: Buffer = data[0] if len(data) == 1 else b"".join(data)
            self._write(block, raw, compression)
        else:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._settings.worker_threads, "worker")
            with self._times.during(QUEUE):
                self._queue.enter()
            self._times.queued(1)
            # The copy lets the shard reuse its read buffers at once.
            copied = b"".join(data)
            self._executor.submit(self._work, block, copied, compression)
        self._report()

    def finish(self) -> None:
        """Write queued blocks and finish every open pack. Raises StoreError."""
        if self._executor is not None:
            with self._times.during(QUEUE):
                self._executor.shutdown(wait=True)
            self._executor = None
        self._report()
        with self._times.during(STORE):
            self._finish_packs()
        self._report()

    def _finish_packs(self) -> None:
        packs = [slot.pack for slot in self._slots if slot.pack is not None]
        for slot in self._slots:
            slot.pack = None
        # The last one in this thread: a small backup needs no other.
        for pack in packs[1:]:
            self._finish_later(pack)
        for pack in packs[:1]:
            self._footers.append(pack.finish())
        self._await_finishers()

    def abort(self) -> None:
        """Discard every open pack."""
        self._failure = self._failure or CancelledError("the job was given up")
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
        self._await_finishers()
        for slot in self._slots:
            if slot.pack is not None:
                slot.pack.abort()
                slot.pack = None

    def _finish_later(self, pack: OpenPack) -> None:
        """Publish a pack in a separate thread, as soon as one is free."""
        with self._starting:
            if self._finishers is None:
                self._finishers = ThreadPoolExecutor(FINISHED_AT_ONCE, "finisher")
        self._finishing.acquire()
        self._finishers.submit(self._finish, pack)

    def _finish(self, pack: OpenPack) -> None:
        try:
            if self._failure is None:
                self._footers.append(pack.finish())
            else:
                pack.abort()
        except BaseException as error:  # noqa: BLE001 - the shard's thread raises it
            self._failure = self._failure or error
        finally:
            self._finishing.release()

    def _await_finishers(self) -> None:
        if self._finishers is not None:
            self._finishers.shutdown(wait=True)
            self._finishers = None

    def _work(self, block: NewBlock, raw: bytes, compression: int) -> None:
        try:
            if self._failure is None:
                self._write(block, raw, compression)
        except BaseException as error:  # noqa: BLE001 - the shard's thread raises it
            self._failure = error
        finally:
            self._times.queued(-1)
            self._queue.leave()

    def _write(self, block: NewBlock, raw: Buffer, compression: int) -> None:
        with self._during(COMPRESS):
            codec, stored = self._compressor(compression).compress(raw)
        pace = self._pace
        if pace is None:
            with self._during(STORE):
                self._append(block, codec, stored)
        elif pace.has_thread:
            # The copy lets the shard reuse its read buffers at once.
            kept = stored if isinstance(stored, bytes) else bytes(stored)
            self._hand_over(pace, partial(self._append, block, codec, kept))
        else:
            with self._during(STORE):
                waiting = Waiting()
                self._append(block, codec, stored)
                pace.stored(waiting.spent().waited)

    def _hand_over(self, pace: StorePace, append: Callable[[], None]) -> None:
        """Have the thread store a block that is compressed."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "store")
        with self._times.during(QUEUE):
            blocks_before, had_to_wait = self._queue.enter()
        self._queue.lengthen(pace.queued(blocks_before, had_to_wait=had_to_wait))
        self._times.tell_queue(pace.queued_blocks)
        self._times.queued(1)
        self._executor.submit(self._append_later, append)

    def _append_later(self, append: Callable[[], None]) -> None:
        try:
            if self._failure is None:
                with self._times.worker_during(STORE):
                    append()
        except BaseException as error:  # noqa: BLE001 - the shard's thread raises it
            self._failure = error
        finally:
            self._times.queued(-1)
            self._queue.leave()

    def _append(self, block: NewBlock, codec: int, stored: Buffer) -> None:
        """Put a block into one of the packs."""
        slot = self._take_slot()
        block_id, ids, lengths, offered = block
        try:
            if slot.pack is None:
                slot.pack = self._packs.open_pack(KIND_DATA)
                slot.opened_at = clock.elapsed_seconds()
            slot.pack.add(block_id, ids, lengths, codec, stored, sum(lengths), offered=offered)
            if self._is_to_finish(slot.pack, slot.opened_at):
                pack, slot.pack = slot.pack, None
                self._finish_later(pack)
        finally:
            slot.lock.release()

    def _is_to_finish(self, pack: OpenPack, opened_at: float) -> bool:
        if pack.size_bytes >= self._settings.pack_size_bytes:
            return True
        is_old = clock.elapsed_seconds() - opened_at >= OPEN_SECONDS
        return is_old and pack.size_bytes >= WORTH_FINISHING_BYTES

    def _compressor(self, number: int) -> Compressor:
        """The compressor of this number that belongs to the calling thread."""
        own: dict[int, Compressor] | None = getattr(self._compressors, "by_number", None)
        if own is None:
            own = self._compressors.by_number = {}
        if number not in own:
            own[number] = Compressor(self._settings.compressions[number])
        return own[number]

    def _take_slot(self) -> _PackSlot:
        chosen = self._random.randrange(len(self._slots))
        for slot in self._slots[chosen:] + self._slots[:chosen]:
            if slot.lock.acquire(blocking=False):
                return slot
        slot = self._slots[chosen]
        slot.lock.acquire()
        return slot

    def _report(self) -> None:
        if self._failure is not None:
            raise self._failure
        while self._footers:
            self._packs.take(self._footers.pop(0))
