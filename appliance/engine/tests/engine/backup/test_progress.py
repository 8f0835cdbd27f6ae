"""What a backup says of itself while it continues: what was read, as it is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from kit.descriptors import is_readable
from strongroom.base.progress import NullProgress
from strongroom.engine.backup.backup import back_up
from strongroom.engine.backup.options import BackupOptions, Tuning
from strongroom.engine.backup.report import BackupReport
from strongroom.engine.repository.repository import Repository
from strongroom.engine.sources.registry import open_source
from strongroom.sources.source import Source, SourceRequest

MEBIBYTE = 1 << 20
PATIENCE_SECONDS = 30.0


class Told(NullProgress):
    """The sum of what was reported, and who wants to know when it grows."""

    def __init__(self, heard: Callable[[Told], None] = lambda _: None) -> None:
        self.files = self.bytes = 0
        self._heard = heard

    def add(self, files: int = 0, bytes: int = 0, **_: int) -> None:  # noqa: A002
        self.files += files
        self.bytes += bytes
        self._heard(self)


@dataclass
class GatedStream:
    """Zeros, of which those behind the first half come when somebody opens the gate."""

    name: bytes
    size_bytes: int
    gate: int
    mode: int = 0o600
    given: int = 0

    def readinto(self, buffer: memoryview) -> int:
        half = self.size_bytes // 2
        if self.gate >= 0 and self.given == half:
            assert is_readable(self.gate, PATIENCE_SECONDS), "no one heard of the first half"
        end = half if self.given < half else self.size_bytes
        count = min(len(buffer), end - self.given)
        buffer[:count] = bytes(count)
        self.given += count
        return count

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class GatedSource:
    """A stream that comes whole, then one that comes half until the gate opens."""

    def __init__(self, gate: int) -> None:
        self._gate = gate

    def paths(self) -> tuple[bytes, ...]:
        return ()

    def streams(self) -> Iterator[GatedStream]:
        yield GatedStream(b"first", 32 * MEBIBYTE, -1)
        yield GatedStream(b"second", 32 * MEBIBYTE, self._gate)


def made_of(
    repository: Repository, source: Source, told: Told, level: str = "full"
) -> BackupReport:
    options = BackupOptions(host="web1", level=level, tuning=Tuning(shards=2))
    return back_up(repository, source, options, lambda: nullcontext(told))


def test_bytes_and_files_are_told_before_their_directory_is_settled(repository):
    gate, opens = os.pipe()

    def heard(told: Told) -> None:
        if told.files >= 1 and told.bytes >= 40 * MEBIBYTE:
            os.write(opens, b".")

    told = Told(heard)
    made_of(repository, GatedSource(gate), told)
    os.close(gate)
    os.close(opens)
    assert (told.files, told.bytes) == (2, 64 * MEBIBYTE)


def test_in_the_end_all_was_told_once(repository, source):
    for number in range(300):
        folder = source / f"folder{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"small{number}").write_bytes(os.urandom(number * 10))
        (folder / f"link{number}").symlink_to("elsewhere")
    (source / "large").write_bytes(os.urandom(70 * MEBIBYTE))
    with (source / "sparse").open("wb") as file:
        file.truncate(600 * MEBIBYTE)
        file.write(os.urandom(3 * MEBIBYTE))
    files = open_source("files", SourceRequest(arguments=(os.fsencode(source),)))
    for level in ("full", "incremental"):
        told = Told()
        report = made_of(repository, files, told, level)
        assert told.files == report.files
        assert told.bytes == report.size_bytes - 597 * MEBIBYTE, "holes are no work"
        (source / "folder3" / "small3").write_bytes(b"changed")
    assert report.files_read < report.files
