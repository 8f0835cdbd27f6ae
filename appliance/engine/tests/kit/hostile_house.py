"""A repository in memory of two clients, of which one stores what it likes, and every job on it.

Nothing that the one seals with its own keys may end a job in a way that no one foresaw, or cost the
other client anything.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from io import BytesIO
from typing import Any

from kit.memory_store import MemoryStore
from kit.observed_restore import Seen
from kit.sealed_by_hand import changed_index, changed_pack, changed_snapshot, lease_object, store
from kit.tiny_backup import THOROUGH, back_up, new_repository, read_back
from strongroom.base.clock import local_text
from strongroom.base.errors import StrongroomError
from strongroom.base.progress import NullProgress
from strongroom.cli.entry_view import entry_line, entry_object
from strongroom.cli.snapshot_choice import snapshot_object
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.check.vouch import vouch
from strongroom.engine.copy.copy import CopyOptions, copy_snapshots, to_be_copied
from strongroom.engine.inspect.archive import write_archive
from strongroom.engine.inspect.diff import SnapshotComparison
from strongroom.engine.inspect.find import Criteria, Finder
from strongroom.engine.inspect.stats import repository_stats, snapshot_stats
from strongroom.engine.mount.files import MountedFiles
from strongroom.engine.mount.repository import MountedRepository
from strongroom.engine.prune.forget import ForgetOptions, forget
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.prune.retention import RetentionRules
from strongroom.engine.repair.repair import RepairOptions, repair
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.leases import list_leases
from strongroom.engine.repository.listing.page import decode_page
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import Snapshot, was_stored_unreadable
from strongroom.engine.restore.options import RestoreOptions
from strongroom.engine.restore.restore import restore
from strongroom.engine.rows.views import views
from strongroom.engine.share.share import ShareOptions, share
from strongroom.engine.stores.store import Kind

FILES = {b"one": b"first" * 300, b"two": bytes(range(256)) * 20}
ATTACKER, VICTIM = "web1", "web2"
_NUMBERS = (0, 1, 2, 23, 24, 25, 127, 128, 255, 256, 65535, 1 << 31, (1 << 32) - 1, 1 << 63)
KINDS = ("envelope", "pages", "page", "footer", "index", "chunks", "lease")


class JudgedStore(MemoryStore):
    """A store in memory that knows what no one verified, as a storage daemon does."""

    def __init__(self, objects: Any = None, unsure: Any = None, false: Any = None) -> None:
        super().__init__(objects)
        self.unsure: set[tuple[str, str]] = set() if unsure is None else unsure
        self.was_false: set[str] = set() if false is None else false

    def unverified(self, kind: Kind) -> frozenset[str]:
        """Of `unsure`."""
        return frozenset(name for one, name in self.unsure if one == kind)

    def false(self, kind: Kind) -> frozenset[str]:
        """Snapshots that were found false."""
        return frozenset(self.was_false if kind == "snapshots" else ())

    def vouch(self, kind: Kind, names: Sequence[str], *, sound: bool) -> None:
        """Take a judgement."""
        for name in names:
            if sound:
                self.unsure.discard((kind, name))
            elif kind == "snapshots":
                self.was_false.add(name)

    def copy(self) -> JudgedStore:
        """One that changes by itself."""
        return JudgedStore(dict(self._objects), set(self.unsure), set(self.was_false))

    def reopen(self) -> JudgedStore:
        """Shares what is stored."""
        return JudgedStore(self._objects, self.unsure, self.was_false)


class FullDisk(BytesIO):
    """Takes as much of an archive as a test needs: a sparse file can claim to be of any size."""

    def write(self, data: Any) -> int:
        """Raise StrongroomError when it is full."""
        if self.tell() > 4 << 20:
            raise StrongroomError("the archive is larger than this test reads")
        return super().write(data)


class HostileHouse:
    """Made once; `fresh` gives a copy to store things in."""

    def __init__(self, judged: JudgedStore | None = None, key: Any = None) -> None:
        self.store = JudgedStore() if judged is None else judged
        if key is None:
            self.whole: Repository = new_repository(self.store)
            self.kept = back_up(self.whole, FILES, VICTIM)
            before = self.names()
            self.own = back_up(self.whole, FILES | {b"three": b"3" * 40}, ATTACKER)
            self.store.unsure |= self.names() - before
        else:
            self.whole = key

    def fresh(self) -> HostileHouse:
        """A copy of it."""
        from strongroom.engine.repository.repository import Repository

        judged = self.store.copy()
        made = HostileHouse(judged, Repository(judged, self.whole.config, self.whole.key))
        made.kept, made.own = self.kept, self.own
        return made

    def names(self) -> set[tuple[str, str]]:
        """Everything that a client stores."""
        kinds: tuple[Kind, ...] = ("packs", "index", "snapshots", "leases")
        return {(kind, info.name) for kind in kinds for info in self.store.list(kind)}

    @property
    def attacker(self) -> Repository:
        """As the hostile client writes."""
        return self.whole.for_client(ATTACKER)

    def add(self, kind: str, data: bytes) -> str:
        """Store an object of the hostile client, which no one has verified."""
        name = store(self.attacker, kind, data)
        self.store.unsure.add((kind, name))
        return name

    def own_object(self, kind: Kind) -> bytes:
        """An object of the hostile client, to be changed: its newest."""
        names = [name for one, name in sorted(self.store.unsure) if one == kind]
        return self.store.get(kind, names[-1])

    def add_changed(self, kind: str, change: Callable[[bytes], bytes]) -> str:
        """Store an object of which a text was changed before it was sealed."""
        key = self.attacker.writer
        if kind == "envelope":
            data = self.own_object("snapshots")
            return self.add(
                "snapshots", changed_snapshot(self.whole.restore_key, key, data, change)
            )
        if kind == "pages":
            data = self.own_object("snapshots")
            changed = changed_snapshot(self.whole.restore_key, key, data, bytes, change)
            return self.add("snapshots", changed)
        if kind == "footer":
            return self.add("packs", changed_pack(key, self.own_object("packs"), change))
        if kind == "index":
            return self.add("index", changed_index(key, self.own_object("index"), change))
        if kind == "chunks":
            return self.add("index", changed_index(key, self.own_object("index"), bytes, change))
        if kind == "lease":
            return self.add("leases", lease_object(key, change(self._lease_text())))
        return self.add_page(change(self.page()))

    def _lease_text(self) -> bytes:
        import msgspec

        from strongroom.engine.repository.leases import Holder

        return msgspec.msgpack.encode(Holder(ATTACKER, 1, "backup", 1, ("ab" * 32,)))

    def page(self) -> bytes:
        """The first page of the hostile client's snapshot."""
        snapshot = self.whole.snapshot(self.own.id)
        reader = self.whole.reader_of(snapshot, self.whole.for_all_clients().load_index())
        return reader.block(snapshot.pages[0].block_id)

    def add_page(self, raw: bytes) -> str:
        """Store a page, and a snapshot that lists it as what it is, as far as it is anything."""
        from kit.forged_snapshot import stored_page
        from kit.sealed_by_hand import snapshot_object as sealed_snapshot

        before = self.names()
        block = stored_page(self.attacker, raw)
        self.store.unsure |= self.names() - before
        first, rows, size = (b"data", b"one"), 1, 0
        totals = {"files": 1, "content_bytes": 0}
        with suppress(StrongroomError):
            groups = decode_page(raw)
            first = (groups[0].directory, groups[0].names.partition(b"\0")[0])
            rows = sum(one.row_count for one in groups)
            from strongroom.engine.rows.entry_counts import count_entries

            counts = count_entries(groups)
            size = max(0, counts.content_bytes)
            totals = {
                "files": counts.files,
                "directories": counts.directories,
                "others": counts.others,
                "content_bytes": counts.content_bytes,
            }
        fields = {"totals": totals, "paths": (b"data",), "start_ns": 10**18}
        pages = [(*first, block, rows, size)]
        return self.add("snapshots", sealed_snapshot(self.attacker.writer, fields, pages))

    def run_all(self, *, forks: bool = True) -> None:
        """Every job over all clients, then everything that is done with one snapshot.

        Fails where a job for all ends otherwise than it should, or the other client lost anything.
        forks: whether restores write files, for which they fork.
        """
        whole, quiet = self.whole.for_all_clients(), NullProgress()
        set_aside = SetAside()
        listed = whole.snapshots(set_aside)
        assert self.kept.id in {one.id for one in listed}
        for one in listed:
            snapshot_object(one)
            local_text(one.start_ns)
        for _, name in set_aside.problems:
            was_stored_unreadable(self.store, whole.key, name)
        list_leases(self.store, whole.key)
        check(whole, CheckOptions(DataSubset(), processes=1), quiet)
        repository_stats(whole, SetAside())
        found = snapshot_stats(whole, listed, quiet, SetAside())
        assert self.kept.id in {one.snapshot.id for one in found}
        share(whole, ShareOptions(1, None, dry_run=True), quiet)
        prune(whole, PruneOptions(dry_run=True), quiet)
        rules = ForgetOptions(RetentionRules(last=1), allow_remove_all=True, dry_run=True)
        forget(whole, listed, rules, quiet)
        self._copy()
        for one in listed:
            with suppress(StrongroomError):
                if one.id != self.kept.id:
                    self.read(one, forks=forks)
        self._mount()
        repair(whole, RepairOptions(processes=1, dry_run=True), quiet)
        vouch(whole, self.store, quiet)
        assert self.kept.id not in self.store.was_false
        share(whole, ShareOptions(1, None), quiet)
        prune(whole, THOROUGH, quiet)
        repair(whole, RepairOptions(processes=1), quiet)
        assert read_back(self.whole, self.kept.id) == FILES

    def text(self, kind: str) -> bytes:
        """The text of a kind as the client's own objects have it: what `add_changed` changes."""
        found: list[bytes] = []

        def look(data: bytes) -> bytes:
            found.append(data)
            return data

        self.fresh().add_changed(kind, look)
        return found[-1]

    def run_input(self, data: bytes) -> None:
        """Run every job with one object more: its kind by the first byte, then its text.

        What is restored is not written, as nothing may be forked here.
        """
        if data:
            house = self.fresh()
            house.add_changed(KINDS[data[0] % len(KINDS)], lambda _: data[1:])
            house.run_all(forks=False)

    def _copy(self) -> None:
        target = new_repository(MemoryStore())
        wanted = self.whole.snapshots(SetAside())
        missing, _ = to_be_copied(self.whole, target, wanted)
        left = SetAside()
        copied = list(
            copy_snapshots(self.whole, target, missing, CopyOptions("here"), NullProgress(), left)
        )
        assert self.kept.id in {one.original.id for one in copied}
        assert len(copied) + len(left) == len(missing)

    def read(self, listed: Snapshot, *, forks: bool) -> None:
        """List, find, compare, archive, restore and mount one snapshot. StrongroomError."""
        snapshot = self.whole.snapshot(listed.id)
        index = self.whole.for_all_clients().load_index()
        readers = ClientReaders(self.whole, index)
        reader = readers.of(snapshot.owner)
        listing = Listing(snapshot.pages, reader)
        with suppress(StrongroomError):
            for groups in listing.pages():
                for rows in groups:
                    for row in views(rows):
                        entry_object(row)
                        entry_line(row, row.path, human=True)
        with suppress(StrongroomError):
            list(Finder(Criteria(globs=(b"*o*",), largest_bytes=10**6), readers).search(snapshot))
        with suppress(StrongroomError):
            kept = self.whole.snapshot(self.kept.id)
            list(SnapshotComparison(readers, kept, snapshot).differences())
        with suppress(StrongroomError):
            write_archive(FullDisk(), listing, b"", reader, lambda *_: None)
        with tempfile.TemporaryDirectory(dir="/dev/shm") as target, suppress(StrongroomError):
            options = RestoreOptions(os.fsencode(target), processes=1, dry_run=not forks)
            restore(self.whole, snapshot, options, lambda: nullcontext(NullProgress()), Seen())

    def _mount(self) -> None:
        mounted = MountedRepository(self.whole.for_all_clients(), lambda found: found, 1 << 20)
        try:
            files = MountedFiles(mounted, lambda _: None)
            _walk(files, b"", 0)
        finally:
            mounted.close()


def _walk(files: MountedFiles, path: bytes, depth: int) -> None:
    with suppress(OSError):
        attributes = files.attributes(path)
        for value in attributes.values():
            assert -(1 << 63) <= value < 1 << 64
        with suppress(OSError):
            files.link_target(path)
        files.xattrs(path)
        files.flags(path)
        with suppress(OSError):
            handle = files.open_file(path)
            files.read(handle, 0, 10_000)
            files.seek(handle, 0, os.SEEK_HOLE)
        handle = files.open_directory(path)
        for entry in files.entries(handle, 0):
            assert 0 <= entry.inode < 1 << 64
            if depth < 6 and entry.name not in (b".", b".."):
                _walk(files, (path + b"/" + entry.name).strip(b"/"), depth + 1)
        files.close_directory(handle)


def mutated(data: bytes, seed: int) -> bytes:
    """Data changed in a few places, as `seed` says."""
    chance = random.Random(seed)
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                number = chance.choice(_NUMBERS)
                size = chance.choice((1, 2, 4, 8))
                changed[at : at + size] = number.to_bytes(16, chance.choice(("little", "big")))[
                    : size if chance.random() < 0.5 else None
                ][:size]
            case 2:
                del changed[at : at + chance.choice((1, 2, 8, 24, 100))]
            case 3:
                changed[at:at] = bytes(chance.choice((1, 4, 24, 3000)))
            case 4:
                changed[at:at] = changed[at : at + chance.choice((1, 8, 24, 200))]
            case _:
                changed[at:at] = bytes([chance.choice((0x91, 0x81, 0xDD, 0xDF, 0xC4, 0xCF))]) * 30
    return bytes(changed)
