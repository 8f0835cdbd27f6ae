"""A restore ticket as an object of the repository: sealed, verified, and of no duration."""

import os

import pytest

from kit.large_ticket import with_more_packs
from kit.tiny_backup import back_up, new_repository, read_back
from strongroom.base.errors import DamageError, ObjectMissingError, QuotaError, UnknownFormatError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, check
from strongroom.engine.content.digests import object_name
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository import ticket_objects
from strongroom.engine.repository.keys.roles import PACK_ENTRY_SIZE
from strongroom.engine.repository.restore_ticket import make_ticket, open_with_ticket
from strongroom.engine.repository.ticket_objects import (
    KEPT_SECONDS,
    LARGEST_OBJECT_BYTES,
    TicketObject,
    fetch_ticket,
    store_ticket,
)
from strongroom.engine.stores.local import LocalStore

FILES = {b"a": b"what is restored" * 1000}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "repository"


@pytest.fixture
def repository(folder):
    return new_repository(LocalStore(folder))


def age(folder, name, seconds):
    path = folder / "tickets" / name
    at = path.stat().st_mtime - seconds
    os.utime(path, (at, at))


def tickets(repository):
    return {info.name for info in repository.store.list("tickets")}


def test_a_stored_ticket_opens_its_snapshot(repository):
    snapshot = back_up(repository, FILES)
    ticket = make_ticket(repository, repository.snapshot(snapshot.id))
    large = with_more_packs(ticket, repository.writer, 300_000)
    stored = store_ticket(repository.store, large)
    assert stored.size_bytes > 300_000 * PACK_ENTRY_SIZE
    fetched = fetch_ticket(repository.store, stored)
    opened = open_with_ticket(repository.store.reopen(), repository.writer, fetched)
    assert read_back(opened, snapshot.id) == FILES


def test_nothing_of_a_ticket_is_seen_in_the_store(folder, repository):
    stored = store_ticket(repository.store, b"a key of a pack")
    again = store_ticket(repository.store, b"a key of a pack")
    assert stored.name != again.name
    data = (folder / "tickets" / stored.name).read_bytes()
    assert object_name(data) == stored.name
    assert b"a key" not in data
    with pytest.raises(DamageError):
        fetch_ticket(repository.store, TicketObject(**fields(stored) | {"key": again.key}))


def fields(stored):
    return {"name": stored.name, "size_bytes": stored.size_bytes, "key": stored.key}


def test_a_changed_object_is_refused(folder, repository):
    stored = store_ticket(repository.store, b"a ticket")
    path = folder / "tickets" / stored.name
    good = path.read_bytes()
    for place in range(0, len(good), 7):
        changed = bytearray(good)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(DamageError, match="was changed"):
            fetch_ticket(repository.store, stored)
    for other in (good[:-1], good + b"x", b""):
        path.write_bytes(other)
        with pytest.raises(DamageError, match="bytes"):
            fetch_ticket(repository.store, stored)


@pytest.mark.parametrize("head", [b"XXXX", b"SRTO\2", b"SRTO\1\0\0\0\1"])
def test_an_object_of_another_kind_or_version_is_refused(repository, head):
    data = head.ljust(100, b"\0")
    repository.store.put("tickets", object_name(data), data)
    wanted = TicketObject(name=object_name(data), size_bytes=len(data), key=bytes(32))
    with pytest.raises((DamageError, UnknownFormatError)):
        fetch_ticket(repository.store, wanted)


@pytest.mark.parametrize("size_bytes", [-1, 0, 8, LARGEST_OBJECT_BYTES + 1])
def test_a_size_that_no_ticket_has_is_refused_before_anything_is_read(repository, size_bytes):
    wanted = TicketObject(name="ab" * 32, size_bytes=size_bytes, key=bytes(32))
    with pytest.raises(DamageError, match="cannot have"):
        fetch_ticket(repository.store, wanted)


def test_a_ticket_that_is_gone_is_said_to_be(repository):
    stored = store_ticket(repository.store, b"a ticket")
    repository.store.delete("tickets", stored.name)
    with pytest.raises(ObjectMissingError, match="again"):
        fetch_ticket(repository.store, stored)


def test_a_ticket_that_no_agent_would_take_is_not_stored(repository, monkeypatch):
    monkeypatch.setattr(ticket_objects, "LARGEST_TICKET_BYTES", 10)
    with pytest.raises(QuotaError, match="fewer paths"):
        store_ticket(repository.store, bytes(11))
    assert tickets(repository) == set()


def test_what_is_left_over_goes_with_the_next_ticket(folder, repository):
    old, young = (store_ticket(repository.store, b"left") for _ in range(2))
    age(folder, old.name, KEPT_SECONDS + 60)
    age(folder, young.name, KEPT_SECONDS - 60)
    new = store_ticket(repository.store, b"new")
    assert tickets(repository) == {young.name, new.name}


def test_what_is_left_over_goes_with_a_prune_and_no_other_job_minds_it(folder, repository):
    snapshot = back_up(repository, FILES)
    old, young = (store_ticket(repository.store, b"left") for _ in range(2))
    age(folder, old.name, KEPT_SECONDS + 60)
    report = check(repository, CheckOptions(), NullProgress())
    assert (report.findings, report.notes) == ((), ())
    assert tickets(repository) == {old.name, young.name}
    prune(repository, PruneOptions(), NullProgress())
    assert tickets(repository) == {young.name}
    assert read_back(repository, snapshot.id) == FILES
