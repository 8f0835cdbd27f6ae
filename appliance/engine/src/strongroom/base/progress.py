"""How a job reports its progress; the caller that started the job decides how it is shown.

Jobs call `add` once a block or a page, never once a file, from any thread. The command line gives
them a live line, plain lines or JSON objects (strongroom.cli.live_progress); the agent sends them
to the director; a caller that needs no progress passes `NullProgress()`. All of them count with
`CountedProgress`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

import msgspec


class Progress(Protocol):
    """Counts of one job. Every method may be called from any thread and returns at once."""

    def total(
        self,
        files: int | None = None,
        bytes: int | None = None,  # noqa: A002
        *,
        is_estimate: bool = False,
    ) -> None:
        """Set the expected totals; None leaves a figure unchanged (unknown at first).

        is_estimate: the final figures may differ.
        """

    def add(
        self,
        files: int = 0,
        bytes: int = 0,  # noqa: A002
        stored_bytes: int = 0,
        errors: int = 0,
    ) -> None:
        """Count `files` and `bytes` as done, `stored_bytes` as written to the store.

        Negative values take back what a restarted job does again.
        """

    def stages(self, stage_seconds: Mapping[str, float], queued_blocks: int) -> None:
        """Say what the job's threads spent their time on so far, and how many blocks are queued."""

    def message(self, text: str) -> None:
        """Say what the job is doing now, in a few words (`writing the index`)."""


class Counts(msgspec.Struct, frozen=True):
    """The counts of one job at one moment; totals are None while they are unknown."""

    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    errors: int = 0
    total_files: int | None = None
    total_bytes: int | None = None
    total_is_estimate: bool = False
    message: str = ""
    stage_seconds: Mapping[str, float] = {}
    queued_blocks: int = 0


class CountedProgress:
    """A Progress that adds up the counts; `_lock` guards them and is never held for long."""

    def __init__(self, message: str = "") -> None:
        self._lock = threading.Lock()
        self._message = message
        self._files = self._bytes = self._stored_bytes = self._errors = 0
        self._total_files: int | None = None
        self._total_bytes: int | None = None
        self._total_is_estimate = False
        self._stage_seconds: Mapping[str, float] = {}
        self._queued_blocks = 0

    def total(
        self,
        files: int | None = None,
        bytes: int | None = None,  # noqa: A002
        *,
        is_estimate: bool = False,
    ) -> None:
        """Set the expected totals; None leaves a figure unchanged."""
        with self._lock:
            self._total_is_estimate = is_estimate
            self._total_files = self._total_files if files is None else files
            self._total_bytes = self._total_bytes if bytes is None else bytes

    def add(
        self,
        files: int = 0,
        bytes: int = 0,  # noqa: A002
        stored_bytes: int = 0,
        errors: int = 0,
    ) -> None:
        """Count as done."""
        with self._lock:
            self._files += files
            self._bytes += bytes
            self._stored_bytes += stored_bytes
            self._errors += errors

    def stages(self, stage_seconds: Mapping[str, float], queued_blocks: int) -> None:
        """Replace what the threads spent their time on."""
        with self._lock:
            self._stage_seconds, self._queued_blocks = stage_seconds, queued_blocks

    def message(self, text: str) -> None:
        """Replace the text that says what the job is doing."""
        with self._lock:
            self._message = text

    def counts(self) -> Counts:
        """The counts now."""
        with self._lock:
            return Counts(
                files=self._files,
                bytes=self._bytes,
                stored_bytes=self._stored_bytes,
                errors=self._errors,
                total_files=self._total_files,
                total_bytes=self._total_bytes,
                total_is_estimate=self._total_is_estimate,
                message=self._message,
                stage_seconds=self._stage_seconds,
                queued_blocks=self._queued_blocks,
            )


class NullProgress:
    """Counts nothing and shows nothing."""

    def total(
        self,
        files: int | None = None,
        bytes: int | None = None,  # noqa: A002
        *,
        is_estimate: bool = False,
    ) -> None:
        """Ignore the totals."""

    def add(
        self,
        files: int = 0,
        bytes: int = 0,  # noqa: A002
        stored_bytes: int = 0,
        errors: int = 0,
    ) -> None:
        """Ignore the counts."""

    def stages(self, stage_seconds: Mapping[str, float], queued_blocks: int) -> None:
        """Ignore them."""

    def message(self, text: str) -> None:
        """Ignore the text."""
