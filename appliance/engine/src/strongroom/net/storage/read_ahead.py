"""What saves round trips to a storage daemon: reading and asking ahead, batches, connections.

Read-ahead is for a caller that lists small objects and then gets them one by one. Index objects,
snapshots and tombstones are read that way, and each would cost a round trip to the daemon. So with
one of them, those listed after it are requested at the same time. The reader is for one thread at a
time; its owner holds a lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import StrongroomError
from strongroom.engine.stores.at_once import await_end
from strongroom.engine.stores.store import Kind, ObjectInfo
from strongroom.net.storage.client import Request, StorageAnswer, StorageClient
from strongroom.net.storage.protocol import FrameType, ObjectName, ObjectPart, encode

# Requests that usually follow another one are sent right behind it, to save round trips.
#
# A job takes a lease and then lists what there is, kind after kind; each would cost a round trip
# to the daemon. The daemon does the requests of a connection one after the other, so the answer to
# a request sent ahead is the same as to one sent now. Answers are used in the order in which the
# daemon gave them: an unexpected request, a change, or LONGEST_SECONDS discard those that came
# before.
#
# Any thread may use it; the lock is held while requests are sent, never while answers are awaited.
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
    kinds = (*("tombstones", "index"), *("tombstones", "packs"), "snapshots")
    return (
        SpeculativeRequest(FrameType.LIST, "tombstones"),
        *after_renewal(lease),
        *(SpeculativeRequest(FrameType.LIST, kind) for kind in kinds),
    )


class _SentAhead(NamedTuple):
    question: SpeculativeRequest
    at_seconds: float
    answer: StorageAnswer
    client: StorageClient


class RequestsAhead:
    """The requests sent ahead on one connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # With the connection on which they were sent: another may have been made since.
        self._asked: deque[_SentAhead] = deque()
        self._keeps_all = False

    def keep_all(self) -> None:
        """Keep answers when another request comes before: for who stores nothing."""
        self._keeps_all = True

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
            answer = self._take(client, question) or client.request(frame_type, header)
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
            self._asked.append(_SentAhead(question, clock.elapsed_seconds(), answer, client))

    def _take(self, client: StorageClient, question: SpeculativeRequest) -> StorageAnswer | None:
        if self._keeps_all and all(one.question != question for one in self._asked):
            return None
        while self._asked:
            one = self._asked.popleft()
            is_recent = clock.elapsed_seconds() - one.at_seconds < LONGEST_SECONDS
            if one.question == question and is_recent and one.client is client:
                return one.answer
        return None


# Connections that are made before they are needed, because making one takes time.
#
# Each is made by its own thread. `take` waits until all threads have ended, so a fork
# afterwards copies no running thread, and no lock that one holds.
class ConnectionsAhead:
    """`count` connections, each to be taken once; for one thread."""

    def __init__(self, connect: Callable[[], StorageClient], count: int) -> None:
        self._connect = connect
        self._made: list[StorageClient] = []
        self._failures: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._make, name="connecting", daemon=True)
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> StorageClient | None:
        """One of them, None when none is left; failed connections do not count."""
        while self._threads:
            await_end(self._threads.pop())
        return self._made.pop() if self._made else None

    def take_only(self) -> StorageClient | None:
        """The only one; None when there was none, or it is taken. Raises why it failed."""
        client = self.take()
        if client is None and self._failures:
            raise self._failures.pop()
        return client

    def close(self) -> None:
        """Close those that were not taken."""
        while self._threads:
            await_end(self._threads.pop())
        while self._made:
            self._made.pop().close()

    def _make(self) -> None:
        try:
            self._made.append(self._connect())
        except (StrongroomError, OSError) as error:
            self._failures.append(error)


# Changes that are sent to a storage daemon in one batch.
#
# A job ends with changes of which each must be done after the one before; waiting for every answer
# would cost a round trip each. The daemon keeps the order: it does none of a series after one that
# failed (strongroom.net.storage.protocol).

# The provisional answer to a change before it is sent: its name was free.
SEEMING: Final = StorageAnswer(0, 0, header=encode(True), is_done=True)


class RequestSeries:
    """A `strongroom.engine.stores.capabilities.Series`, for the thread that makes it."""

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


WINDOW_OBJECTS: Final = 16
# Of an index object sometimes only the beginning is needed.
HEAD_BYTES: Final = 64 << 10


class ReadAhead:
    """The beginnings of the objects of one listing."""

    def __init__(
        self,
        kind: Kind,
        listed: Sequence[ObjectInfo],
        is_cached: Callable[[str], bool],
    ) -> None:
        self._kind: Kind = kind
        wanted = [info for info in listed if not is_cached(info.name)]
        self._sizes = {info.name: info.size_bytes for info in wanted}
        self._names = [info.name for info in wanted]
        self._places = {name: place for place, name in enumerate(self._names)}
        self._asked = 0
        self._answers: dict[str, tuple[StorageAnswer, StorageClient]] = {}
        self._latest: tuple[str, bytes] | None = None

    def size_of(self, name: str) -> int | None:
        """The size that was listed."""
        return self._sizes.get(name)

    def head(self, client: StorageClient, name: str) -> bytes | None:
        """The first HEAD_BYTES of an object or all of it; None when it was not listed.

        Raises the daemon's error for that object.
        """
        if self._latest is not None and self._latest[0] == name:
            return self._latest[1]
        place = self._places.get(name)
        if place is None:
            return None
        # A caller that goes back or jumps gets what is still in the window.
        while self._asked < min(place + WINDOW_OBJECTS, len(self._names)):
            next_name = self._names[self._asked]
            size = min(self._sizes[next_name], HEAD_BYTES)
            part = ObjectPart(self._kind, next_name, 0, size)
            if self._asked >= place:
                answer = client.request(FrameType.GET, part, limit_bytes=HEAD_BYTES)
                self._answers[next_name] = answer, client
            self._asked += 1
        found = self._answers.pop(name, None)
        if found is None or found[1] is not client:
            # Not asked, or over a connection that broke since.
            return None
        data = client.wait(found[0]).payload()
        self._latest = (name, data)
        return data
