"""A store behind a connection that is made again when it breaks: a folder that ssh reaches.

Each operation is repeated over another connection, as over SFTP, for as long as
`strongroom.engine.stores.patience` says. So every operation has the same effect when it is done
twice; objects that are streamed are gathered in memory until they have their name, and changes are
not sent as a series: after a break no one could tell how far it came. A daemon is no place for it:
its jobs are repeated as a whole (`strongroom.service.job_process.program`).

Where a first connection fails, a name, a key or a port is wrong, and it is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from typing_extensions import Buffer

from strongroom.base.errors import ConnectionLostError
from strongroom.engine.stores.gathered_writer import GatheredWriter
from strongroom.engine.stores.patience import PATIENCE_SECONDS, Patience
from strongroom.engine.stores.store import Kind
from strongroom.net.storage.client import StorageAnswer
from strongroom.net.storage.protocol import FrameType
from strongroom.net.storage.read_ahead import RequestSeries
from strongroom.net.storage.store import RemoteStore
from strongroom.net.storage.writer import RemoteWriter

_Words = ParamSpec("_Words")
_Result = TypeVar("_Result")


def _repeated(
    method: Callable[Concatenate[Any, _Words], _Result],
) -> Callable[Concatenate[Any, _Words], _Result]:
    def call(self: Any, /, *words: _Words.args, **names: _Words.kwargs) -> _Result:
        result: _Result = self.repeat(lambda: method(self, *words, **names))
        return result

    return call


class LastingStore(RemoteStore):
    """See the module. Any thread may use it; each writer belongs to one at a time."""

    # Whether a connection was made before.
    is_known = False

    prepare = _repeated(RemoteStore.prepare)
    put = _repeated(RemoteStore.put)
    put_durable = _repeated(RemoteStore.put_durable)
    replace = _repeated(RemoteStore.replace)
    get = _repeated(RemoteStore.get)
    info = _repeated(RemoteStore.info)
    list = _repeated(RemoteStore.list)
    delete = _repeated(RemoteStore.delete)
    remove_abandoned = _repeated(RemoteStore.remove_abandoned)
    sync = _repeated(RemoteStore.sync)
    unverified = _repeated(RemoteStore.unverified)
    false = _repeated(RemoteStore.false)
    owners = _repeated(RemoteStore.owners)
    vouch = _repeated(RemoteStore.vouch)
    charge = _repeated(RemoteStore.charge)

    def writer(self, kind: Kind) -> GatheredWriter:
        """Begin an object that is gathered in memory."""
        return GatheredWriter(self, kind)

    def create(self, kind: Kind, name: str, data: bytes | bytearray) -> bool:
        """Give an object its name unless that is taken."""

        def send() -> bool:
            writer = self._stream(kind)
            try:
                writer.write(data)
                return writer.finish(name, "publish")
            finally:
                writer.abort()

        return self.repeat(send)

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Store a small object unless the name is taken."""
        attempts = 0

        def send() -> bool:
            nonlocal attempts
            attempts += 1
            return super(LastingStore, self).put_new(kind, name, data)

        # The answer to an earlier attempt was lost: if it is ours, then that one stored it.
        return self.repeat(send) or (attempts > 1 and self.get(kind, name) == bytes(data))

    @contextmanager
    def together(self) -> Iterator[RequestSeries | None]:
        """None: see the module."""
        yield None

    def _ask_ahead(self, kinds: Sequence[Kind]) -> None:
        try:
            super()._ask_ahead(kinds)
        except ConnectionLostError:
            # What was to be asked ahead is asked in its turn.
            if not self.is_known:
                raise

    def repeat(self, work: Callable[[], _Result]) -> _Result:
        """Do an operation over a connection, and again over another if that breaks."""
        patience = Patience(self.location)
        while True:
            try:
                result = work()
            except ConnectionLostError as error:
                if not self.is_known:
                    raise
                failure = error
            else:
                self.is_known = True
                return result
            self._drop_broken()
            patience.wait(failure, PATIENCE_SECONDS)

    def _drop_broken(self) -> None:
        with self._connecting:
            if self._client is not None and self._client.is_broken:
                self._client.close()
                self._client = None

    def _stream(self, kind: Kind) -> RemoteWriter:
        # The commit goes over the connection of the bytes, whatever another thread makes meanwhile.
        client = self.client()
        return RemoteWriter(client, kind, partial(self._change_over, client))

    def _change_over(self, client: Any, frame_type: FrameType, header: object) -> StorageAnswer:
        answer: StorageAnswer = client.wait(
            self._requests_ahead.request(client, frame_type, header)
        )
        return answer

    def _copy(self, client: Any = None) -> LastingStore:
        copy = super()._copy(client)
        assert isinstance(copy, LastingStore)
        copy.is_known = self.is_known
        return copy
