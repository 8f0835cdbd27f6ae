"""Objects streamed to a storage daemon: sent while they are made, named at the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from typing_extensions import Buffer

from strongroom.base.errors import ConnectionLostError
from strongroom.engine.stores.store import Kind
from strongroom.net.storage.client import StorageAnswer, StorageClient
from strongroom.net.storage.protocol import (
    DIGESTED_KINDS,
    UPLOAD_PART_BYTES,
    CommitUpload,
    FrameType,
    PutMode,
    UploadData,
    decode,
)

# Pieces that are smaller are gathered: a frame costs two system calls at either end.
_GATHERED_BYTES: Final = 256 << 10


class RemoteWriter:
    """A `strongroom.engine.stores.store.Writer` that sends its bytes before it has a name."""

    def __init__(
        self,
        client: StorageClient,
        kind: Kind,
        change: Callable[[FrameType, object], StorageAnswer],
    ) -> None:
        """`client`: where the bytes go. `change` sends the commit, alone or in a series."""
        self._client = client
        self._change = change
        self._header = UploadData(self._client.new_upload(), kind)
        # The daemon accepts as its name only the digest of its bytes.
        self._is_verified = kind in DIGESTED_KINDS
        self._gathered = bytearray()
        self._begun = False
        self._ended = False

    def write(self, data: Buffer) -> None:
        """Append `data`; waits only while the connection's buffers are full."""
        view = memoryview(data).cast("B")
        if len(self._gathered) + len(view) < _GATHERED_BYTES:
            self._gathered += view
            return
        if self._gathered:
            self._flush()
        for start in range(0, len(view), UPLOAD_PART_BYTES):
            self._send(view[start : start + UPLOAD_PART_BYTES])

    def commit(self, name: str) -> None:
        """Publish under `name`."""
        self.finish(name, "publish")

    def finish(self, name: str, mode: PutMode) -> bool:
        """Publish in one of the modes of PutMode; returns whether the name was free."""
        if self._gathered or not self._begun:
            self._flush()
        self._ended = True
        header = CommitUpload(self._header.number, name, mode)
        return decode(self._change(FrameType.COMMIT, header).header, bool)

    def abort(self) -> None:
        """Drop what was sent; may be called after `commit` or `abort`."""
        if self._begun and not self._ended:
            # A daemon drops the uploads of a lost connection.
            with suppress(ConnectionLostError):
                self._client.post(FrameType.ABORT, self._header.number)
        self._ended = True
        self._gathered = bytearray()

    def _flush(self) -> None:
        self._send(self._gathered)
        self._gathered = bytearray()

    def _send(self, data: Buffer) -> None:
        self._begun = True
        self._client.post(FrameType.DATA, self._header, data, is_verified=self._is_verified)
