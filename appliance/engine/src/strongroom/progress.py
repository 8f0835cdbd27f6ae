"""How a job tells what it has done so far; whoever started the job decides how that is shown.

Jobs call `add` once a block or a page, never once a file, from any thread. The command line gives
them a live line, plain lines or JSON objects (strongroom.cli.live_progress); the agent sends them
to the director; whoever does not care passes `NullProgress()`.
"""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Counts of one job. Every method may be called from any thread and returns at once."""

    def total(
        self,
        files: int | None = None,
        bytes: int | None = None,  # noqa: A002
        *,
        is_estimate: bool = False,
    ) -> None:
        """Set what is expected in the end; None leaves a figure as it was (unknown at first).

        is_estimate: it may come to something else.
        """

    def add(
        self,
        files: int = 0,
        bytes: int = 0,  # noqa: A002
        stored_bytes: int = 0,
        errors: int = 0,
    ) -> None:
        """Count `files` and `bytes` as done, `stored_bytes` as written to the store.

        Less than nothing takes back what a job that begins anew does again.
        """

    def message(self, text: str) -> None:
        """Say what the job is doing now, in a few words (`writing the index`)."""


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

    def message(self, text: str) -> None:
        """Ignore the text."""
