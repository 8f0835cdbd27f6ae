"""A damaged provenance database is made anew of what can be read, and the damaged one is kept."""

from __future__ import annotations

import os

import pytest

from kit.damaged_file import damage_pages
from strongroom.daemons.storage.provenance import VOUCHED, Provenance, book_path
from strongroom.errors import StoreError

COUNT = 3000


@pytest.fixture
def folder(tmp_path):
    book = Provenance(os.fsencode(tmp_path))
    for number in range(COUNT):
        name = f"{number:064x}"
        book.record("packs", name, 10, "web1", b"c" * 16, 1000 + number, vouched=True)
    book.close()
    return tmp_path


def kept(folder) -> list[str]:
    return [one for one in os.listdir(folder / "provenance") if ".damaged-" in one]


def standing(folder) -> list[int | None]:
    book = Provenance(os.fsencode(folder))
    try:
        return [book.standing("packs", f"{number:064x}") for number in range(COUNT)]
    finally:
        book.close()


def test_a_damaged_index_loses_nothing(folder):
    damage_pages(os.fsdecode(book_path(os.fsencode(folder))), "standing_of")
    assert standing(folder) == [VOUCHED] * COUNT
    assert kept(folder)
    assert standing(folder) == [VOUCHED] * COUNT
    assert len(kept(folder)) == 1


def test_what_can_be_read_around_a_damaged_page_is_kept(folder):
    path = book_path(os.fsencode(folder))
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(size // 4096 // 3 * 4096)
        file.write(b"\xa5" * 4096)
    found = standing(folder)
    assert kept(folder)
    assert COUNT // 2 < found.count(VOUCHED) <= COUNT
    assert set(found) <= {VOUCHED, None}


def test_a_file_that_is_no_database_is_replaced(folder):
    path = book_path(os.fsencode(folder))
    with open(path, "r+b") as file:
        file.write(b"\xa5" * 4096)
    assert standing(folder) == [None] * COUNT
    assert kept(folder)


def test_damage_that_is_noticed_while_it_is_open_says_what_to_do(folder):
    book = Provenance(os.fsencode(folder))
    damage_pages(os.fsdecode(book_path(os.fsencode(folder))))
    with pytest.raises(StoreError, match="restart the storage daemon"):
        book.usage()
    book.close()
