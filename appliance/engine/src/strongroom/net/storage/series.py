"""Changes that are sent to a storage daemon in one batch.

A job ends with changes of which each must be done after the one before; waiting for every answer
would cost a round trip each. The daemon keeps the order: it does none of a series after one that
failed (strongroom.net.storage.protocol).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from strongroom.errors import StrongroomError
from strongroom.net.storage.client import Request, StorageAnswer
from strongroom.net.storage.protocol import FrameType, ObjectName, encode

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from strongroom.net.storage.client import StorageClient
    from strongroom.stores.store import Kind

# The provisional answer to a change before it is sent: its name was free.
SEEMING: Final = StorageAnswer(0, 0, header=encode(True), is_done=True)


class RequestSeries:
    """A `strongroom.stores.capabilities.Series`, for the thread that makes it."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.done = 0
        self._thread = threading.get_ident()

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def is_ours(self) -> bool:
        """Whether it belongs to the calling thread."""
        return threading.get_ident() == self._thread

    def add(self, frame_type: FrameType, header: object, payload: Buffer = b"") -> StorageAnswer:
        """Add a change; returns its provisional answer."""
        # The caller may reuse its buffer.
        self.requests.append(Request(frame_type, header, bytes(payload)))
        return SEEMING

    def require(self, kind: Kind, name: str) -> None:
        """Add a check that an object exists."""
        self.add(FrameType.INFO, ObjectName(kind, name))

    def settle(self, client: StorageClient, answers: list[StorageAnswer]) -> None:
        """Wait for the answers. Raises the first failure."""
        failure: StrongroomError | None = None
        for answer in answers:
            try:
                client.wait(answer)
            except StrongroomError as error:
                failure = failure or error
            else:
                self.done += 1
        if failure is not None:
            raise failure
