"""A listing finds directories, sub-trees and single rows, reading only the pages it needs."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.listing.page_builder import PageBuilder
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.snapshots import PageReference
from strongroom.engine.rows.rows import CHANGED, new_rows
from strongroom.engine.rows.views import path_key, views


class Chunks:
    def __init__(self):
        self.stored = {}
        self.read = []

    def chunk(self, block_id, slot):
        self.read.append(block_id)
        return memoryview(self.stored[block_id, slot])


def tree() -> dict[bytes, list[bytes]]:
    found = {
        b"": [b"", b"a", b"a-b", b"wide", b"z"],
        b"a": [b"\x01odd", b"b", b"file"],
        b"a/b": [b"deep"],
        b"a/\x01odd": [b"inside"],
        b"a-b": [b"beside"],
        b"wide": [b"n%06d" % number for number in range(30_000)],
        b"z": [b"sub%04d" % number for number in range(2000)],
    }
    for number in range(2000):
        found[b"z/sub%04d" % number] = [b"f%d" % n for n in range(5)]
    return dict(sorted(found.items(), key=lambda pair: path_key(pair[0])))


@pytest.fixture(scope="module")
def snapshot():
    builder = PageBuilder()
    groups = []
    for path, names in tree().items():
        stats = array("q")
        for number in range(len(names)):
            stats.extend((0o100644, 0, 0, number, 0, 0, number, 65, 1, 0))
        groups += builder.add(new_rows(path, names, stats))
    groups += builder.finish()
    chunks = Chunks()
    references = []
    for number, page in enumerate(groups):
        block_id = number.to_bytes(BLOCK_ID_SIZE, "big")
        chunks.stored[block_id, 0] = encode_page(page)
        references.append(
            PageReference(
                page[0].directory,
                page[0].name_list()[0],
                block_id,
                sum(rows.row_count for rows in page),
            )
        )
    assert len(references) > 4
    return references, chunks


@pytest.fixture
def listing(snapshot):
    references, chunks = snapshot
    chunks.read.clear()
    return Listing(references, chunks, lru_size_pages=2)


def paths(rows_iterator):
    return [view.path for rows in rows_iterator for view in views(rows)]


def all_paths():
    return [
        directory + b"/" + name if directory else name
        for directory, names in tree().items()
        for name in names
    ]


def test_everything_comes_in_order(listing):
    assert paths(listing.rows()) == all_paths()
    assert listing.row_count == len(all_paths())
    assert sum(rows.row_count for page in listing.pages() for rows in page) == len(all_paths())


@pytest.mark.parametrize("path", [b"a", b"a/b", b"a-b", b"wide", b"z", b"z/sub1999", b"nowhere"])
def test_a_sub_tree_is_what_is_below_a_path_and_nothing_beside_it(listing, path):
    expected = [one for one in all_paths() if one.startswith(path + b"/")]
    assert paths(listing.rows(path)) == expected


@pytest.mark.parametrize("path", [b"", b"a", b"wide", b"z", b"z/sub0000"])
def test_a_directory_is_its_own_names_only(listing, path):
    names = [view.name for rows in listing.directory(path) for view in views(rows)]
    assert names == tree()[path]


def test_every_row_is_found_by_its_path(listing):
    for path in [*all_paths()[:40], *all_paths()[::997], all_paths()[-1]]:
        assert listing.lookup(path).path == path


@pytest.mark.parametrize("path", [b"b", b"a/c", b"wide/n", b"zz/top", b"a/b/deep/er", b"wide/zzz"])
def test_a_path_that_is_not_there_is_none(listing, path):
    assert listing.lookup(path) is None


def test_the_root_has_a_row_of_its_own(listing):
    assert listing.lookup(b"").path == b""


def test_a_directory_can_be_read_from_a_name_on(listing):
    names = [view.name for rows in listing.directory_from(b"wide", b"n02") for view in views(rows)]
    assert names == [name for name in tree()[b"wide"] if name >= b"n02"]


def test_a_look_up_reads_few_pages_and_a_second_one_none(listing, snapshot):
    _, chunks = snapshot
    listing.lookup(b"z/sub1500/f3")
    assert len(chunks.read) <= 2
    count = len(chunks.read)
    listing.lookup(b"z/sub1500/f4")
    assert len(chunks.read) == count


def test_pages_that_do_not_fit_their_references_are_damage(snapshot):
    references, chunks = snapshot
    with pytest.raises(DamageError, match="order"):
        Listing(list(reversed(references)), chunks)
    first = references[0]
    wrong = PageReference(first.first_directory, first.first_name, references[1].block_id, 5)
    with pytest.raises(DamageError, match="listed with"):
        Listing([wrong], chunks).page(0)


def test_a_page_is_known_again_by_its_very_rows(listing, snapshot):
    references, _ = snapshot
    last = len(references) - 1
    groups = list(listing.rows())
    page = listing.page(last)
    assert listing.reference_of(list(page)) == references[last]
    # Rows that were not taken as they are may differ from those of the page in anything.
    assert listing.reference_of([replace(page[0]), *page[1:]]) is None
    assert listing.reference_of([replace(page[0], states={0: CHANGED}), *page[1:]]) is None
    assert listing.reference_of(page[:-1]) is None
    assert listing.reference_of(page[1:]) is None
    # The cache has forgotten the first page.
    assert listing.reference_of([groups[0]]) is None


def test_rows_before_the_first_and_after_the_last_page_are_of_none(listing):
    page = listing.page(0)
    assert listing.reference_of([replace(page[0], directory=b"zz"), *page[1:]]) is None
    assert listing.reference_of([replace(page[0], names=b"\x00"), *page[1:]]) is None


def test_what_is_beside_rows_is_their_page(listing, snapshot):
    references, _ = snapshot
    page = listing.page(len(references) - 1)
    assert listing.beside(page[0]) is page
    assert listing.beside(page[-1]) is page
    assert listing.beside(replace(page[0], directory=b"", names=b"")) == []
