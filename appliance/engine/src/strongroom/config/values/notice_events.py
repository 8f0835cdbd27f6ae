"""The events that notices tell: their names, which of them are errors, and lists of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Severity = Literal["warning", "error"]

# Event -> how bad it is.
EVENTS: Final[dict[str, Severity]] = {
    "job-failed": "error",
    "job-incomplete": "warning",
    "path-missing": "warning",
    "backup-short": "error",
    "job-missing": "error",
    "job-overdue": "error",
    "job-late": "warning",
    "job-slow": "warning",
    "restore-test-failed": "error",
    "restore-test-overdue": "error",
    "certificate-expiring": "warning",
    "certificate-expired": "error",
    "token-expiring": "warning",
    "disk-nearly-full": "warning",
    "disk-filling": "warning",
    "disk-full": "error",
    "storage-unreachable": "error",
    "false-snapshot": "error",
    "snapshot-missing": "error",
    "catalog-unavailable": "error",
    "catalog-damaged": "error",
    "clock-jump": "warning",
    "clock-unsteady": "error",
    "two-agents": "error",
    "configuration-refused": "error",
    "notices-undelivered": "error",
}
ALL: Final = "all"
EVENT_WORDS: Final = (ALL, *EVENTS)


def chosen_events(words: Iterable[str]) -> frozenset[str]:
    """The events that a list chooses, `all` and `!` worked out in order."""
    chosen: set[str] = set()
    for word in words:
        name = word.removeprefix("!")
        names = set(EVENTS) if name == ALL else {name}
        chosen = chosen - names if word.startswith("!") else chosen | names
    return frozenset(chosen)
