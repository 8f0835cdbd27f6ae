"""Questions that usually follow a request are sent right behind it, so that they cost no waiting.

A job takes a lease and then lists what there is, kind after kind; each would cost the way to the
daemon and back. The daemon does the requests of a connection one after the other, so what is asked
ahead is answered as it would be for somebody who asks at once. Answers are handed out in the order
in which the daemon gave them: a question that was not foreseen, a change, or LONGEST_SECONDS make
those that came before it worthless.

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

    from strongroom.net.storage.client import Answer, Request, StorageClient

LONGEST_SECONDS: Final = 30.0


class Question(NamedTuple):
    """A request without a payload."""

    type: FrameType
    header: object


# Whoever opens a repository begins with its configuration.
AT_FIRST: Final = (Question(FrameType.GET, ObjectPart("config", "config", 0, None)),)


def after_renewal(lease: str) -> tuple[Question, ...]:
    """What a job asks after it renewed its lease: whether and since when that is there."""
    return (Question(FrameType.INFO, ObjectName("leases", lease)),)


def after_lease(lease: str) -> tuple[Question, ...]:
    """What a job that adds asks after it took a lease.

    That is the lease's time, what must not be used, what there is, what others added that no index
    names yet, and with which snapshot to compare.
    """
    kinds = (
        *("tombstones", "index"),
        *("tombstones", "packs"),
        "snapshots",
        *("tombstones", "index"),
    )
    return (
        Question(FrameType.LIST, "tombstones"),
        *after_renewal(lease),
        *(Question(FrameType.LIST, kind) for kind in kinds),
    )


class Foreseen:
    """What was asked ahead on one connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: deque[tuple[Question, float, Answer]] = deque()

    def request(
        self,
        client: StorageClient,
        frame_type: FrameType,
        header: object,
        payload: Buffer = b"",
        following: Sequence[Question] = (),
    ) -> Answer:
        """Send a request that changes something, and what will be asked after it."""
        with self._lock:
            self._asked.clear()
            answer = client.request(frame_type, header, payload)
            self._foresee(client, following)
        return answer

    def foresee(self, client: StorageClient, questions: Sequence[Question]) -> None:
        """Ask what will be asked, of a connection that has just been made."""
        with self._lock:
            self._foresee(client, questions)

    def ask(self, client: StorageClient, frame_type: FrameType, header: object) -> Answer:
        """The answer to a question, asked now if it was not foreseen. Raises what it says."""
        question = Question(frame_type, header)
        with self._lock:
            answer = self._take(question) or client.request(frame_type, header)
        return client.wait(answer)

    def request_series(self, client: StorageClient, requests: Sequence[Request]) -> list[Answer]:
        """Send requests that change something, each done only if those before it were."""
        with self._lock:
            self._asked.clear()
            return client.request_series(requests)

    def _foresee(self, client: StorageClient, questions: Sequence[Question]) -> None:
        for question in questions:
            answer = client.request(question.type, question.header)
            self._asked.append((question, clock.elapsed_seconds(), answer))

    def _take(self, question: Question) -> Answer | None:
        while self._asked:
            asked, at_seconds, answer = self._asked.popleft()
            if asked == question and clock.elapsed_seconds() - at_seconds < LONGEST_SECONDS:
                return answer
        return None
