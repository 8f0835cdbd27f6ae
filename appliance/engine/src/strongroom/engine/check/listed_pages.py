"""The pages of all snapshots: each page once, and four bytes for each time that one is listed.

Snapshots of a client have most pages in common, so a check with a hundred of each client needs no
more memory than one with the newest of each.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from typing import NamedTuple

from strongroom.engine.check.pages import ClientPage
from strongroom.engine.repository.snapshots import PageReference, Snapshot


class PageUse(NamedTuple):
    """A snapshot that has a page, and the page that follows there; None after the last."""

    snapshot_id: str
    after: PageReference | None


class ListedPages:
    """Adds snapshots, and tells which of them have a page."""

    def __init__(self) -> None:
        self._pages: list[ClientPage] = []
        self._numbers: dict[ClientPage, int] = {}
        # Of each snapshot, in its order.
        self._listed: dict[str, array[int]] = {}

    def add(self, snapshot: Snapshot) -> None:
        """A snapshot with its pages."""
        numbers = self._listed[snapshot.id] = array("I")
        for page in snapshot.pages:
            one = ClientPage(snapshot.owner, page)
            number = self._numbers.setdefault(one, len(self._pages))
            if number == len(self._pages):
                self._pages.append(one)
            numbers.append(number)

    @property
    def snapshot_ids(self) -> Collection[str]:
        """Whole ids of the snapshots."""
        return self._listed.keys()

    def pages(self, leave_out: Iterable[str] = ()) -> list[ClientPage]:
        """Each page, but for those of some snapshots (whole ids; others are ignored)."""
        left_out = {number for one in leave_out for number in self._listed.get(one, ())}
        return [one for number, one in enumerate(self._pages) if number not in left_out]

    def uses(self, page: ClientPage) -> list[PageUse]:
        """The snapshots that have a page; looks through all lists, as few pages are damaged."""
        number = self._numbers[page]
        found = []
        for snapshot_id, numbers in self._listed.items():
            if number in numbers:
                after = numbers.index(number) + 1
                follows = self._pages[numbers[after]].page if after < len(numbers) else None
                found.append(PageUse(snapshot_id, follows))
        return found
