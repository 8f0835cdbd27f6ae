"""Copy jobs: from where to where, and what they choose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strongroom.config.feasibility.repositories import judge_reach

if TYPE_CHECKING:
    from strongroom.config.feasibility.findings import FeasibilityFindings
    from strongroom.config.settings.job import JobSettings
    from strongroom.config.values.run_schedule import ScheduleRun

SELECTION_TYPES: Final = ("PoolUncopiedJobs", "Job", "Client")


def judge_copy_job(findings: FeasibilityFindings, job: JobSettings) -> None:
    """Judge a job of Type Copy or Migrate."""
    if job.type == "Migrate":
        message = "copies, and removes nothing: the originals stay until their retention ends"
        findings.job_warning(job, "type", message, "type")
    if job.selection_type and job.selection_type not in SELECTION_TYPES:
        known = ", ".join(SELECTION_TYPES)
        message = f"cannot select by {job.selection_type}: there are {known}"
        findings.job_cannot_run(job, "selection", message, "selection_type")
    try:
        re.compile(job.selection_pattern)
    except re.error as error:
        message = f"has a Selection Pattern that is no regular expression: {error}"
        findings.job_cannot_run(job, "selection", message, "selection_pattern")
    faults = [_fault(findings, job, run) for run in _runs(findings, job)]
    attributes = ("next_pool", "pool")
    for fault in dict.fromkeys(filter(None, faults)):
        if all(faults):
            findings.job_cannot_run(job, "next-pool", fault, *attributes)
        else:
            findings.job_warning(job, "next-pool", f"as its Schedule has it {fault}", *attributes)


def _runs(findings: FeasibilityFindings, job: JobSettings) -> tuple[ScheduleRun | None, ...]:
    """The ways in which a job is started; None as it is itself."""
    schedule = findings.configuration.schedules.get(job.schedule)
    return (schedule.runs if schedule is not None else ()) or (None,)


def _fault(findings: FeasibilityFindings, job: JobSettings, run: ScheduleRun | None) -> str:
    """What a run lacks, "" for nothing."""
    configuration = findings.configuration
    source = (run.storage if run is not None else "") or configuration.storage_of(job)
    if not source:
        return "needs a Storage (its own or its Pool's) to copy from"
    pool = (run.pool if run is not None else "") or job.pool
    target_pool = configuration.next_pool_of(job, pool, (run and run.next_pool) or "")
    if target_pool is None:
        return "needs a Next Pool (its own or its Pool's) to copy to"
    if not target_pool.storages:
        return f"cannot copy to its Next Pool {target_pool.name}, which has no Storage"
    target = target_pool.storages[0]
    if target == source:
        return f"would copy Storage {source} to itself: its Next Pool needs another Storage"
    judge_reach(findings, job, source, target)
    return ""
