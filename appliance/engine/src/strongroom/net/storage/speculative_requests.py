"""Requests that usually follow another one are sent right behind it, to save round trips.

A job takes a lease and then lists what there is, kind after kind; each would cost a round trip to
the daemon. The daemon does the requests of a connection one after the other, so the answer to a
request sent ahead is the same as to one sent now. Answers are used in the order in which the daemon
gave them: an unexpected request, a change, or LONGEST_SECONDS discard those that came before.

Any thread may use it; the lock is held while requests are sent, never while answers are awaited.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom import clock
from strongroom.net.storage.protocol import FrameType, ObjectName, ObjectPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from strongroom.net.storage.client import Request, StorageAnswer, StorageClient

LONGEST_SECONDS: Final = 30.0


class SpeculativeRequest(NamedTuple):
    """A request without a payload."""

    type: FrameType
    header: object


# A client that opens a repository reads its configuration first.
AT_FIRST: Final = (SpeculativeRequest(FrameType.GET, ObjectPart("config", "config", 0, None)),)


def after_renewal(lease: str) -> tuple[SpeculativeRequest, ...]:
    """The requests of a job after it renewed its lease: whether it exists, and its time."""
    return (SpeculativeRequest(FrameType.INFO, ObjectName("leases", lease)),)


def after_lease(lease: str) -> tuple[SpeculativeRequest, ...]:
    """The requests of a job that adds data, after it took a lease.

    These are the lease's time, what must not be used, what there is, what others added that is in
    no index yet, and the snapshot to compare with.
    """
    kinds = (
        *("tombstones", "index"),
        *("tombstones", "packs"),
        "snapshots",
        *("tombstones", "index"),
    )
    return (
        SpeculativeRequest(FrameType.LIST, "tombstones"),
        *after_renewal(lease),
        *(SpeculativeRequest(FrameType.LIST, kind) for kind in kinds),
    )


class RequestsAhead:
    """The requests sent ahead on one connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: deque[tuple[SpeculativeRequest, float, StorageAnswer]] = deque()

    def request(
        self,
        client: StorageClient,
        frame_type: FrameType,
        header: object,
        payload: Buffer = b"",
        following: Sequence[SpeculativeRequest] = (),
    ) -> StorageAnswer:
        """Send a request that changes something, and the requests expected after it."""
        with self._lock:
            self._asked.clear()
            answer = client.request(frame_type, header, payload)
            self._send(client, following)
        return answer

    def send(self, client: StorageClient, questions: Sequence[SpeculativeRequest]) -> None:
        """Send the expected requests on a connection that has just been made."""
        with self._lock:
            self._send(client, questions)

    def ask(self, client: StorageClient, frame_type: FrameType, header: object) -> StorageAnswer:
        """The answer to a request, sent now if it was not expected. Raises the daemon's error."""
        question = SpeculativeRequest(frame_type, header)
        with self._lock:
            answer = self._take(question) or client.request(frame_type, header)
        return client.wait(answer)

    def request_series(
        self, client: StorageClient, requests: Sequence[Request]
    ) -> list[StorageAnswer]:
        """Send requests that change something, each done only if those before it were."""
        with self._lock:
            self._asked.clear()
            return client.request_series(requests)

    def _send(self, client: StorageClient, questions: Sequence[SpeculativeRequest]) -> None:
        for question in questions:
            answer = client.request(question.type, question.header)
            self._asked.append((question, clock.elapsed_seconds(), answer))

    def _take(self, question: SpeculativeRequest) -> StorageAnswer | None:
        while self._asked:
            asked, at_seconds, answer = self._asked.popleft()
            if asked == question and clock.elapsed_seconds() - at_seconds < LONGEST_SECONDS:
                return answer
        return None
