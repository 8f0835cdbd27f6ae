"""A store in a folder behind SFTP, for hosts without Strongroom: storage boxes, a NAS.

The layout is that of a local store. An object is written to a temporary file (`tmp.` and random
digits), put on the disk (fsync@openssh.com), and linked to its name (hardlink@openssh.com), which
fails where the name is taken; so no name is torn, and none overwritten. A server without hard links
must refuse to rename a file to a name that is taken, which `prove` tries. A lease is replaced by
posix-rename@openssh.com: at once, but whatever is there, as in a local store.

Times are the server's, in whole seconds. Any thread may use it, one at a time on the connection.
An operation whose connection breaks is done again as a whole over another one: names of files that
are open there mean nothing on another connection, so an operation keeps to the one it began with.
"""

from __future__ import annotations

import os
import stat
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import (
    ConnectionLostError,
    DamageError,
    ObjectMissingError,
    ProtocolError,
    RepositoryNotFoundError,
    StoreError,
)
from strongroom.base.printable import printable
from strongroom.engine.stores import sftp_client as sftp
from strongroom.engine.stores.capabilities import own_capability
from strongroom.engine.stores.gathered_writer import GatheredWriter
from strongroom.engine.stores.local_place import require_no_others
from strongroom.engine.stores.local_root import (
    NOT_OBJECTS,
    TEMPORARY_PREFIX,
    kind_folder,
    object_path,
)
from strongroom.engine.stores.patience import PATIENCE_SECONDS, Patience
from strongroom.engine.stores.place import SftpLocation
from strongroom.engine.stores.sftp_client import (
    Answer,
    Attributes,
    Request,
    SftpClient,
    require_done,
    text,
)
from strongroom.engine.stores.shared_counts import Traffic
from strongroom.engine.stores.store import KINDS, Kind, ObjectInfo

_Capability = TypeVar("_Capability")
_Result = TypeVar("_Result")
_Words = ParamSpec("_Words")
_Entries = list[tuple[bytes, Attributes]]

# Folders that are read at once; servers have a limit on open handles.
_FOLDERS_AT_ONCE: Final = 16
_LISTING_ATTEMPTS: Final = 20
_ABANDONED_SECONDS: Final = 86400
_LARGEST_BYTES: Final = 1 << 40
_LEAST_PART_BYTES: Final = 4 << 10
# Kinds whose folders every repository has. A server that came back without its disk must not seem
# to have no snapshots: a prune that continues would remove what they need.
_ALWAYS_THERE: Final = frozenset(("packs", "index", "snapshots", "leases"))


class _Attempt(threading.local):
    """What a thread does: over which connection, and whether it has done it before."""

    client: SftpClient | None = None
    is_repeated = False


def _repeated(
    method: Callable[Concatenate[SftpStore, _Words], _Result],
) -> Callable[Concatenate[SftpStore, _Words], _Result]:
    """A method that is done again if its connection breaks."""

    @wraps(method)
    def repeat(store: SftpStore, /, *words: _Words.args, **options: _Words.kwargs) -> _Result:
        return store.repeat(lambda: method(store, *words, **options))

    return repeat


class SftpStore:
    """A `strongroom.engine.stores.store.Store`; connects at first use."""

    def __init__(self, place: SftpLocation, *, is_known: bool = False) -> None:
        """is_known: the server has answered before."""
        self._place = place
        self._is_known = is_known
        self._attempt = _Attempt()
        self.traffic: Traffic | None = None
        self._root = os.fsencode(place.path)
        self._lock = threading.Lock()
        self._connected: SftpClient | None = None
        self._process = 0
        self._pack_folders: set[bytes] = set()
        # One follows the other on the connection, while the reader does something else.
        self.most_together, self.has_read_ahead, self.takes_changes = 2, False, False

    @property
    def location(self) -> str:
        """As the user named it."""
        return self._place.text

    @_repeated
    def prepare(self) -> None:
        """Make the folder and those of kinds, and try the server's promises.

        RepositoryExistsError where the folder holds something else.
        """
        (entries,) = self._entries([self._root])
        names = {name for name, _ in entries} - {b".", b".."}
        if b"config" not in names:
            require_no_others(self.location, names)
        parts = self._root.split(b"/")
        for count in range(1, len(parts) + 1):
            if folder := b"/".join(parts[:count]):
                self._make_folder(folder)
        for kind in KINDS:
            if kind != "config":
                self._make_folder(self._path(kind_folder(kind)))
        self.prove()

    @_repeated
    def prove(self) -> None:
        """Raise StoreError if the server cannot keep a repository."""
        client = self._client()
        shown = printable(self.location)
        if sftp.REPLACING_RENAME not in client.extensions:
            raise StoreError(
                f"the server at {shown} cannot keep a repository: it does not replace a file in "
                "one step (posix-rename@openssh.com), so leases could not be renewed"
            )
        first, second = self._temporary(b"leases"), self._temporary(b"leases")
        # Such a name is no lease for a prune that lists them, and no other prove has it.
        name = self._temporary(b"leases")
        try:
            self._write(first, b"first")
            self._write(second, b"second")
            self._publish(first, name)
            if self._publish(second, name) or self._read(name, 0, 5) != b"first":
                raise StoreError(
                    f"the server at {shown} cannot keep a repository: it overwrites a file when "
                    "another gets its name, so two jobs could overwrite each other's objects"
                )
            (entries,) = self._entries([self._path(b"leases")])
            listed = [one for found, one in entries if found == os.path.basename(name)]
            if not listed or not stat.S_ISREG(listed[0].mode) or listed[0].size_bytes != 5:
                raise StoreError(
                    f"the server at {shown} cannot keep a repository: it does not list a file that "
                    "was stored just now, with its kind and size"
                )
        finally:
            for path in (first, second, name):
                self._remove(path)

    def writer(self, kind: Kind) -> GatheredWriter:
        """Begin an object that is gathered in memory."""
        return GatheredWriter(self, kind)

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object."""
        if not self.put_new(kind, name, data) and self.get(kind, name) != bytes(data):
            raise StoreError(f"{self._shown(kind, name)} exists with other content; run check")

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object; each is on the server's disk when it is stored."""
        self.put(kind, name, data)

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Store a small object unless the name is taken."""
        return self.create(kind, name, bytes(data))

    @_repeated
    def create(self, kind: Kind, name: str, data: bytes | bytearray) -> bool:
        """Give an object its name unless that is taken."""
        path = self._object_path(kind, name)
        folder = os.path.dirname(path)
        if kind == "packs" and folder not in self._pack_folders:
            self._make_folder(folder)
            # A pack is on the disk only if its folder is.
            self._sync_folder(self._path(b"packs"))
            self._pack_folders.add(folder)
        temporary = self._temporary(kind_folder(kind))
        try:
            self._write(temporary, data)
            is_new = self._publish(temporary, path)
            self._sync_folder(folder)
        except BaseException:
            self._remove(temporary)
            raise
        # An attempt whose answer was lost may have stored it: if it is ours, then that one did.
        return is_new or (self._attempt.is_repeated and self.get(kind, name) == data)

    @_repeated
    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object, replacing the one of that name at once."""
        path = self._object_path(kind, name)
        temporary = self._temporary(kind_folder(kind))
        try:
            self._write(temporary, bytes(data))
            answers = self._ask(
                Request(sftp.EXTENDED, text(sftp.REPLACING_RENAME, temporary, path))
            )
            require_done(answers, f"replace {self._shown(kind, name)}")
            self._sync_folder(os.path.dirname(path))
        except BaseException:
            self._remove(temporary)
            raise

    @_repeated
    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object or a part of it."""
        try:
            return self._read(self._object_path(kind, name), offset, length)
        except ObjectMissingError as error:
            raise self._missing(kind, name) from error
        except DamageError as error:
            raise DamageError(f"{self._shown(kind, name)} {error}; run check") from error

    @_repeated
    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object in bytes, and the time of its file."""
        (answer,) = self._ask(Request(sftp.LSTAT, text(self._object_path(kind, name))))
        if answer.is_missing:
            raise self._missing(kind, name)
        require_done([answer], f"look up {self._shown(kind, name)}")
        return _info(name, _attributes(answer))

    @_repeated
    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Every object of a kind, complete before the first is returned."""
        found: dict[str, ObjectInfo] = {}
        for _ in range(_LISTING_ATTEMPTS):
            now = self._listed(kind)
            # As in a local store: of two objects of which one replaces the other, one is listed.
            if now.keys() == found.keys():
                return iter(now.values())
            found = now
        return iter(found.values())

    @_repeated
    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object; a missing one is not an error."""
        (answer,) = self._ask(Request(sftp.REMOVE, text(self._object_path(kind, name))))
        if not answer.is_missing:
            require_done([answer], f"delete {self._shown(kind, name)}")

    @_repeated
    def remove_abandoned(self) -> int:
        """Remove temporary files that are a day old by the server's clock."""
        mine = self._temporary(b"leases")
        self._write(mine, b"")
        folders = [self._path(kind_folder(kind)) for kind in KINDS]
        files = [
            (os.path.join(folder, name), attributes)
            for folder, entries in zip(folders, self._entries(folders), strict=True)
            for name, attributes in entries
            if name.startswith(TEMPORARY_PREFIX)
        ]
        now = next((found.modified_seconds for path, found in files if path == mine), 0)
        old = [path for path, one in files if one.modified_seconds < now - _ABANDONED_SECONDS]
        self._ask(*(Request(sftp.REMOVE, text(path)) for path in (mine, *old)))
        return len(old)

    def sync(self) -> None:
        """Every object is on the server's disk when it is stored."""

    def unverified(self, kind: Kind) -> frozenset[str]:
        """None: every writer with access to the folder is trusted."""
        return frozenset()

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """See strongroom.engine.stores.capabilities."""
        return own_capability(self, wanted)

    def reopen(self) -> SftpStore:
        """The same folder with its own connection."""
        again = SftpStore(self._place, is_known=self._is_known)
        again.traffic = self.traffic
        return again

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            connected, self._connected = self._connected, None
        if connected is not None and self._process == os.getpid():
            connected.close()

    def repeat(self, work: Callable[[], _Result]) -> _Result:
        """Do an operation over a connection, and again over another if that breaks."""
        attempt = self._attempt
        if attempt.client is not None:
            # A part of one.
            return work()
        patience = Patience(self.location)
        attempt.is_repeated = False
        while True:
            try:
                attempt.client = self._connection()
                return work()
            except ConnectionLostError as error:
                if not self._is_known:
                    # A name, a key or a port that is wrong stays wrong.
                    raise
                failure = error
            finally:
                attempt.client = None
            patience.wait(failure, PATIENCE_SECONDS)
            attempt.is_repeated = True

    def _connection(self) -> SftpClient:
        with self._lock:
            is_ours = self._process == os.getpid()
            if self._connected is not None and is_ours and self._connected.is_broken:
                self._connected.close()
                self._connected = None
            if self._connected is None or not is_ours:
                self._connected = SftpClient(self._place.host, self.traffic)
                self._process = os.getpid()
                self._is_known = True
            return self._connected

    def _client(self) -> SftpClient:
        return self._attempt.client or self._connection()

    def _ask(self, *requests: Request) -> Sequence[Answer]:
        return self._client().ask(requests)

    def _write(self, path: bytes, data: bytes | bytearray) -> None:
        """Write a new file, and put it on the disk."""
        client = self._client()
        flags = struct.pack(">I", sftp.CREATING)
        (opened,) = client.ask([Request(sftp.OPEN, text(path) + flags + sftp.PRIVATE_FILE)])
        if opened.is_missing:
            raise self._no_repository()
        require_done([opened], f"write to {self._shown_path(path)}")
        handle = text(opened.data)
        view, part = memoryview(data), client.part_bytes
        requests = [
            Request(sftp.WRITE, handle + struct.pack(">Q", at), view[at : at + part])
            for at in range(0, len(view), part)
        ]
        if sftp.FSYNC in client.extensions:
            requests.append(Request(sftp.EXTENDED, text(sftp.FSYNC) + handle))
        answers = client.ask([*requests, Request(sftp.CLOSE, handle)])
        require_done(answers, f"write to {self._shown_path(path)}")

    def _publish(self, temporary: bytes, path: bytes) -> bool:
        """Give a temporary file its name unless that is taken; the temporary name goes."""
        if sftp.HARD_LINK in self._client().extensions:
            words = text(sftp.HARD_LINK, temporary, path)
            published, _ = self._ask(
                Request(sftp.EXTENDED, words), Request(sftp.REMOVE, text(temporary))
            )
        else:
            (published,) = self._ask(Request(sftp.RENAME, text(temporary, path)))
        if not published.status:
            return True
        self._remove(temporary)
        # Servers say only that it failed: whether because the name is taken is seen here.
        (there,) = self._ask(Request(sftp.LSTAT, text(path)))
        if there.attributes is None:
            require_done([published], f"write {self._shown_path(path)}")
        return False

    def _sync_folder(self, folder: bytes) -> None:
        """Put the names in a folder on the disk, where the server lets us."""
        if sftp.FSYNC not in self._client().extensions:
            return
        words = text(folder) + struct.pack(">I", sftp.READING) + sftp.NO_ATTRIBUTES
        (opened,) = self._ask(Request(sftp.OPEN, words))
        if not opened.status:
            handle = text(opened.data)
            self._ask(
                Request(sftp.EXTENDED, text(sftp.FSYNC) + handle), Request(sftp.CLOSE, handle)
            )

    def _remove(self, path: bytes) -> None:
        # What stays goes after a day; what went wrong before is what the caller has to know.
        with suppress(StoreError):
            self._ask(Request(sftp.REMOVE, text(path)))

    def _read(self, path: bytes, offset: int, length: int | None) -> bytes:
        """Raises ObjectMissingError, DamageError where there are fewer bytes."""
        opened, wanted = self._opened(path, offset, length)
        pieces = [self._read_open(opened, path, offset, wanted)]
        left = wanted - len(pieces[0])
        while left:
            # A server may give fewer than asked for: what follows is asked for again.
            opened, _ = self._opened(path, offset + wanted - left, left)
            pieces.append(self._read_open(opened, path, offset + wanted - left, left))
            left -= len(pieces[-1])
        return b"".join(pieces)

    def _opened(self, path: bytes, offset: int, length: int | None) -> tuple[Answer, int]:
        """A file opened, and how many bytes to read."""
        flags = struct.pack(">I", sftp.READING)
        found, opened = self._ask(
            Request(sftp.LSTAT, text(path)),
            Request(sftp.OPEN, text(path) + flags + sftp.NO_ATTRIBUTES),
        )
        if found.is_missing or opened.is_missing:
            self._close(opened)
            raise ObjectMissingError(f"{self._shown_path(path)} is missing")
        require_done([found, opened], f"read {self._shown_path(path)}")
        there = _attributes(found).size_bytes - offset
        wanted = max(0, there) if length is None else length
        # Checked before anything is allocated: lengths come out of stored objects.
        if there < wanted or wanted > _LARGEST_BYTES:
            self._close(opened)
            raise DamageError(
                f"is truncated: {wanted} bytes wanted at {offset}, {max(0, there)} available"
            )
        return opened, wanted

    def _read_open(self, opened: Answer, path: bytes, offset: int, wanted: int) -> bytes:
        """What comes of a part before the server gives fewer than asked for; closes the file."""
        client, handle = self._client(), text(opened.data)
        end = offset + wanted
        places = range(offset, end, client.part_bytes)
        sizes = [min(client.part_bytes, end - place) for place in places]
        requests = [
            Request(sftp.READ, handle + struct.pack(">QI", place, size))
            for place, size in zip(places, sizes, strict=True)
        ]
        # The file is closed in the same round trip.
        *answers, _ = client.ask([*requests, Request(sftp.CLOSE, handle)])
        require_done(answers, f"read {self._shown_path(path)}")
        pieces: list[bytes] = []
        for answer, size in zip(answers, sizes, strict=True):
            pieces.append(answer.data[:size])
            if len(answer.data) < size:
                # Else what came behind it would be thrown away again, each time.
                client.part_bytes = max(_LEAST_PART_BYTES, len(answer.data))
                break
        data = b"".join(pieces)
        if wanted and not data:
            raise DamageError(f"shrank to {offset} bytes while it was read")
        return data

    def _close(self, opened: Answer) -> None:
        if opened.data:
            self._ask(Request(sftp.CLOSE, text(opened.data)))

    def _listed(self, kind: Kind) -> dict[str, ObjectInfo]:
        top = self._path(kind_folder(kind))
        (entries,) = self._entries([top], must_exist=kind in _ALWAYS_THERE)
        every: Sequence[_Entries] = (entries,)
        if kind == "packs":
            every = self._entries(
                [os.path.join(top, name) for name, _ in entries if len(name) == 2]
            )
        found: dict[str, ObjectInfo] = {}
        for entries in every:
            for name, attributes in entries:
                if name.startswith(NOT_OBJECTS) or (kind == "config" and name != b"config"):
                    continue
                if stat.S_ISREG(attributes.mode):
                    shown = os.fsdecode(name)
                    found[shown] = _info(shown, attributes)
        return found

    def _entries(self, folders: Sequence[bytes], *, must_exist: bool = False) -> Sequence[_Entries]:
        """What is in each folder; in one that is not there nothing, or RepositoryNotFoundError."""
        found: deque[_Entries] = deque()
        for start in range(0, len(folders), _FOLDERS_AT_ONCE):
            some = folders[start : start + _FOLDERS_AT_ONCE]
            opened = self._ask(*(Request(sftp.OPENDIR, text(folder)) for folder in some))
            for folder, answer in zip(some, opened, strict=True):
                if not answer.is_missing:
                    require_done([answer], f"list {self._shown_path(folder)}")
                elif must_exist:
                    raise self._no_repository()
            found += self._entries_of(opened)
        return tuple(found)

    def _entries_of(self, opened: Sequence[Answer]) -> Sequence[_Entries]:
        found: Sequence[_Entries] = tuple([] for _ in opened)
        unread = [place for place, answer in enumerate(opened) if answer.data]
        while unread:
            requests = [Request(sftp.READDIR, text(opened[place].data)) for place in unread]
            answers = self._ask(*requests)
            for place, answer in zip(tuple(unread), answers, strict=True):
                if answer.is_end:
                    unread.remove(place)
                elif not answer.status and not answer.names:
                    # Asked again it might say so again and again.
                    raise ProtocolError("the SFTP server gives neither names nor their end")
                else:
                    require_done([answer], "list a folder")
                    found[place].extend(answer.names)
        self._ask(*(Request(sftp.CLOSE, text(one.data)) for one in opened if one.data))
        return found

    def _make_folder(self, folder: bytes) -> None:
        (answer,) = self._ask(Request(sftp.MKDIR, text(folder) + sftp.PRIVATE_FOLDER))
        if answer.status:
            (there,) = self._ask(Request(sftp.LSTAT, text(folder)))
            if there.attributes is None:
                if answer.is_missing:
                    raise self._no_repository()
                require_done([answer], f"make {self._shown_path(folder)}")

    def _path(self, below: bytes) -> bytes:
        return self._root + b"/" + below if below else self._root

    def _object_path(self, kind: Kind, name: str) -> bytes:
        return self._path(object_path(kind, name))

    def _temporary(self, folder: bytes) -> bytes:
        name = TEMPORARY_PREFIX + clock.random_bytes(12).hex().encode()
        return self._path(os.path.join(folder, name))

    def _no_repository(self) -> RepositoryNotFoundError:
        return RepositoryNotFoundError(
            f"there is no repository at {printable(self.location)}; make one with strongroom init"
        )

    def _missing(self, kind: Kind, name: str) -> ObjectMissingError:
        return ObjectMissingError(
            f"{self._shown(kind, name)} is missing; run check to see what needs it"
        )

    def _shown(self, kind: Kind, name: str) -> str:
        return f"{kind} {printable(name)} at {printable(self.location)}"

    def _shown_path(self, path: bytes) -> str:
        return f"{printable(path)} at {printable(self.location)}"


def _attributes(answer: Answer) -> Attributes:
    if answer.attributes is None:
        raise StoreError("the SFTP server does not say how large a file is")
    return answer.attributes


def _info(name: str, attributes: Attributes) -> ObjectInfo:
    return ObjectInfo(name, attributes.size_bytes, attributes.modified_seconds * clock.SECOND_NS)
