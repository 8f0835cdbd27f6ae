"""Has shards encode pages of the listing, so that the coordinator, which is one process, need not.

A page is rows by themselves and an answer by itself, so any shard may do it, at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.jobs.backup.shards.messages import EncodePage, PageIsEncoded
from strongroom.repo.listing.page_builder import MIN_PAGE_ROWS
from strongroom.rows.rows import encode_groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.jobs.backup.shards.messages import FromShard
    from strongroom.jobs.workers.channel import CoordinatorChannel
    from strongroom.jobs.writing.page_encoding import EncodedPage
    from strongroom.rows.rows import Rows

# A shard may be busy with something else for a while, and a page is megabytes.
_PAGES_A_SHARD: Final = 2
# Rows and references to content below which a page is encoded sooner than sent.
_LEAST_WORK: Final = MIN_PAGE_ROWS


class PageTasks:
    """For the coordinator's thread. `channels`: to the shards; keeps_raw: as of `PageEncoder`."""

    def __init__(self, channels: list[CoordinatorChannel[FromShard]], *, keeps_raw: bool) -> None:
        self._channels = channels
        self._keeps_raw = keeps_raw
        self._under_way = [0] * len(channels)
        self._done: dict[int, tuple[int, Callable[[EncodedPage], None]]] = {}
        self._number = 0

    def offer(self, page: list[Rows], done: Callable[[EncodedPage], None]) -> bool:
        """Whether a shard encodes `page`; `done` is called by `take` then.

        Not a small page, as that of a small backup is, and not where all have enough of them.
        """
        shard = min(range(len(self._channels)), key=self._under_way.__getitem__)
        if self._under_way[shard] >= _PAGES_A_SHARD:
            return False
        if sum(rows.row_count + len(rows.part_slots) for rows in page) < _LEAST_WORK:
            return False
        self._number += 1
        self._done[self._number] = shard, done
        self._under_way[shard] += 1
        task = EncodePage(self._number, encode_groups(page), self._keeps_raw)
        self._channels[shard].send(task)
        return True

    def take(self, message: PageIsEncoded) -> None:
        """A shard's answer. Raises what `done` raises."""
        shard, done = self._done.pop(message.number)
        self._under_way[shard] -= 1
        done(message.page)
