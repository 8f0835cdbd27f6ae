"""What is restored by pattern is the same whether the whole listing is read or a part."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.listing.page_builder import PageBuilder
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.snapshots import PageReference
from strongroom.engine.restore.choice import WANTED, Choice, is_above, rows_of_places
from strongroom.engine.rows.rows import new_rows
from strongroom.engine.rows.views import path_key, views
from strongroom.engine.scan.patterns import Patterns

FOLDER, FILE = 0o40755, 0o100644
NAMES = [b"a", b"b", b"a-b", b"\x01", b"c.txt"]


class Chunks:
    def __init__(self):
        self.stored = {}
        self.read = []

    def chunk(self, block_id, slot):
        self.read.append(block_id)
        return memoryview(self.stored[block_id, slot])


def folders():
    """Directories three deep; each holds every name, and the first of all many more."""
    found = {b"": [(b"", FOLDER)]}
    levels = [b""]
    for depth in range(4):
        for folder in levels:
            kind = FOLDER if depth < 3 else FILE
            found.setdefault(folder, []).extend((name, kind) for name in NAMES)
        levels = [b"/".join(filter(None, (above, name))) for above in levels for name in NAMES]
    found[b"b"] += [(b"n%05d" % number, FILE) for number in range(20_000)]
    found[b"c.txt/a"] += [(b"m%05d" % number, FILE) for number in range(20_000)]
    return {path: sorted(found[path]) for path in sorted(found, key=path_key)}


@pytest.fixture(scope="module")
def stored():
    builder, chunks, pages, references = PageBuilder(), Chunks(), [], []
    for path, entries in folders().items():
        stats = array("q")
        for number, (_, mode) in enumerate(entries):
            stats.extend((mode, 0, 0, number, 0, 0, number, 65, 1, 0))
        pages += builder.add(new_rows(path, [name for name, _ in entries], stats))
    pages += builder.finish()
    for number, page in enumerate(pages):
        block_id = number.to_bytes(BLOCK_ID_SIZE, "big")
        chunks.stored[block_id, 0] = encode_page(page)
        first = page[0]
        count = sum(rows.row_count for rows in page)
        reference = PageReference(first.directory, first.name_list()[0], block_id, count)
        references.append(reference)
    assert len(references) > 4
    return tuple(references), chunks


def wanted(groups, choice):
    """Paths that are wanted, as the stream takes them: by the level of their directory."""
    found = []
    for rows in groups:
        names = rows.name_list()
        are_directories = [row.mode & 0o170000 == 0o40000 for row in views(rows)]
        within = choice.includes(rows.directory)
        chosen = choice.choose(rows.directory, names, are_directories, is_wanted=within)
        found += [
            (rows.directory, name)
            for name, value in zip(names, chosen, strict=True)
            if value == WANTED and name
        ]
    return found


steps = st.sampled_from([*NAMES, b"*", b"**", b"?", b"n00007", b"m19999"])
patterns = st.lists(steps, min_size=1, max_size=4).map(b"/".join)
places = st.lists(st.sampled_from(NAMES), max_size=2).map(b"/".join)


@given(
    st.lists(st.tuples(st.sampled_from([b"/", b"/", b"/", b"", b"!/"]), patterns), min_size=1),
    places,
)
@settings(deadline=None, max_examples=40)
def test_the_same_is_wanted_of_the_part_that_is_read(stored, parts, base):
    references, chunks = stored
    listing = Listing(references, chunks, 16)
    includes = Patterns([(anchor + text, False) for anchor, text in parts])
    choice = Choice(includes, None)
    part = list(rows_of_places(listing, base, includes.places()))
    assert wanted(part, choice) == wanted(listing.rows(base), choice)
    # In order, each row once, and with every folder above it below the base.
    keys = [(path_key(rows.directory), name) for rows in part for name in rows.name_list()]
    assert keys == sorted(set(keys))
    there = {(rows.directory, name) for rows in part for name in rows.name_list()}
    for directory, _ in there:
        above = directory
        while above != base and is_above(base, above):
            folder, _, name = above.rpartition(b"/")
            assert (folder, name) in there
            above = folder


def test_one_file_of_many_reads_the_pages_on_its_way(stored):
    references, chunks = stored
    listing = Listing(references, chunks, 16)
    chunks.read.clear()
    rows = list(rows_of_places(listing, b"", Patterns([(b"/c.txt/a/m00077", False)]).places()))
    assert [one.name_list() for one in rows] == [[b"c.txt"], [b"a"], [b"m00077"]]
    assert len(set(chunks.read)) <= 3 < len(references)
