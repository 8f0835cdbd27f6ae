"""Writing one object of a local store: a temporary file that is linked to its name when complete.

A temporary file is locked (flock) by its writer for as long as the writer lives, forked children
included. A file that can be locked is therefore abandoned; clocks play no part in it.
"""

from __future__ import annotations

import errno
import fcntl
import os

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import DamageError
from strongroom.engine.stores.direct_file import BUFFER_BYTES, DirectFile, Submit
from strongroom.engine.stores.local_root import (
    TEMPORARY_PREFIX,
    LocalRoot,
    kind_folder,
    object_path,
)
from strongroom.engine.stores.store import Kind

# Errors of link on file systems without hard links (FAT, some network shares).
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
# Errors of flock on file systems without locks.
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


class LocalWriter:
    """A `strongroom.engine.stores.store.Writer` of a temporary file beside the object's place."""

    def __init__(
        self,
        root: LocalRoot,
        kind: Kind,
        buffer_bytes: int = BUFFER_BYTES,
        submit: Submit | None = None,
    ) -> None:
        self._root = root
        self._kind: Kind = kind
        self._path = b""
        self._descriptor = -1
        self._size_bytes = 0
        self._buffer_bytes = buffer_bytes
        self._submit = submit
        self._stream: DirectFile | None = None
        folder = kind_folder(kind)
        try:
            if folder:
                root.make_directory(folder)
            self._create(folder + b"/" if folder else b"")
        except OSError as error:
            root.fail("create a file in", folder, error)

    def write(self, data: Buffer) -> None:
        """Append `data`."""
        view = memoryview(data).cast("B")
        try:
            self._opened().write(view)
        except OSError as error:
            self._root.fail("write to", self._path, error)
        self._size_bytes += len(view)

    def room(self, most_bytes: int) -> memoryview:
        """A view for the next bytes, which saves a copy; `advance` appends them."""
        return self._opened().room(most_bytes)

    def advance(self, count: int) -> None:
        """Append the first `count` bytes of the latest `room`."""
        try:
            self._opened().advance(count)
        except OSError as error:
            self._root.fail("write to", self._path, error)
        self._size_bytes += count

    def commit(self, name: str) -> None:
        """Publish under `name`; if that object exists already, drop this one."""
        if self.publish(name):
            return
        path = object_path(self._kind, name)
        try:
            there = os.stat(path, dir_fd=self._root.descriptor, follow_symlinks=False).st_size
        except OSError as error:
            self._root.fail("look up", path, error)
        if there != self._size_bytes:
            raise DamageError(
                f"{self._root.shown(path)} has {there} bytes instead of {self._size_bytes}: "
                "run repair"
            )

    def abort(self) -> None:
        """Remove the temporary file; may be called again."""
        if self._descriptor < 0:
            return
        if self._stream is not None:
            self._stream.drop()
            self._stream = None
        # Unlink before closing releases the lock: else another process could find it abandoned.
        try:
            os.unlink(self._path, dir_fd=self._root.descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            self._root.fail("delete", self._path, error)
        finally:
            self._root.unfinished.discard(self._path)
            os.close(self._descriptor)
            self._descriptor = -1

    def sync(self) -> None:
        """Put what was written on the disk, so that it is complete before it gets a name."""
        self._flush()
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self._root.fail("write", self._path, error)

    def publish(self, name: str, *, durable: bool = False) -> bool:
        """Give the file its name unless that is taken (returns False); ends this writer.

        `durable`: also put the name on the disk; `sync` does that for the content.
        """
        path = object_path(self._kind, name)
        self._flush()
        try:
            if self._kind == "packs":
                self._root.make_directory(os.path.dirname(path))
            published = self._link(path)
            if durable:
                self._sync_folder(path)
        except OSError as error:
            self._root.fail("write", path, error)
        self.abort()
        return published

    def publish_over(self, name: str) -> None:
        """Give the file its name, replacing the file that had it; ends this writer."""
        path = object_path(self._kind, name)
        root = self._root.descriptor
        # Before the rename: after a power cut the name must not lead to a file without its content.
        self.sync()
        try:
            os.rename(self._path, path, src_dir_fd=root, dst_dir_fd=root)
            self._sync_folder(path)
        except OSError as error:
            self._root.fail("replace", path, error)
        self.abort()

    def _opened(self) -> DirectFile:
        if self._stream is None:
            self._stream = DirectFile(self._descriptor, self._buffer_bytes, self._submit)
        return self._stream

    def _flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except OSError as error:
                self._root.fail("write to", self._path, error)

    def _create(self, prefix: bytes) -> None:
        while True:
            self._path = prefix + TEMPORARY_PREFIX + clock.random_bytes(12).hex().encode()
            self._root.unfinished.add(self._path)
            self._descriptor = os.open(
                self._path,
                os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW,
                mode=0o600,
                dir_fd=self._root.descriptor,
            )
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Another process took it for abandoned between open and lock, and removes it.
                os.close(self._descriptor)
                self._descriptor = -1
                continue
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            if not os.fstat(self._descriptor).st_nlink:
                # The other process has removed it already.
                os.close(self._descriptor)
                self._descriptor = -1
                continue
            return

    def _link(self, path: bytes) -> bool:
        root = self._root.descriptor
        try:
            # Unlike a rename this fails where the name is taken, so no object is ever overwritten.
            os.link(self._path, path, src_dir_fd=root, dst_dir_fd=root)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            return True
        # The empty file claims the name; the rename then fills it in one step.
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=root))
        except FileExistsError:
            return False
        os.rename(self._path, path, src_dir_fd=root, dst_dir_fd=root)
        return True

    def _sync_folder(self, path: bytes) -> None:
        folder = self._root.open_directory(os.path.dirname(path))
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_if_abandoned(root: LocalRoot, path: bytes) -> bool:
    """Remove a temporary file whose writer is dead; False if it is alive or that is unknown."""
    try:
        descriptor = os.open(
            # Network file systems lock for writing only what is open for writing.
            path,
            os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW,
            dir_fd=root.descriptor,
        )
    except OSError:
        # Published or removed a moment ago, or not readable for us: leave it.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path, dir_fd=root.descriptor)
    except (FileNotFoundError, BlockingIOError):
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        root.fail("delete", path, error)
    finally:
        os.close(descriptor)
    return True
