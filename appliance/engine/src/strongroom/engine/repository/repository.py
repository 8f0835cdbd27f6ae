"""A repository: its store, its configuration and a key, and operations that need all three.

Who writes does so as a client: `for_client`. A put key is one client's; the other keys write as
whichever client is named.

Order of writes: packs, index, then (after `Store.sync`) the snapshot. A listed snapshot is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

import msgspec

from strongroom.base import clock
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    LeaseError,
    ObjectMissingError,
    RepositoryExistsError,
    RepositoryNotFoundError,
    RightError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.engine.content.ciphers import CIPHER_NAMES, NONE, parse_encryption
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.configuration import (
    LOCK_VERSION,
    VERSION,
    Config,
    decode_config,
    encode_config,
    find_key,
)
from strongroom.engine.repository.kept_notes import KeptNotes
from strongroom.engine.repository.keys.roles import (
    Key,
    PutKey,
    RestoreKey,
    new_restore_key,
    required_appliance_key,
    required_reading_key,
    required_restore_key,
)
from strongroom.engine.repository.keys.wrapping import Argon2Cost, WrapInfo, wrap_info, wrap_key
from strongroom.engine.repository.leases import APPLIANCE, Holder, Lease
from strongroom.engine.repository.read_caches import ReadCaches, RecentlyUsed
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import (
    Snapshot,
    decode_snapshot,
    list_snapshots,
    read_snapshot,
    write_snapshot,
)
from strongroom.engine.stores.at_once import most_together
from strongroom.engine.stores.capabilities import ListsAhead, Series, copy_ahead, together
from strongroom.engine.stores.object_lock import LockRule, LocksObjects
from strongroom.engine.stores.store import Kind, Store

if TYPE_CHECKING:
    from strongroom.engine.repository.blocks import BlockReader
    from strongroom.engine.repository.index.block_rows import BlockPlaces, PlacesByClient
    from strongroom.engine.repository.index.index import Index
    from strongroom.engine.repository.packs import PackFooter, PackWriter

DEFAULT_CACHE_BYTES = 32 << 20
_SNAPSHOT_BYTES = 4 << 20


class Repository:
    """An open repository; for one process, `reopen` after a fork."""

    def __init__(
        self,
        store: Store,
        config: Config,
        key: Key,
        client: PutKey | None = None,
        cache_folder: bytes | None = None,
    ) -> None:
        """Use `create` or `open`. client: as whom it writes, None where that was not chosen.

        cache_folder: where what was read of the index is kept, None for nowhere.
        """
        self.store = store
        self.config = config
        self.key = key
        self.client = key if isinstance(key, PutKey) else client
        self.cache_folder = cache_folder
        self.cipher = parse_encryption(config.encryption)
        # One that was listed just now is wanted with its pages next.
        self._read_snapshots: RecentlyUsed[str, bytes] = RecentlyUsed(_SNAPSHOT_BYTES, len)

    @classmethod
    def create(
        cls,
        store: Store,
        passphrase: bytes | None,
        *,
        encryption: str = "auto",
        label: str = "",
        cost: Argon2Cost | None = None,
        lock: LockRule | None = None,
    ) -> Repository:
        """Make a repository; RepositoryExistsError where there is one.

        Without a passphrase (only with encryption "none") its keys are plain in the configuration.
        lock: how objects are locked; UsageError where the store is none that can.
        """
        cipher = parse_encryption(encryption)
        if passphrase is None and cipher != NONE:
            raise UsageError("an encrypted repository needs a passphrase")
        if lock is not None:
            locking = store.capability(LocksObjects)
            if locking is None:
                raise UsageError(
                    f"{printable(store.location)} cannot lock objects; only a bucket of an object "
                    "store can: s3://BUCKET/PREFIX"
                )
            locking.lock_by(lock)
        store.prepare()
        if any(True for _ in store.list("config")):
            raise _exists(store)
        key = new_restore_key()
        config = Config(
            version=VERSION if lock is None else LOCK_VERSION,
            id=key.repository_id.hex(),
            restore_public=key.restore_public.hex(),
            encryption=CIPHER_NAMES[cipher],
            created_ns=clock.now_ns(),
            secrets=(key.private + key.secret).hex() if passphrase is None else None,
            lock_seconds=0 if lock is None else lock.seconds,
            lock_mode="" if lock is None else lock.mode,
        )
        repository = cls(store, config, key)
        if passphrase is not None:
            repository.add_passphrase(passphrase, label, cost)
        # The configuration makes it a repository, so it is written last and only once.
        store.sync()
        if not store.put_new("config", "config", encode_config(config, key)):
            raise _exists(store)
        store.sync()
        return repository

    @classmethod
    def open(
        cls,
        store: Store,
        secret: bytes | Key | None,
        meanwhile: Callable[[], object] | None = None,
        *,
        cache_folder: bytes | None = None,
        views: bool = False,
    ) -> Repository:
        """Open with a passphrase, a key, or None where the repository has no passphrase.

        meanwhile: called while a key is computed from the passphrase, a tenth of a second.
        views: for a command that reads a snapshot and stores nothing. What it asks next is asked
        at the same time: of tombstones a writer must see those of after it took its lease.
        RepositoryNotFoundError, WrongKeyError, UnknownFormatError, or DamageError when the
        configuration is not what was written.
        """
        # Without a secret one may have to be asked for, and what was listed before would be old.
        ahead = store.capability(ListsAhead) if views and secret is not None else None
        early: tuple[Kind, ...] = ("snapshots",)
        if isinstance(secret, bytes):
            early = ("keys", "snapshots")

        def read() -> bytes:
            return store.get("config", "config")

        try:
            data = read() if ahead is None else ahead.list_ahead(early, read)
        except ObjectMissingError as error:
            raise RepositoryNotFoundError(
                f"there is no repository at {store.location}; mount its disk, or make one with "
                "strongroom init"
            ) from error
        stored = decode_config(data)

        def find() -> Key:
            return find_key(store, stored.config, secret, meanwhile)

        # After the snapshots: what one of these needs is in the index by then.
        key = find() if ahead is None else ahead.list_ahead(("tombstones", "index"), find)
        if not stored.is_of(key):
            raise DamageError(
                f"the configuration of {store.location} was changed: restore the file config from "
                "a copy, and find out who changed it"
            )
        rule, locking = stored.config.lock_rule, store.capability(LocksObjects)
        if rule is not None and locking is not None:
            locking.lock_by(rule)
        return cls(store, stored.config, key, cache_folder=cache_folder)

    @property
    def encrypted(self) -> bool:
        """Whether the store can't read what it holds."""
        return self.cipher != NONE

    @property
    def restore_key(self) -> RestoreKey:
        """The key if it can read, else KeyRightError."""
        return required_restore_key(self.key)

    def reopen(self) -> Repository:
        """The same repository for a forked process."""
        return Repository(
            self.store.reopen(), self.config, self.key, self.client, self.cache_folder
        )

    def for_client(self, name: str, generation: int = 0) -> Repository:
        """The same repository for writing as a client; it shares the store.

        KeyRightError where the key is another client's, UsageError for a name no one can have.
        """
        client = self.key.put_key(name, generation)
        return Repository(self.store, self.config, self.key, client, self.cache_folder)

    def for_all_clients(self) -> Repository:
        """The same repository for maintenance, which sees what all clients have; shares the store.

        KeyRightError with a client's put key.
        """
        return Repository(
            self.store,
            self.config,
            required_appliance_key(self.key),
            cache_folder=self.cache_folder,
        )

    @property
    def writer(self) -> PutKey:
        """As whom it writes; KeyRightError where `for_client` was not called."""
        if self.client is None:
            raise KeyRightError("name the client that this is written for")
        return self.client

    def copy_ahead(self) -> Repository | None:
        """The same for a process that is about to be forked, if its connection exists already.

        The parent drops it without `close`.
        """
        store = copy_ahead(self.store)
        if store is None:
            return None
        return Repository(store, self.config, self.key, self.client, self.cache_folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what the store holds open."""
        self.store.close()

    def lease(self, host: str, process_id: int, purpose: str) -> Lease:
        """A lease for a job that will write; take it before loading the index.

        It is the client's, or the appliance's where none was chosen.
        """
        holder = Holder(host, process_id, purpose, clock.now_ns(), ())
        owner = APPLIANCE if self.client is None else self.client.client_id
        return Lease(self.store, self.key, self.cipher, owner, holder)

    def load_index(self, *, chunks: bool = False, owner: bytes | None = None) -> Index:
        """The whole index in memory, for jobs over all of it; to look things up: `kept_index`.

        owner: only of what this client's snapshots may refer to; by default of the chosen client's.
        """
        from strongroom.engine.repository.index.index import Index

        if owner is None and self.client is not None:
            owner = self.client.client_id
        return Index.load(self.store, self.key, owner, chunks=chunks)

    def kept_index(self) -> PlacesByClient:
        """Where the blocks of clients are, for anyone who looks some up; read when it is asked."""
        from strongroom.engine.repository.index.kept_index import KeptIndexes

        return KeptIndexes(self.store, self.key, self.cache_folder)

    def new_pack(self, kind: int, owner: bytes | None = None) -> PackWriter:
        """Begin a pack of KIND_DATA or KIND_LISTING, for the client or another owner."""
        from strongroom.engine.repository.packs import PackWriter

        owner = self.writer.client_id if owner is None else owner
        return PackWriter(self.store, self.key, owner, kind, self.cipher)

    def block_reader(
        self, blocks: BlockPlaces, cache: int | ReadCaches = DEFAULT_CACHE_BYTES
    ) -> BlockReader:
        """Reads blocks of a client; KeyRightError with a put key. `cache`: see BlockReader."""
        from strongroom.engine.repository.blocks import BlockReader

        return BlockReader(self.store, required_reading_key(self.key), blocks, cache)

    def reader_of(
        self, snapshot: Snapshot, index: PlacesByClient, cache_bytes: int = DEFAULT_CACHE_BYTES
    ) -> BlockReader:
        """Reads what a snapshot refers to; KeyRightError with a put key."""
        return self.block_reader(index.of_client(snapshot.owner), cache_bytes)

    def write_index(self, footers: Sequence[PackFooter], superseded: Sequence[str] = ()) -> None:
        """Store the index of packs that were published, an object for each owner.

        superseded: objects of the one owner of these packs that it replaces.
        """
        from strongroom.engine.repository.index.objects import write_index_object

        by_owner: dict[bytes, list[PackFooter]] = {}
        for footer in footers:
            by_owner.setdefault(footer.owner, []).append(footer)
        for owner, mine in by_owner.items():
            write_index_object(self.store, self.key, owner, mine, superseded, self.cipher)

    def commit(self, snapshot: Snapshot, lease: Lease) -> Snapshot:
        """Make everything durable, then the snapshot; LeaseError when the lease has ended."""
        self.store.sync()
        # After the sync, which may take long, and directly before the snapshot becomes visible.
        lease.require()
        stamped = msgspec.structs.replace(snapshot, server_ns=lease.store_time_ns)
        written = write_snapshot(self.store, self.writer, stamped, self.cipher)
        try:
            lease.confirm()
        except LeaseError as error:
            # The machine was suspended in between, and a prune ignored our lease.
            try:
                self.store.delete("snapshots", written.id)
            except RightError:
                raise LeaseError(
                    f"{error}; snapshot {written.id[:8]} may lack data, and this key cannot remove "
                    f"it: run `strongroom forget {written.id[:8]}` where the repository is kept"
                ) from error
            raise
        return written

    def conclude(self, finish: Callable[[], Snapshot], lease: Lease) -> Snapshot:
        """Commit the snapshot that `finish` returns once it has written the rest.

        Like `commit`, and the lease is released: its holder has nothing more to do. A distant
        store gets the whole series at once, and stops where something fails.
        """
        series: Series | None = None
        try:
            with together(self.store) as series:
                snapshot = finish()
                if series is None:
                    return self.commit(snapshot, lease)
                # Writing the rest may have taken long. A renewal after the series would recreate
                # the lease that the series releases.
                lease.stop_renewing()
                self.store.sync()
                lease.renew_in(series)
                # The last renewal of the lease is what we know of the store's time.
                stamped = msgspec.structs.replace(snapshot, server_ns=lease.store_time_ns)
                before = len(series)
                written = write_snapshot(self.store, self.writer, stamped, self.cipher)
                lease.end_in(series)
        except ObjectMissingError as error:
            if series is None or not series.done:
                raise
            if series.done <= before:
                raise lease.lost() from error
            # The machine was suspended in between, and a prune ignored our lease.
            self.store.delete("snapshots", written.id)
            raise lease.missed() from error
        lease.ended()
        return written

    def snapshots(self, set_aside: SetAside | None = None, *, anew: bool = False) -> list[Snapshot]:
        """Every snapshot without its pages, the oldest first; with a put key its client's.

        set_aside: takes those that cannot be read; see `list_snapshots`. What was read before is
        in the cache. anew: it is read from the store all the same, where something is removed or
        left out because a snapshot is there: it may be damaged since.
        """
        notes = None if anew else KeptNotes(self.cache_folder, self.key, "snapshots")
        kept = self._read_snapshots if most_together(self.store) > 1 else None
        return list_snapshots(self.store, self.key, set_aside=set_aside, notes=notes, kept=kept)

    def snapshot(self, name: str) -> Snapshot:
        """One snapshot by its whole id, with its pages; KeyRightError with a put key."""
        data = self._read_snapshots.get(name)
        if data is None:
            return read_snapshot(self.store, self.restore_key, name, pages=True)
        return decode_snapshot(self.restore_key, name, data, pages=True)

    def passphrases(self) -> list[tuple[str, WrapInfo]]:
        """Name and description of each wrapped key."""
        infos = sorted(self.store.list("keys"), key=lambda info: info.name)
        return [(info.name, wrap_info(self.store.get("keys", info.name))) for info in infos]

    def add_passphrase(
        self, passphrase: bytes, label: str = "", cost: Argon2Cost | None = None
    ) -> str:
        """Wrap the restore key under one more passphrase, durably; the wrap's name."""
        wrapped = wrap_key(self.restore_key, passphrase, label, cost or Argon2Cost())
        # A digest, so that check can detect damage.
        name = object_name(wrapped)
        self.store.put_durable("keys", name, wrapped)
        return name

    def remove_passphrase(self, name: str) -> None:
        """Remove a wrapped key by its name or the beginning of it, but not the last one."""
        names = [info.name for info in self.store.list("keys")]
        fitting = [item for item in names if name and item.startswith(name)]
        if len(fitting) != 1:
            raise UsageError(f"{len(fitting)} keys begin with {name!r}; see strongroom key list")
        if len(names) == 1:
            raise UsageError("this is the last key; without it nothing can be restored")
        self.store.delete("keys", fitting[0])
        self.store.sync()


def _exists(store: Store) -> RepositoryExistsError:
    return RepositoryExistsError(f"there is a repository at {store.location} already")
