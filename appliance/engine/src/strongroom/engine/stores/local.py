"""A store in a directory of the local file system.

    config  keys/NAME  packs/xx/NAME  index/NAME  snapshots/NAME  leases/NAME  tombstones/NAME
    tickets/NAME

An object is written to a temporary file (`tmp.` and random digits) in the folder of its kind and
then linked to its name, so a name is never torn.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from typing_extensions import Buffer

from strongroom.base.errors import DamageError, StoreError, StrongroomError
from strongroom.engine.stores.capabilities import own_capability
from strongroom.engine.stores.direct_file import BUFFER_BYTES
from strongroom.engine.stores.local_place import RESERVE, require_own_folder
from strongroom.engine.stores.local_root import (
    NOT_OBJECTS,
    TEMPORARY_PREFIX,
    LocalRoot,
    kind_folder,
    object_path,
)
from strongroom.engine.stores.local_writer import LocalWriter, remove_if_abandoned
from strongroom.engine.stores.servable import Space, WritingWay
from strongroom.engine.stores.store import KINDS, Kind, ObjectInfo

_Capability = TypeVar("_Capability")

# Retries of a listing while the folder keeps changing; then the last listing is used.
_LISTING_ATTEMPTS = 20
# Of a pack: a digest in hexadecimal digits.
_NAME_LENGTH = 64
# Enough for leases and tombstones: what a prune writes before it has removed anything.
RESERVE_BYTES = 4 << 20
_RESERVES_OF_ROOM = 4


class LocalStore:
    """Objects as files below `path`; a `strongroom.engine.stores.servable.ServableStore`."""

    def __init__(self, path: bytes | str, write_buffer_bytes: int = BUFFER_BYTES) -> None:
        """`write_buffer_bytes`: each object that is being written holds twice as much."""
        self._root = LocalRoot(os.path.abspath(os.fsencode(path)))
        self._write_buffer_bytes = write_buffer_bytes

    @property
    def location(self) -> str:
        """The path of the directory."""
        return os.fsdecode(self._root.path)

    def prepare(self) -> None:
        """Make the directory and a folder for each kind, where they are not there.

        RepositoryExistsError where the directory holds something else.
        """
        require_own_folder(self._root.path)
        try:
            os.makedirs(self._root.path, mode=0o700, exist_ok=True)
            for kind in KINDS:
                if kind != "config":
                    self._root.make_directory(kind_folder(kind))
        except OSError as error:
            self._root.fail("make", b"", error)

    def writer(self, kind: Kind) -> LocalWriter:
        """Begin an object in a temporary file."""
        return LocalWriter(self._root, kind, self._write_buffer_bytes)

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object."""
        self._put_whole(kind, name, data, durable=False)

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object and wait until file and folder are on the disk."""
        self._put_whole(kind, name, data, durable=True)

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Store a small object unless the name is taken."""
        writer = self.writer(kind)
        try:
            writer.write(data)
            return writer.publish(name)
        finally:
            writer.abort()

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object durably, replacing the one of that name."""
        writer = self.writer(kind)
        try:
            writer.write(data)
            writer.publish_over(name)
        finally:
            writer.abort()

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object or a part of it."""
        with self.outgoing(kind, name) as found:
            there = found.size_bytes - offset
            return found.read(offset, max(0, there) if length is None else length)

    def read_ahead(self, kind: Kind, name: str, offset: int, length: int) -> None:
        """Begin to read a part of an object."""
        with contextlib.suppress(StrongroomError, OSError), self.outgoing(kind, name) as found:
            os.posix_fadvise(found.descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def incoming(self, kind: Kind, way: WritingWay | None = None) -> LocalWriter:
        """Begin an object in a temporary file; as `writer`, with the full interface."""
        if way is None:
            return self.writer(kind)
        return LocalWriter(self._root, kind, way.buffer_bytes, way.submit)

    @contextmanager
    def outgoing(self, kind: Kind, name: str) -> Iterator[OpenFile]:
        """The file of an object."""
        path = object_path(kind, name)
        try:
            descriptor = os.open(
                path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._root.descriptor
            )
        except FileNotFoundError as error:
            self._root.fail_missing(path, error)
        except OSError as error:
            self._root.fail("open", path, error)
        try:
            try:
                size = os.fstat(descriptor).st_size
            except OSError as error:
                self._root.fail("look up", path, error)
            yield OpenFile(self._root, path, descriptor, size)
        finally:
            os.close(descriptor)

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object in bytes and the time of its file."""
        path = object_path(kind, name)
        try:
            status = os.stat(path, dir_fd=self._root.descriptor, follow_symlinks=False)
        except FileNotFoundError as error:
            self._root.fail_missing(path, error)
        except OSError as error:
            self._root.fail("look up", path, error)
        return ObjectInfo(name, status.st_size, status.st_mtime_ns)

    def space(self) -> Space:
        """Space in the file system."""
        try:
            status = os.fstatvfs(self._root.descriptor)
        except OSError as error:
            self._root.fail("look up", b"", error)
        return Space(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)

    def release_reserve(self) -> None:
        """Remove the reserve if the disk has little more."""
        if self.space().free_bytes < RESERVE_BYTES:
            with contextlib.suppress(OSError):
                os.unlink(RESERVE, dir_fd=self._root.descriptor)

    def make_reserve(self) -> None:
        """Make the reserve of a repository where there is none, and room for several."""
        with contextlib.suppress(OSError, StrongroomError):
            root = self._root.descriptor
            # Without its disk the folder is the empty place where that is mounted.
            os.stat(b"config", dir_fd=root)
            if self.space().free_bytes < _RESERVES_OF_ROOM * RESERVE_BYTES:
                return
            descriptor = os.open(RESERVE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=root)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            except OSError:
                os.unlink(RESERVE, dir_fd=root)
            finally:
                os.close(descriptor)

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Every object of a kind."""
        if kind == "config":
            yield from self._list_folder(b"", only=b"config")
        elif kind == "packs":
            for folder in self._names_in(b"packs"):
                if len(folder) == 2:
                    yield from self._list_folder(b"packs/" + folder)
        else:
            yield from self._list_folder(kind_folder(kind))

    def pack_ids(self) -> bytes:
        """The ids of all packs that are files in their place, joined."""
        folders = [name for name in self._names_in(b"packs") if len(name) == 2]
        return b"".join(map(self._pack_ids_in, folders))

    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object; a missing one is not an error."""
        path = object_path(kind, name)
        try:
            os.unlink(path, dir_fd=self._root.descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            self._root.fail("delete", path, error)

    def remove_abandoned(self) -> int:
        """Remove the temporary files of dead writers; returns how many there were."""
        removed = 0
        for kind in KINDS:
            folder = kind_folder(kind)
            for name in self._names_in(folder):
                if name.startswith(TEMPORARY_PREFIX):
                    path = folder + b"/" + name if folder else name
                    removed += remove_if_abandoned(self._root, path)
        return removed

    def sync(self) -> None:
        """Put everything stored so far on the disk; raises errors of earlier writes too."""
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        # The descriptor has been open since the first operation: the kernel reports to it every
        # write-back error since then, also of files closed long ago.
        if libc.syncfs(self._root.descriptor) != 0:
            number = ctypes.get_errno()
            self._root.fail("sync", b"", OSError(number, os.strerror(number)))

    def unverified(self, kind: Kind) -> frozenset[str]:
        """None: every writer with access to the directory is trusted."""
        return frozenset()

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """Capabilities of a directory: none so far."""
        return own_capability(self, wanted)

    def reopen(self) -> LocalStore:
        """The same directory with its own descriptors."""
        return LocalStore(self._root.path, self._write_buffer_bytes)

    def close(self) -> None:
        """Close the directory, and remove what writers have not ended."""
        self._root.remove_unfinished()
        self._root.close()

    def _put_whole(self, kind: Kind, name: str, data: Buffer, *, durable: bool) -> None:
        writer = self.writer(kind)
        try:
            writer.write(data)
            # Without this, a power failure could leave a name without content, and a truncated
            # index object makes every job fail.
            writer.sync()
            if not writer.publish(name, durable=durable) and self.get(kind, name) != data:
                shown = self._root.shown(object_path(kind, name))
                raise StoreError(f"{shown} exists with other content; run check")
        finally:
            writer.abort()

    def _names_in(self, folder: bytes) -> tuple[bytes, ...]:
        try:
            descriptor = self._root.open_directory(folder)
        except FileNotFoundError:
            return ()
        except OSError as error:
            self._root.fail("list", folder, error)
        try:
            return tuple(os.fsencode(name) for name in os.listdir(descriptor))
        except OSError as error:
            self._root.fail("list", folder, error)
        finally:
            os.close(descriptor)

    def _pack_ids_in(self, folder: bytes) -> bytes:
        start, path = os.fsdecode(folder), b"packs/" + folder
        try:
            descriptor = self._root.open_directory(path)
            try:
                with os.scandir(descriptor) as entries:
                    # The kind of a file comes with its name.
                    names = [one.name for one in entries if one.is_file(follow_symlinks=False)]
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return b""
        except OSError as error:
            self._root.fail("list", path, error)
        return _ids_of([name for name in names if len(name) == _NAME_LENGTH and name[:2] == start])

    def _list_folder(self, folder: bytes, only: bytes | None = None) -> Iterator[ObjectInfo]:
        infos: dict[bytes, ObjectInfo] = {}
        looked_at: set[bytes] = set()
        for _ in range(_LISTING_ATTEMPTS):
            names = self._object_names(folder)
            if names == looked_at:
                infos = {name: info for name, info in infos.items() if name in names}
                break
            # Something was added or removed meanwhile. Where one object replaces another, a listing
            # begun before the one came and ended after the other went would have neither. Only new
            # names are checked, so that the next attempt ends before more can change; where the
            # folder keeps changing, everything seen is listed, though some of it may be gone.
            infos.update(self._infos(folder, names - looked_at, only))
            looked_at = names
        yield from infos.values()

    def _object_names(self, folder: bytes) -> set[bytes]:
        return {name for name in self._names_in(folder) if not name.startswith(NOT_OBJECTS)}

    def _infos(
        self, folder: bytes, names: set[bytes], only: bytes | None
    ) -> Iterator[tuple[bytes, ObjectInfo]]:
        for name in names:
            if only is not None and name != only:
                continue
            path = folder + b"/" + name if folder else name
            try:
                status = os.stat(path, dir_fd=self._root.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._root.fail("list", path, error)
            if stat.S_ISREG(status.st_mode):
                info = ObjectInfo(os.fsdecode(name), status.st_size, status.st_mtime_ns)
                yield name, info


class OpenFile:
    """A `strongroom.engine.stores.servable.OutgoingObject`: the file of an object."""

    __slots__ = ("_path", "_root", "descriptor", "size_bytes")

    def __init__(self, root: LocalRoot, path: bytes, descriptor: int, size_bytes: int) -> None:
        self._root = root
        self._path = path
        self.descriptor = descriptor
        self.size_bytes = size_bytes

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`."""
        there = self.size_bytes - offset
        # Checked before anything is allocated: lengths come out of stored objects.
        if there < length:
            raise DamageError(
                f"{self._root.shown(self._path)} is truncated: {length} bytes wanted at {offset}, "
                f"{max(0, there)} available; run check"
            )
        try:
            return _read_whole(self.descriptor, offset, length)
        except OSError as error:
            self._root.fail("read", self._path, error)


def _ids_of(names: list[str]) -> bytes:
    """What hexadecimal names mean, joined; others are left out."""
    joined = "".join(names)
    with contextlib.suppress(ValueError):
        ids = bytes.fromhex(joined)
        # It also takes blanks and capitals.
        if ids.hex() == joined:
            return ids
    return b"".join(_ids_of([name]) for name in names) if len(names) > 1 else b""


def _read_whole(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    # The kernel reads at most about 2 GiB at once.
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            raise DamageError(f"an object shrank to {offset + len(data)} bytes while it was read")
        data += more
    return data
