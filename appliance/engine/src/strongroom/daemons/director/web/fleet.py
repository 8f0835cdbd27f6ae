"""Which clients need somebody: those with something wrong first, then those without a backup.

What is wrong is what notices say; nothing is judged a second time here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strongroom.daemons.director.results.notices import OpenIncident
    from strongroom.daemons.director.results.resources import Client

_VERDICTS: Final = {
    "job-failed": "failed",
    "restore-test-failed": "failed",
    "job-missing": "late",
    "job-overdue": "late",
    "job-late": "late",
    "restore-test-overdue": "late",
    "job-incomplete": "incomplete",
}
VERDICTS: Final = ("failed", "late", "incomplete", "warning", "never", "well")


@dataclass(frozen=True, slots=True)
class JudgedClient:
    """A client, one of VERDICTS, and all that is wrong with it."""

    client: Client
    verdict: str
    problems: tuple[OpenIncident, ...]


def judged_clients(
    clients: Iterable[Client], problems: Iterable[OpenIncident]
) -> list[JudgedClient]:
    """The clients in the order of VERDICTS, within one the oldest backup first."""
    wrong: dict[str, list[OpenIncident]] = {}
    for one in problems:
        wrong.setdefault(one.client, []).append(one)
    found = [_judged(one, tuple(wrong.get(one.name, ()))) for one in clients]
    return sorted(
        found,
        key=lambda one: (
            VERDICTS.index(one.verdict),
            one.client.last_backup_ns,
            one.client.name,
        ),
    )


def _judged(client: Client, problems: tuple[OpenIncident, ...]) -> JudgedClient:
    verdicts = {_VERDICTS.get(one.event, "warning") for one in problems}
    if not client.last_backup_ns:
        verdicts.add("never")
    worst = next((one for one in VERDICTS if one in verdicts), "well")
    return JudgedClient(client, worst, problems)
