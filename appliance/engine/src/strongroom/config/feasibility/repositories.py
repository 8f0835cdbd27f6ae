"""Whether the director itself can reach the repositories that its own jobs work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.config.feasibility.findings import FeasibilityFindings
    from strongroom.config.settings.job import JobSettings


def judge_reach(findings: FeasibilityFindings, job: JobSettings, *storages: str) -> None:
    """Warn of each Storage ("" is passed over) that a job of the director's cannot reach.

    A configuration of Bareos knows no Repository, so this is no error.
    """
    for name in dict.fromkeys(storages):
        if name and not findings.configuration.storage(name).repository:
            message = f"cannot run: Storage {name} needs Repository, the director's way to it"
            findings.job_warning(job, "repository", message)
