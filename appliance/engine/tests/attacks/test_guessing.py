"""Somebody guesses what is in another client's file, and looks whether the guess is right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.kept import loaded_table
from kit.offering_site import OfferingSite
from kit.tiny_backup import new_repository
from strongroom.base.errors import KeyRightError
from strongroom.engine.content.digests import CHUNK_ID_SIZE, chunk_id
from strongroom.engine.repository.packs import read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

PINS = [f"pin={number:04}\n".encode() for number in range(10_000)]
PIN = PINS[4711]


@pytest.fixture
def site(folder: Path) -> Iterator[OfferingSite]:
    repository = new_repository(LocalStore(str(folder / "repository")))
    yield OfferingSite(repository)
    repository.close()


def store_pin(site: OfferingSite, place: Path, mode: int) -> bytes:
    """web1 backs up a file with its PIN; returns all chunk ids of web1's packs."""
    file = place / "usr/lib/door.conf"
    file.parent.mkdir(parents=True)
    file.write_bytes(PIN)
    file.chmod(mode)
    report = site.back_up(place, host="web1", below=(str(place / "usr"),))
    assert report.snapshot is not None
    entries = [
        *site.entries(report.snapshot.owner),
        *site.entries(report.snapshot.owner, listings=True),
    ]
    return b"".join(entry.chunk_ids for entry in entries)


def confirmed(site: OfferingSite, stored: bytes) -> list[bytes]:
    """The guesses that web2 confirms with all keys of its put key, if it sees web1's chunk ids."""
    client = site.repository.key.put_key("web2").client
    seen = {stored[at : at + CHUNK_ID_SIZE] for at in range(0, len(stored), CHUNK_ID_SIZE)}
    keys = {client.own.chunk_key, client.common.chunk_key}
    return [pin for pin in PINS if any(chunk_id(key, pin) in seen for key in keys)]


def test_no_guess_about_a_private_file_is_confirmed(site: OfferingSite, public_folder: Path):
    """Not even by a client that got hold of another's opened index."""
    assert confirmed(site, store_pin(site, public_folder, 0o640)) == []


def test_a_guess_about_an_offered_file_is_confirmed_once_its_chunk_ids_are_seen(
    site: OfferingSite, public_folder: Path
):
    """What docs/security.md says about sharing: anyone who sees the ids can try content."""
    assert confirmed(site, store_pin(site, public_folder, 0o644)) == [PIN]


@pytest.mark.parametrize("mode", [0o640, 0o644])
def test_a_client_sees_nothing_of_what_another_offers_until_it_is_shared(
    site: OfferingSite, public_folder: Path, mode: int
):
    store_pin(site, public_folder, mode)
    store = site.repository.store
    web2 = Repository.open(store, site.repository.key.put_key("web2"))
    table = loaded_table(web2)
    keys = web2.writer.client
    for key in (keys.own.chunk_key, keys.common.chunk_key):
        assert table.claim(b"".join(chunk_id(key, pin) for pin in PINS)) == {}
    for info in store.list("packs"):
        with pytest.raises(KeyRightError):
            read_footer(store, web2.key, bytes.fromhex(info.name))
