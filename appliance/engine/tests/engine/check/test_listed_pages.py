"""Pages of many snapshots: each is kept once, and its snapshots are found."""

from __future__ import annotations

import tracemalloc

import msgspec

from strongroom.engine.check.listed_pages import ListedPages, PageUse
from strongroom.engine.check.pages import ClientPage
from strongroom.engine.repository.snapshots import PageReference, Snapshot

WEB, MAIL = b"w" * 16, b"m" * 16


def page(number: int) -> PageReference:
    return PageReference(b"folder", b"%04d" % number, number.to_bytes(24, "big"), 1000)


def snapshot(name: str, owner: bytes, *pages: PageReference) -> Snapshot:
    return Snapshot(host="host", id=name, owner=owner, pages=pages)


def test_a_page_knows_its_snapshots_and_what_follows_there() -> None:
    first, second, third = page(1), page(2), page(3)
    listed = ListedPages()
    listed.add(snapshot("a", WEB, first, second))
    listed.add(snapshot("b", WEB, first, third))
    listed.add(snapshot("c", MAIL, first))
    listed.add(snapshot("d", MAIL))
    assert list(listed.snapshot_ids) == ["a", "b", "c", "d"]
    of_web, of_mail = ClientPage(WEB, first), ClientPage(MAIL, first)
    # A page of the same id is another one for another client.
    assert listed.pages() == [of_web, ClientPage(WEB, second), ClientPage(WEB, third), of_mail]
    assert listed.pages(leave_out=("a", "d", "unknown")) == [ClientPage(WEB, third), of_mail]
    assert listed.uses(of_web) == [PageUse("a", second), PageUse("b", third)]
    assert listed.uses(ClientPage(WEB, third)) == [PageUse("b", None)]
    assert listed.uses(of_mail) == [PageUse("c", None)]


def test_one_more_snapshot_of_the_same_pages_takes_four_bytes_a_page() -> None:
    stored = msgspec.msgpack.encode([page(number) for number in range(500)])

    def add(listed: ListedPages, name: str) -> None:
        pages = msgspec.msgpack.decode(stored, type=tuple[PageReference, ...])
        listed.add(snapshot(name, WEB, *pages))

    listed = ListedPages()
    add(listed, "first")
    tracemalloc.start()
    try:
        for number in range(100):
            add(listed, f"{number}")
        more_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(listed.pages()) == 500
    assert more_bytes < 100 * 500 * 8
