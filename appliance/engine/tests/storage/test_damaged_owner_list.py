"""A damaged owner list is made anew of what can be read, and the damaged one is kept."""

from __future__ import annotations

import os

import pytest

from kit.damaged_file import damage_pages
from strongroom.base.errors import StoreError
from strongroom.storage.owner_list import FALSE, UNVERIFIED, VERIFIED, OwnerList, owner_list_path

COUNT = 3000


@pytest.fixture
def folder(tmp_path):
    owner_list = OwnerList(os.fsencode(tmp_path))
    for number in range(COUNT):
        name = f"{number:064x}"
        owner_list.record("packs", name, 10, "web1", b"c" * 16, 1000 + number, verified=True)
    owner_list.close()
    return tmp_path


def test_what_is_left_of_a_deletion_verifies_no_later_object(tmp_path):
    owner_list = OwnerList(os.fsencode(tmp_path))
    name = "ab" * 32
    owner_list.record("packs", name, 10, "web1", b"c" * 16, 1000, verified=True)
    assert not owner_list.claim("packs", name, 10, "web2", b"d" * 16, 2000)
    assert owner_list.standing("packs", name) == UNVERIFIED
    owner_list.judge("packs", (name,), FALSE)
    assert not owner_list.claim("packs", name, 10, "web2", b"d" * 16, 2000)
    assert owner_list.standing("packs", name) == FALSE
    owner_list.close()


def kept(folder) -> list[str]:
    return [one for one in os.listdir(folder / "provenance") if ".damaged-" in one]


def standing(folder) -> list[int | None]:
    owner_list = OwnerList(os.fsencode(folder))
    try:
        return [owner_list.standing("packs", f"{number:064x}") for number in range(COUNT)]
    finally:
        owner_list.close()


def test_a_damaged_index_loses_nothing(folder):
    damage_pages(os.fsdecode(owner_list_path(os.fsencode(folder))), "standing_of")
    assert standing(folder) == [VERIFIED] * COUNT
    assert kept(folder)
    assert standing(folder) == [VERIFIED] * COUNT
    assert len(kept(folder)) == 1


def test_what_can_be_read_around_a_damaged_page_is_kept(folder):
    path = owner_list_path(os.fsencode(folder))
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(size // 4096 // 3 * 4096)
        file.write(b"\xa5" * 4096)
    found = standing(folder)
    assert kept(folder)
    assert COUNT // 2 < found.count(VERIFIED) <= COUNT
    assert set(found) <= {VERIFIED, None}


def test_a_file_that_is_no_database_is_replaced(folder):
    path = owner_list_path(os.fsencode(folder))
    with open(path, "r+b") as file:
        file.write(b"\xa5" * 4096)
    assert standing(folder) == [None] * COUNT
    assert kept(folder)


def test_damage_that_is_noticed_while_it_is_open_says_what_to_do(folder):
    owner_list = OwnerList(os.fsencode(folder))
    damage_pages(os.fsdecode(owner_list_path(os.fsencode(folder))))
    with pytest.raises(StoreError, match="restart"):
        owner_list.usage()
    owner_list.close()
