"""A snapshot is walked before anybody relies on it; what does not fit is told."""

import os
from contextlib import nullcontext

import msgspec
import pytest

from kit.forged_snapshot import NO_BLOCK, file_row, forge, stored_page
from kit.memory_store import MemoryStore
from kit.passing_store import PassingStore
from kit.tiny_backup import TinyBackup, back_up, new_repository
from strongroom.base.progress import NullProgress
from strongroom.engine.backup.backup import back_up as whole_backup
from strongroom.engine.backup.options import BackupOptions
from strongroom.engine.check.walk import SoundPages, Walker, walk
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.packs import KIND_DATA, KIND_LISTING, read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Totals
from strongroom.engine.sources.registry import open_source
from strongroom.engine.stores.local import LocalStore
from strongroom.sources.source import SourceRequest

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}


@pytest.fixture
def house():
    made = new_repository(MemoryStore())
    yield made.for_all_clients()
    made.close()


def client(house, name="web1"):
    return Repository.open(house.store, house.key.put_key(name))


def walked(house, snapshot, known=None):
    whole = house.snapshot(snapshot.id)
    return Walker(house, house.load_index(), known).walk(whole)


def data_block(house, name):
    """A block with content of a client, and how many chunks it has."""
    owner = house.key.client_id(name)
    for info in house.store.list("packs"):
        footer = read_footer(house.store, house.key, bytes.fromhex(info.name))
        if footer.owner == owner and footer.kind == KIND_DATA:
            return footer.blocks[0].block_id, len(footer.blocks[0].chunk_lengths)
    raise AssertionError("it has stored no content")


def test_what_a_backup_makes_is_sound(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("source")
    place = LocalStore(str(tmp_path_factory.mktemp("repository")))
    house = new_repository(place).for_all_clients()
    for number in range(5000):
        (tmp_path / f"file-{number:04}").write_bytes(b"content %d" % (number % 7))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "hole").write_bytes(b"x")
    os.truncate(tmp_path / "hole", 5_000_000)
    source = open_source("files", SourceRequest((os.fsencode(tmp_path),), b"", {}))
    options = BackupOptions(host="web1", level="full")
    report = whole_backup(client(house), source, options, lambda: nullcontext(NullProgress()))
    assert walked(house, report.snapshot) == ""
    listing = house.snapshot(report.snapshot.id).listing
    assert listing.content_bytes == report.size_bytes > 5_000_000


@pytest.mark.parametrize("what", ["nowhere", "of another", "beyond"])
def test_a_reference_that_leads_to_nothing_of_the_clients_is_found(house, what):
    back_up(house, FILES, "web2")
    back_up(house, FILES, "web1")
    theirs, _ = data_block(house, "web2")
    mine, count = data_block(house, "web1")
    row = {
        "nowhere": file_row(b"f", NO_BLOCK),
        "of another": file_row(b"f", theirs),
        "beyond": file_row(b"f", mine, count),
    }[what]
    assert walked(house, forge(client(house), file_row(b"f", mine, count - 1))) == ""
    fault = walked(house, forge(client(house), row))
    assert ("in no pack of its client" in fault) == (what != "beyond")
    assert ("refers to chunk" in fault) == (what == "beyond")


@pytest.mark.parametrize(
    "totals",
    [
        Totals(files=2, content_bytes=10),
        Totals(files=1, content_bytes=123456789),
        Totals(files=1, directories=1, content_bytes=10),
        Totals(files=1, others=1, content_bytes=10),
    ],
)
def test_totals_that_are_not_those_of_the_rows_are_found(house, totals):
    back_up(house, FILES, "web1")
    block, _ = data_block(house, "web1")
    fault = walked(house, forge(client(house), file_row(b"f", block), totals=totals))
    assert fault.startswith("it claims ")


def test_a_page_that_is_not_there_or_no_page_or_another_or_twice_is_found(house):
    back_up(house, FILES, "web1")
    repository = client(house)
    block, _ = data_block(house, "web1")
    rows = [file_row(name, block) for name in (b"a", b"b")]
    assert walked(house, forge(repository, *rows)) == ""

    def pages(change):
        def changed(snapshot):
            return msgspec.structs.replace(snapshot, pages=tuple(change(*snapshot.pages)))

        return walked(house, forge(repository, *rows, change=changed))

    def other(page, **fields):
        return msgspec.structs.replace(page, **fields)

    no_page = stored_page(repository, b"no listing page")
    assert "in no pack" in pages(lambda a, b: (a, other(b, block_id=NO_BLOCK)))
    assert "listing page" in pages(lambda a, b: (a, other(b, block_id=no_page)))
    assert "listed as" in pages(lambda a, b: (a, other(b, first_name=b"c")))
    assert "listed as" in pages(lambda a, b: (a, other(b, row_count=2)))
    assert "listed as" in pages(lambda a, b: (a, other(b, content_bytes=11)))
    assert "out of order" in pages(lambda a, b: (b, a))
    assert "out of order" in pages(lambda a, _: (a, a))


class CountsBlocks(PassingStore):
    """Counts what is read of packs."""

    def get(self, kind, name, offset=0, length=None):
        self.reads = self.__dict__.setdefault("reads", 0) + (kind == "packs")
        return super().get(kind, name, offset, length)


def test_pages_that_were_sound_are_not_read_again_while_their_packs_are_there(house):
    first = back_up(house, FILES, "web1")
    second = back_up(house, FILES, "web1")
    known = SoundPages()
    assert walked(house, first, known) == ""
    known = SoundPages.decoded(known.encoded())
    store = CountsBlocks(house.store, lambda _: None)
    watched = Repository(store, house.config, house.key)
    assert walked(watched, second, known) == ""
    assert store.__dict__.get("reads", 0) == 0
    assert walked(watched, second) == ""
    assert store.reads
    # What they refer to may have gone since.
    index = house.load_index()
    (data,) = (pack for pack in index.packs() if pack.kind == KIND_DATA)
    house.store.delete("packs", data.pack_id.hex())
    assert "in no pack" in walked(house, second, known)


def test_what_is_remembered_is_bounded_and_of_one_client_only(house):
    snapshots = {name: back_up(house, FILES, name) for name in ("web1", "web2")}
    known = SoundPages(limit_bytes=1)
    assert walked(house, snapshots["web1"], known) == ""
    assert SoundPages.decoded(known.encoded()).encoded() == SoundPages().encoded()
    known = SoundPages()
    assert walked(house, snapshots["web1"], known) == ""
    page = house.snapshot(snapshots["web1"].id).pages[0].block_id
    assert known.get(house.key.client_id("web1"), page) is not None
    assert known.get(house.key.client_id("web2"), page) is None
    assert SoundPages.decoded(b"damaged").encoded() == SoundPages().encoded()


def test_another_copy_counts_where_the_first_has_lost_its_pack(house):
    repository = client(house)
    one, two = TinyBackup(repository), TinyBackup(repository)
    one.store(FILES)
    two.store(FILES)
    made = one.commit()
    two.commit()
    packs = [pack for pack in house.load_index().packs() if pack.kind == KIND_DATA]
    assert len(packs) == 2
    house.store.delete("packs", packs[0].pack_id.hex())
    assert walked(house, made) == ""
    house.store.delete("packs", packs[1].pack_id.hex())
    assert "in no pack" in walked(house, made)


def test_a_snapshot_is_sound_after_prune_has_moved_its_blocks(house):
    kept = back_up(house, {b"a": b"1" * 5000, b"b": b"2" * 5000}, "web1")
    gone = back_up(house, {b"c": os.urandom(90_000)}, "web1")
    known = SoundPages()
    assert walked(house, kept, known) == ""
    house.store.delete("snapshots", gone.id)
    thorough = PruneOptions(
        repack_below=1.0, max_unused=0.0, grace_seconds=0.0, spare_seconds=-1e6, threads=1
    )
    prune(house, thorough, NullProgress())
    assert walked(house, kept, known) == ""
    assert walk(house, house.load_index(), house.snapshot(kept.id)) == ""
    assert KIND_LISTING in {pack.kind for pack in house.load_index().packs()}
