"""A ticket opens what its snapshot needs, no more, and restores as the restore key does."""

from __future__ import annotations

import os
import random
import tracemalloc
from pathlib import Path

import pytest

from engine.verify.test_verify import found as differences
from kit.hand_backup import back_up as back_up_tree
from kit.large_ticket import with_more_packs
from kit.observed_restore import run_restore
from kit.tiny_backup import back_up, new_repository, read_back
from kit.tree_compare import compare_trees
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    PathNotFoundError,
    SnapshotNotFoundError,
    UnknownFormatError,
)
from strongroom.base.progress import NullProgress
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.keys.roles import PACK_ENTRY_SIZE, new_restore_key
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.packs import PackHeader
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.restore_ticket import (
    TicketRepository,
    make_ticket,
    open_with_ticket,
)
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.scan.patterns import Patterns
from strongroom.engine.stores.local import LocalStore


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(LocalStore(str(tmp_path / "repository")))


def opened(
    repository: Repository, snapshot: Snapshot, paths: tuple[bytes, ...] = ()
) -> TicketRepository:
    """What a machine has that got a ticket and holds the put key."""
    ticket = make_ticket(repository, repository.snapshot(snapshot.id), paths)
    return open_with_ticket(repository.store.reopen(), repository.writer, ticket)


def test_a_ticket_reads_its_snapshot_and_no_other(repository):
    first = back_up(repository, {b"a": b"only in the first"})
    second = back_up(repository, {b"b": b"only in the second"})
    with_ticket = opened(repository, second)
    assert read_back(with_ticket, second.id) == {b"b": b"only in the second"}
    assert [item.id for item in with_ticket.snapshots()] == [second.id]
    with pytest.raises(SnapshotNotFoundError):
        with_ticket.snapshot(first.id)
    with pytest.raises(KeyRightError):
        _ = with_ticket.restore_key
    reader = with_ticket.reader_of(second, with_ticket.kept_index())
    for page in repository.snapshot(first.id).pages:
        with pytest.raises(KeyRightError):
            reader.chunk(page.block_id, 0)
    for rows in Listing(
        repository.snapshot(first.id).pages,
        repository.reader_of(first, repository.load_index()),
    ).rows():
        with pytest.raises(KeyRightError):
            reader.block(rows.part_blocks)
        with pytest.raises(KeyRightError):
            list(reader.blocks([rows.part_blocks]))


@pytest.mark.parametrize("has_cache", [False, True])
def test_a_ticket_for_one_client_reads_the_snapshot_of_another(repository, tmp_path, has_cache):
    files = {b"a": b"of web2", b"b": bytes(300_000)}
    of_other = back_up(repository, files, host="web2")
    back_up(repository, {b"c": b"of the receiver"})
    snapshot = repository.for_all_clients().snapshot(of_other.id)
    ticket = make_ticket(repository, snapshot, receiver=repository.writer)
    cache_folder = os.fsencode(tmp_path / "cache") if has_cache else None
    for _ in range(2):
        with_ticket = open_with_ticket(
            repository.store.reopen(), repository.writer, ticket, cache_folder
        )
        assert read_back(with_ticket, of_other.id) == files
        with_ticket.kept_index().close()


def test_packs_that_a_snapshot_shares_with_others_are_opened_too(repository):
    back_up(repository, {b"a": b"shared"})
    second = back_up(repository, {b"b": b"shared", b"c": b"its own"})
    assert read_back(opened(repository, second), second.id) == {b"b": b"shared", b"c": b"its own"}


def test_chosen_paths_open_only_what_they_need(repository):
    back_up(repository, {b"secret": b"of the first pack"})
    both = back_up(repository, {b"secret": b"of the first pack", b"wanted": b"of the second"})
    with_ticket = opened(repository, both, (b"data/wanted",))
    snapshot = with_ticket.snapshot(both.id)
    reader = with_ticket.reader_of(snapshot, with_ticket.kept_index())
    listing = Listing(snapshot.pages, reader)
    assert bytes(reader.chunk(*listing.lookup(b"data/wanted").parts[0])) == b"of the second"
    with pytest.raises(KeyRightError):
        reader.chunk(*listing.lookup(b"data/secret").parts[0])
    assert (snapshot.totals.files, snapshot.totals.content_bytes) == (1, 13)
    with pytest.raises(PathNotFoundError):
        make_ticket(repository, repository.snapshot(both.id), (b"data/missing",))


def test_a_put_key_makes_no_ticket(repository):
    snapshot = repository.snapshot(back_up(repository, {b"a": b"text"}).id)
    store = repository.store.reopen()
    with pytest.raises(KeyRightError):
        make_ticket(Repository.open(store, repository.writer), snapshot)


def test_after_a_prune_has_moved_content_a_new_ticket_is_needed(repository):
    files = {b"%d" % number: os.urandom(5000) for number in range(40)}
    old = back_up(repository, files)
    kept = back_up(repository, {b"0": files[b"0"]})
    before = opened(repository, kept)
    repository.store.delete("snapshots", old.id)
    prune(repository, PruneOptions(max_unused=0.0), NullProgress())
    with pytest.raises((KeyRightError, DamageError)):
        read_back(before, kept.id)
    assert read_back(opened(repository, kept), kept.id) == {b"0": files[b"0"]}


def test_a_restore_and_a_verify_with_a_ticket_are_as_with_the_restore_key(repository, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub" / "deep").mkdir(parents=True)
    (tree / "sub" / "big").write_bytes(os.urandom(3 << 20))
    (tree / "link").symlink_to("sub/big")
    os.link(tree / "sub" / "big", tree / "sub" / "deep" / "name")
    for number in range(300):
        (tree / "sub" / "deep" / f"{number}").write_bytes(b"%d" % number)
    os.setxattr(tree / "sub", "user.colour", b"blue")
    snapshot = back_up_tree(repository, os.fsencode(tree))
    with_ticket = opened(repository, snapshot)
    snapshot = with_ticket.snapshot(snapshot.id)
    seen = run_restore(with_ticket, snapshot, tmp_path / "restored")
    assert seen.report.is_complete
    assert not list(compare_trees(os.fsencode(tree), os.fsencode(tmp_path / "restored")))
    assert not differences(with_ticket, snapshot, tree, reads_content=True)


def test_some_paths_of_a_listing_of_many_pages_restore_alone(repository, tmp_path):
    tree = tmp_path / "tree"
    for name in ("a", "b/inner", "c", "z"):
        (tree / name).mkdir(parents=True)
    for number in range(9000):
        (tree / "a" / f"{number:05}").touch()
        (tree / "z" / f"{number:05}").touch()
    (tree / "b" / "inner" / "file").write_bytes(b"wanted")
    (tree / "c" / "other").write_bytes(b"also wanted")
    (tree / "b").chmod(0o710)
    snapshot = back_up_tree(repository, os.fsencode(tree))
    assert len(snapshot.pages) >= 3
    with_ticket = opened(repository, snapshot, (b"b", b"b/inner/file", b"c/other"))
    trimmed = with_ticket.snapshot(snapshot.id)
    assert len(trimmed.pages) < len(snapshot.pages)
    target = tmp_path / "restored"
    chosen = Patterns([(b"/b", False), (b"/c/other", False)])
    seen = run_restore(with_ticket, trimmed, target, includes=chosen)
    assert seen.report.is_complete
    assert {str(path.relative_to(target)) for path in target.rglob("*")} == {
        "b", "b/inner", "b/inner/file", "c", "c/other",
    }  # fmt: skip
    assert (target / "b").stat().st_mode & 0o777 == 0o710
    assert (target / "c/other").read_bytes() == b"also wanted"
    alone = run_restore(with_ticket, trimmed, tmp_path / "alone", subpath=b"b/inner")
    assert alone.report.is_complete
    assert (tmp_path / "alone/file").read_bytes() == b"wanted"


def test_a_ticket_that_is_damaged_or_foreign_is_refused(repository, tmp_path):
    snapshot = back_up(repository, {b"a": b"text"})
    ticket = make_ticket(repository, repository.snapshot(snapshot.id))
    put_key = repository.writer
    for wrong in (b"", b"SRTK", ticket[:-1], ticket + b"x", b"X" + ticket[1:]):
        with pytest.raises(DamageError):
            open_with_ticket(repository.store, put_key, wrong)
    for place in (5, 20, 22, 30, len(ticket) - 1):
        changed = bytearray(ticket)
        changed[place] ^= 1
        with pytest.raises(DamageError):
            open_with_ticket(repository.store, put_key, bytes(changed))
    with pytest.raises(UnknownFormatError):
        open_with_ticket(repository.store, put_key, ticket[:4] + b"\2" + ticket[5:])
    with pytest.raises(DamageError):
        open_with_ticket(repository.store, new_restore_key().put_key("host"), ticket)
    other = new_repository(LocalStore(str(tmp_path / "other")))
    with pytest.raises(DamageError):
        open_with_ticket(other.store, other.writer, ticket)


@pytest.mark.parametrize("count", [400_000, pytest.param(2_000_000, marks=pytest.mark.slow)])
def test_a_ticket_for_very_many_packs_opens_in_little_memory(repository, count):
    snapshot = back_up(repository, {b"a": b"one of very many"})
    put_key = repository.writer
    ticket = make_ticket(repository, repository.snapshot(snapshot.id))
    large = with_more_packs(ticket, put_key, count, seed=4)
    tracemalloc.start()
    with_ticket = open_with_ticket(repository.store.reopen(), put_key, large)
    kept_bytes, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 1.3 * count * PACK_ENTRY_SIZE
    assert most_bytes < 6 * count * PACK_ENTRY_SIZE
    assert read_back(with_ticket, snapshot.id) == {b"a": b"one of very many"}
    entries = random.Random(4).randbytes(count * PACK_ENTRY_SIZE)
    header = PackHeader(bytes(56), 0, 0, repository.writer.client_id, bytes(32))
    for start in range(0, len(entries), 997 * PACK_ENTRY_SIZE):
        entry = entries[start : start + PACK_ENTRY_SIZE]
        pack_id, pack_key, footer_key = entry[:32], entry[32:64], entry[64:]
        assert with_ticket.key.pack_key(header, pack_id) == pack_key
        assert with_ticket.key.footer_key(header, pack_id) == footer_key
    with pytest.raises(KeyRightError):
        with_ticket.key.pack_key(header, bytes(32))
    forged = bytearray(large)
    forged[len(forged) // 2] ^= 1
    with pytest.raises(DamageError):
        open_with_ticket(repository.store.reopen(), put_key, bytes(forged))
