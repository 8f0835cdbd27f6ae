"""Leases: how prune knows which writers are running.

A lease is an object that its holder renews every minute. One that was not renewed for half an
hour, by the store's clock, has ended, and so has one whose process is known to be dead: prune
removes it, and a holder that is still running detects that before it commits. A lease names the
tombstones known to its holder when it began; it may still use packs of others, so prune sweeps a
tombstone only when every existing lease names it.

What each operation takes, and what blocks it (docs/design/isolation.md has the pairs):

    operation                 takes                    waits for, or is refused by
    backup, copy into         a lease                  nothing; cannot commit once it has ended
    restore, mount, ls, find, nothing                  nothing; reads again or fails where a sweep
      diff, stats, verify,                             removed what it reads (after an hour of
      copy from                                        grace; at once if there is no other lease)
    check                     a lease, none where the  nothing
                              store is read-only or full
    vouch                     a lease                  nothing
    forget                    nothing                  nothing
    prune, mark and repack    a lease                  nothing
    prune, sweep              that and SWEEP_LEASE     leases that do not name the tombstone, and
                                                       grace; skipped while SWEEP_LEASE is held
    repair                    a lease and SWEEP_LEASE  refused while SWEEP_LEASE is held
    lock                      nothing                  nothing
    catalog rebuild           nothing                  nothing
    adding, removing keys     nothing                  nothing; adds before it removes

    magic "SRLS" | version u8 | 0 u8 x 3 | owner (16): a client, or zeros for the appliance
    | sealed under the lease key of that owner: msgpack of Holder

`Lease` is used from two threads, its own that renews and the job's: one lock guards the state.
"""

from __future__ import annotations

import os
import struct
import threading
from types import TracebackType
from typing import Annotated, NamedTuple, Self

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decode_object
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    LeaseError,
    ObjectMissingError,
    StoreError,
    UnknownFormatError,
)
from strongroom.engine.content.ciphers import open_object, seal_object
from strongroom.engine.repository.keys.owners import CLIENT_ID_SIZE
from strongroom.engine.repository.keys.roles import Key, required_appliance_key
from strongroom.engine.stores.at_once import read_each
from strongroom.engine.stores.capabilities import Series
from strongroom.engine.stores.store import Store

RENEWAL_SECONDS = 60.0
EXPIRY_SECONDS = 1800.0
# A client's lease ends at this age however often it is renewed.
MOST_AGE_SECONDS = 7 * 86400.0
# A lease begins by its holder's clock if the store's does not differ by more.
_CLOCKS_DIFFER_NS = 60 * SECOND_NS

_MAGIC = b"SRLS"
_VERSION = 1
_HEAD = struct.Struct("<4sB3x16s")
_LABEL = b"strongroom lease 1"
# It names the tombstones of a prune or a few, 64 letters each.
_SIZE_LIMIT = 4 << 20
# The owner of the appliance's own leases.
APPLIANCE = bytes(CLIENT_ID_SIZE)


class Holder(msgspec.Struct, frozen=True):
    """The holder of a lease, for display, and the tombstones known when it began."""

    host: str
    process_id: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    purpose: str
    started_ns: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    tombstones: tuple[str, ...]
    # Boot and process namespace: if both are ours, a dead holder can be detected.
    processes: str = ""


class ListedLease(NamedTuple):
    """A lease in the store; `holder` is None where it can't be read.

    owner: the id of its client, APPLIANCE, or b"" where it does not even say that.
    """

    name: str
    owner: bytes
    renewed_ns: int
    holder: Holder | None

    @property
    def may_be_a_clients(self) -> bool:
        """Whether it is none of the appliance, or cannot be read and only says that it is."""
        return self.holder is None or self.owner != APPLIANCE


class Lease:
    """A lease held by this process; a context manager that releases it."""

    def __init__(
        self,
        store: Store,
        key: Key,
        cipher: int,
        owner: bytes,
        holder: Holder,
        *,
        renewal_seconds: float = RENEWAL_SECONDS,
        expiry_seconds: float = EXPIRY_SECONDS,
        name: str = "",
    ) -> None:
        """`owner`: for whom the job writes. `holder`: its tombstones are filled in here.

        `name`: of a lease that only one may hold at a time; LeaseError when somebody does.
        """
        self._store = store
        self._owner = owner
        self._lease_key = _lease_key(key, owner)
        self._cipher = cipher
        self._renewal_seconds = renewal_seconds
        self._expiry_ns = int(expiry_seconds * SECOND_NS)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._lost = ""
        self.name = name or clock.random_bytes(16).hex()
        # The lease must exist before the tombstones are listed: a prune that marks packs after
        # the listing sees a lease that does not name its tombstone, and waits.
        holder = msgspec.structs.replace(holder, processes=_visible_processes())
        self._holder = msgspec.structs.replace(holder, tombstones=())
        if not store.put_new("leases", self.name, self._encoded()):
            raise LeaseError(f"another job holds the lease {self.name}: wait until it has ended")
        known = tuple(sorted(info.name for info in store.list("tombstones")))
        # Its age is judged by the store's clock: a machine without a clock may begin in 1970.
        self._renewed_ns = begun_ns = store.info("leases", self.name).modified_ns
        if abs(begun_ns - holder.started_ns) <= _CLOCKS_DIFFER_NS:
            begun_ns = holder.started_ns
        if known or begun_ns != holder.started_ns:
            self._holder = msgspec.structs.replace(holder, tombstones=known, started_ns=begun_ns)
            store.replace("leases", self.name, self._encoded())
        self._thread: threading.Thread | None = None
        self._is_given_back = False

    @property
    def holder(self) -> Holder:
        """The content of the lease."""
        return self._holder

    @property
    def store_time_ns(self) -> int:
        """The store's clock at the latest renewal."""
        with self._lock:
            return self._renewed_ns

    def start_renewing(self) -> None:
        """Renew in the background until `end`; call it after any fork."""
        self._thread = threading.Thread(target=self._renew_often, name="lease", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Renew now; LeaseError if the lease had ended: then nothing may be committed."""
        with self._lock:
            self._renew()

    def confirm(self) -> None:
        """LeaseError when the lease no longer exists: then the commit must be undone.

        While it exists no prune has ignored us. A prune that does so removes it first and lists
        snapshots afterwards, so it sees a snapshot that was written before this check.
        """
        with self._lock:
            try:
                self._store.info("leases", self.name)
            except ObjectMissingError as error:
                raise self.missed() from error

    def missed(self) -> LeaseError:
        """The error for a lease that was gone after a commit, which is undone."""
        self._lost = "it was removed as abandoned"
        return LeaseError(
            f"the lease {self.name} of this job ended while it committed; the commit was taken "
            "back: run the same command again"
        )

    def stop_renewing(self) -> None:
        """End the renewing thread, if any."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def renew_in(self, series: Series) -> None:
        """Renew as part of a series, which ends here if the lease has ended.

        The store refuses to renew one that was not renewed in time; no reply is read here.
        """
        with self._lock:
            if self._lost:
                raise self.lost()
            series.require("leases", self.name)
            self._store.replace("leases", self.name, self._encoded())

    def end_in(self, series: Series) -> None:
        """Confirm and release the lease as part of a series."""
        series.require("leases", self.name)
        self._store.delete("leases", self.name)

    def ended(self) -> None:
        """Record that the series of `end_in` succeeded."""
        self._is_given_back = True

    def end(self) -> None:
        """Release the lease; no effect if released already."""
        self.stop_renewing()
        if not self._is_given_back:
            with self._lock:
                self._store.delete("leases", self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.end()
        except StoreError:
            # A lease that can't be released expires; the error of the job matters more.
            if error is None:
                raise

    def _renew_often(self) -> None:
        while not self._ended.wait(self._renewal_seconds):
            try:
                self.require()
            except LeaseError:
                return
            except StoreError:
                # The store may recover before the lease ends; commit checks again.
                continue

    def _renew(self) -> None:
        if not self._lost:
            try:
                self._store.info("leases", self.name)
                self._store.replace("leases", self.name, self._encoded())
                renewed_ns = self._store.info("leases", self.name).modified_ns
            except ObjectMissingError:
                self._lost = "it was removed as abandoned"
            else:
                # Both times are the store's, so neither a wrong clock here nor a suspended
                # machine makes an ended lease look alive.
                if renewed_ns - self._renewed_ns > self._expiry_ns:
                    self._lost = "it was not renewed in time"
                self._renewed_ns = renewed_ns
        if self._lost:
            raise self.lost()

    def lost(self) -> LeaseError:
        """The error for a lease that was found ended before anything was committed."""
        return LeaseError(
            f"the lease {self.name} of this job has ended ({self._lost or 'it was removed'}), so "
            "the data it refers to may have been removed; nothing was committed: run the same "
            "command again"
        )

    def _encoded(self) -> bytes:
        text = msgspec.msgpack.encode(self._holder)
        sealed = seal_object(self._lease_key, _LABEL, text, self._cipher)
        return _HEAD.pack(_MAGIC, _VERSION, self._owner) + sealed


def list_leases(store: Store, key: Key, *, without: str = "") -> list[ListedLease]:
    """Every lease in the store, ended ones too; `without` the caller's own."""
    leases = []
    infos = {info.name: info for info in store.list("leases") if info.name != without}
    for name, data in read_each(store, list(infos), lambda name: store.get("leases", name)):
        holder: Holder | None = None
        owner = b""
        try:
            if isinstance(data, Exception):
                raise data
            owner = _owner_of(name, data)
            holder = _read_holder(key, name, owner, data)
        except ObjectMissingError:
            continue
        except (DamageError, UnknownFormatError, KeyRightError):
            # It still blocks a sweep until it ends, anyone who holds it.
            pass
        leases.append(ListedLease(name, owner, infos[name].modified_ns, holder))
    return leases


def has_ended(
    lease: ListedLease,
    store_time_ns: int,
    expiry_seconds: float = EXPIRY_SECONDS,
    *,
    own: bytes = APPLIANCE,
) -> bool:
    """Whether a lease was not renewed in time, or its holder is a process of ours that is dead.

    `store_time_ns` is from the caller's own lease. own: the id of this machine's own client; what
    leases of other clients say of processes is not believed.
    """
    if store_time_ns - lease.renewed_ns > int(expiry_seconds * SECOND_NS):
        return True
    holder = lease.holder
    # A client that renews forever would keep space from being freed. One that lies about its
    # beginning bars no old tombstones either: see prune.sweep.
    if holder is None:
        return False
    age_ns = store_time_ns - holder.started_ns
    if lease.owner != APPLIANCE and age_ns > int(MOST_AGE_SECONDS * SECOND_NS):
        return True
    return (
        lease.owner in (APPLIANCE, own)
        and bool(holder.processes)
        and holder.processes == _visible_processes()
        and not _is_alive(holder.process_id)
    )


def _visible_processes() -> str:
    """Distinguishes processes visible to us from those of other machines, boots and containers."""
    try:
        return f"{clock.boot_id()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It exists, but we may not signal it.
        return True
    return True


def _lease_key(key: Key, owner: bytes) -> bytes:
    if owner == APPLIANCE:
        return required_appliance_key(key).lease_key
    return key.owner(owner).lease_key


def _owner_of(name: str, data: bytes) -> bytes:
    if data[:4] != _MAGIC or len(data) < _HEAD.size:
        raise DamageError(f"lease {name} does not begin as leases do; run repair")
    if data[4] != _VERSION:
        raise UnknownFormatError(f"lease {name} has version {data[4]}; update strongroom")
    owner: bytes = _HEAD.unpack_from(data)[2]
    if data[: _HEAD.size] != _HEAD.pack(_MAGIC, _VERSION, owner):
        raise DamageError(f"lease {name} does not begin as leases do; run repair")
    return owner


def _read_holder(key: Key, name: str, owner: bytes, data: bytes) -> Holder:
    text = open_object(_lease_key(key, owner), _LABEL, memoryview(data)[_HEAD.size :])
    return decode_object(text, Holder, f"lease {name}", _SIZE_LIMIT)
