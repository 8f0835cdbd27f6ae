"""A shard's end of its channel to the coordinator: questions and results go out, tasks come in.

Answers come in the order of the questions. Tasks that come while an answer is waited for are
queued; pages to be encoded are encoded at once, whatever else waits, because the listing waits.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from strongroom.engine.backup.shards.messages import (
    Claim,
    Claimed,
    EncodePage,
    FromShard,
    PageIsEncoded,
    ParentRows,
    ParentWanted,
    ShardTask,
    ToShard,
)
from strongroom.engine.processes.channel import ChildChannel
from strongroom.engine.repository.keys.owners import OwnerKeys
from strongroom.engine.rows.rows import decode_groups
from strongroom.engine.writing.deduplication import ChunkGroup, GroupAnswer
from strongroom.engine.writing.listing import PageEncoder
from strongroom.engine.writing.stages import WAIT, StageTimes

_Answer = TypeVar("_Answer")


class CoordinatorLink:
    """For the thread of one shard. tasks: those that have come and were not begun."""

    def __init__(self, channel: ChildChannel[ToShard], keys: OwnerKeys, times: StageTimes) -> None:
        self._channel = channel
        self._pages = PageEncoder(keys.own)
        self._times = times
        self._claim_answers: deque[list[GroupAnswer]] = deque()
        self._rows_answers: deque[bytes] = deque()
        self.tasks: deque[ShardTask] = deque()

    @property
    def answered_claims(self) -> int:
        """How many claims were answered whose answers no one took yet."""
        return len(self._claim_answers)

    def claim(self, groups: list[ChunkGroup]) -> None:
        """Ask which of these chunks are new."""
        self._channel.send(Claim(groups))

    def claim_answer(self) -> list[GroupAnswer]:
        """The answer to the oldest claim; waits for it."""
        return self._answer(self._claim_answers)

    def parent_rows(self, task: int) -> bytes:
        """The parent's rows of a task; waits for them."""
        self._channel.send(ParentWanted(task))
        return self._answer(self._rows_answers)

    def post(self, message: FromShard) -> None:
        """Send something soon, with what else there is."""
        self._channel.post(message)

    def tell(self, message: FromShard) -> None:
        """Send something; at once where it may be waited for."""
        self._channel.post(message)
        if not self.tasks:
            self._channel.flush()

    def send(self, message: FromShard) -> None:
        """Send something, and all that was posted, at once."""
        self._channel.send(message)

    def flush(self) -> None:
        """Send what was posted."""
        self._channel.flush()

    def fileno(self) -> int:
        """The descriptor that is ready to read when something has come."""
        return self._channel.fileno()

    def receive(self) -> None:
        """Wait for messages and take all that have come."""
        with self._times.during(WAIT):
            messages = self._channel.receive_all()
        for message in messages:
            if isinstance(message, Claimed):
                self._claim_answers.append(message.answers)
            elif isinstance(message, ParentRows):
                self._rows_answers.append(message.rows)
            elif isinstance(message, EncodePage):
                self._encode_page(message)
            else:
                self.tasks.append(message)

    def _answer(self, answers: deque[_Answer]) -> _Answer:
        while not answers:
            self.receive()
        return answers.popleft()

    def _encode_page(self, task: EncodePage) -> None:
        page = self._pages.encode(decode_groups(task.groups), _is_known, keeps_raw=task.keeps_raw)
        self._channel.post(PageIsEncoded(task.number, page))


def _is_known(_block: bytes) -> bool:
    """The coordinator knows what is stored."""
    return False
