"""Journals of runs on disk: the request and the reports, until the director has all of them.

FOLDER/RUN_ID.journal     JSON lines: AcceptedRun, then reports and Acknowledged marks, in order
FOLDER/RUN_ID.lock        held by the process that executes the run

A report is in the file before it is sent, and stays until the director has acknowledged RunEnded.
So neither a restart nor SIGKILL loses one; a power failure may lose log lines of a run, but neither
its start nor its end. A line truncated by a crash is dropped. Only offsets of reports are kept in
memory. Files contain keys of tickets, so only their owner can read them.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Container
from typing import Final

import msgspec

from strongroom.agent.jobs.description import StartMessage
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.net.control.messages import LogLevel, RunEnded, RunLog, RunStarted, encode
from strongroom.net.identities.private_files import sync_folder

# The size limit of a run's journal; log lines beyond it are counted, not kept.
JOURNAL_BYTES_LIMIT: Final = 256 << 20
# How long the journal of an ended run is kept for a director that was removed from our settings.
KEPT_SECONDS: Final = 60 * 86400
# A report number further ahead than this is invalid.
MOST_LOST_REPORTS: Final = 1 << 20
_ENDING: Final = ".journal"
_LOCK_ENDING: Final = ".lock"

Report = RunStarted | RunLog | RunEnded


class AcceptedRun(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="entry"):
    """The first line: the director of the run, and its message."""

    director: str
    start: StartMessage = msgspec.field(name="request")
    accepted_ns: int


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="begun"):
    """A job process was started."""

    time_ns: int


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="acknowledged"):
    """The director has everything up to this number."""

    sequence: int


_decoder = msgspec.json.Decoder(RunStarted | RunLog | RunEnded | AcceptedRun | Begun | Acknowledged)
_encoder = msgspec.json.Encoder()


class RunJournal:
    """The journal of one run; used by one thread."""

    def __init__(self, path: bytes, descriptor: int) -> None:
        self._path = path
        self._file = descriptor
        self._size = os.fstat(descriptor).st_size
        self._offsets = array("Q")
        self._lengths = array("Q")
        self._left_out = 0
        self.entry: AcceptedRun
        self.begun = 0
        # When the run was first started, 0 for not yet.
        self.begun_ns = 0
        self.acknowledged = 0
        self.ended: RunEnded | None = None

    @classmethod
    def create(cls, folder: bytes, director: str, start: StartMessage) -> RunJournal:
        """Create the journal of a new run, durably. Raises OSError, and leaves no file then."""
        path = os.path.join(folder, start.run_id.encode("ascii") + _ENDING.encode())
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        journal = cls(path, os.open(path, flags, 0o600))
        journal.entry = AcceptedRun(director=director, start=start, accepted_ns=clock.now_ns())
        try:
            journal._append(_encoder.encode(journal.entry))
            os.fsync(journal._file)
            sync_folder(folder)
        except OSError:
            # The director hears that the run failed, so the next start must not find it. And a
            # full disk may refuse many runs: each would keep a descriptor.
            journal.remove()
            raise
        return journal

    @classmethod
    def load(cls, path: bytes) -> RunJournal | None:
        """Read a journal; None when it does not even have the request. Raises OSError."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        journal = cls(path, os.open(path, flags))
        if journal._read():
            return journal
        os.close(journal._file)
        return None

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.entry.start.run_id

    @property
    def last_sequence(self) -> int:
        """The number of the last report."""
        return len(self._offsets)

    def begin(self) -> None:
        """A job process is about to be started."""
        self._begin(clock.now_ns())
        self._append(_encoder.encode(Begun(time_ns=self.begun_ns)))

    def add_started(self) -> None:
        """Report that the run has started."""
        self._report(
            RunStarted(run_id=self.run_id, sequence=self.last_sequence + 1, time_ns=clock.now_ns())
        )
        os.fdatasync(self._file)

    def add_log(self, time_ns: int, level: LogLevel, text: str) -> None:
        """Add a line of the log; beyond the size limit it is only counted."""
        if self._size > JOURNAL_BYTES_LIMIT:
            self._left_out += 1
            return
        try:
            self._log(time_ns, level, text)
        except OSError:
            # The disk is full; the end of the run is more important.
            self._left_out += 1

    def add_ended(self, ended: RunEnded) -> None:
        """Add the end; its sequence is set here. Durable when this returns. Raises OSError."""
        if self._left_out:
            text = f"{self._left_out} lines of this log were left out: too long, or a full disk"
            self._log(clock.now_ns(), "warning", text)
            self._left_out = 0
        final = msgspec.structs.replace(ended, sequence=self.last_sequence + 1)
        self._report(final)
        os.fdatasync(self._file)
        self.ended = final

    def report(self, sequence: int) -> bytes:
        """A report as it is sent; `sequence` from `acknowledged` + 1 to `last_sequence`."""
        return os.pread(self._file, self._lengths[sequence - 1], self._offsets[sequence - 1])

    def acknowledge(self, sequence: int) -> bool:
        """Note that the director has everything up to `sequence`; returns whether that is all.

        After a power failure the director may have lines that we lost: numbers continue after them.
        """
        sequence = min(sequence, self.last_sequence + MOST_LOST_REPORTS)
        if self.ended is not None:
            sequence = min(sequence, self.last_sequence)
        if sequence > self.acknowledged:
            self._append(_encoder.encode(Acknowledged(sequence=sequence)))
            self._acknowledged(sequence)
        return self.ended is not None and self.acknowledged == self.last_sequence

    def is_stale(self, directors: Container[str]) -> bool:
        """Whether it ended long ago, and its director is not one of `directors` any more.

        Time alone removes no report: the clock may be wrong when the agent starts.
        """
        return (
            self.ended is not None
            and self.entry.director not in directors
            and clock.now_ns() - self.ended.time_ns > KEPT_SECONDS * SECOND_NS
        )

    def lock_path(self) -> bytes:
        """The file that the run's process locks."""
        return self._path.removesuffix(_ENDING.encode()) + _LOCK_ENDING.encode()

    def remove(self) -> None:
        """Remove the journal of the run."""
        os.close(self._file)
        os.unlink(self._path)
        if os.path.exists(self.lock_path()):
            os.unlink(self.lock_path())

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._file)

    def _log(self, time_ns: int, level: LogLevel, text: str) -> None:
        self._report(
            RunLog(
                run_id=self.run_id,
                sequence=self.last_sequence + 1,
                time_ns=time_ns,
                level=level,
                text=text,
            )
        )

    def _report(self, report: Report) -> None:
        data = encode(report)
        offset = self._size
        self._append(data)
        self._offsets.append(offset)
        self._lengths.append(len(data))

    def _append(self, data: bytes) -> None:
        line = memoryview(data + b"\n")
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data) + 1

    def _begin(self, time_ns: int) -> None:
        self.begun += 1
        self.begun_ns = self.begun_ns or time_ns

    def _acknowledged(self, sequence: int) -> None:
        self.acknowledged = sequence
        # Reports that the director has and we lost are not sent again.
        lost = max(0, sequence - self.last_sequence)
        self._offsets.extend([0] * lost)
        self._lengths.extend([0] * lost)

    def _read(self) -> bool:
        offset = 0
        is_first = True
        with open(os.dup(self._file), "rb") as file:
            file.seek(0)
            for line in file:
                try:
                    found = _decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    break
                if not line.endswith(b"\n") or is_first is not isinstance(found, AcceptedRun):
                    break
                is_first = False
                self._take(found, offset, len(line) - 1)
                offset += len(line)
        os.ftruncate(self._file, offset)
        self._size = offset
        return not is_first

    def _take(
        self, found: Report | AcceptedRun | Begun | Acknowledged, offset: int, size: int
    ) -> None:
        if isinstance(found, AcceptedRun):
            self.entry = found
        elif isinstance(found, Begun):
            self._begin(found.time_ns)
        elif isinstance(found, Acknowledged):
            self._acknowledged(found.sequence)
        else:
            self._offsets.append(offset)
            self._lengths.append(size)
            if isinstance(found, RunEnded):
                self.ended = found


def load_journals(folder: bytes, directors: Container[str]) -> list[RunJournal]:
    """All runs of a folder, which is created if needed, the oldest first. Raises OSError.

    directors: those that may still acknowledge a run.
    """
    os.makedirs(folder, 0o700, exist_ok=True)
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(_ENDING.encode()):
            path = os.path.join(folder, name)
            journal = RunJournal.load(path)
            if journal is None:
                os.unlink(path)
            elif journal.is_stale(directors):
                journal.remove()
            else:
                found.append(journal)
    return sorted(found, key=lambda journal: journal.entry.accepted_ns)
