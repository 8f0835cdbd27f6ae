"""Jobs: their levels, what a Verify job verifies, and what restores take from their job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.feasibility.admin_jobs import judge_admin_job
from strongroom.config.feasibility.companions import judge_companions
from strongroom.config.feasibility.copy_jobs import judge_copy_job
from strongroom.config.feasibility.repositories import judge_reach
from strongroom.config.feasibility.run_scripts import judge_run_scripts
from strongroom.config.settings.levels import NOTHING_TO_DO, level_of
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.feasibility.findings import FeasibilityFindings
    from strongroom.config.settings.job import JobSettings


def judge_jobs(findings: FeasibilityFindings) -> None:
    """Judge all Job resources."""
    for job in findings.configuration.jobs.values():
        if (refusal := NOTHING_TO_DO.get(job.type)) is not None:
            findings.job_cannot_run(job, "type", refusal, "type")
            continue
        if job.speaks_ndmp:
            _ndmp(findings, job)
        try:
            level_of(job.kind, job.level)
        except UsageError as error:
            findings.job_cannot_run(job, "level", f"cannot have its level: {error}", "level")
        if job.kind == "verify":
            _verify(findings, job)
        elif job.kind == "restore":
            _restore(findings, job)
        elif job.kind == "copy":
            judge_copy_job(findings, job)
        elif job.kind == "admin":
            judge_admin_job(findings, job)
        if job.kind in ("backup", "admin"):
            _storage(findings, job)
        if job.maximum_concurrent_jobs == 0:
            message = "never starts: its Maximum Concurrent Jobs is 0"
            findings.job_warning(job, "limit", message, "maximum_concurrent_jobs")
        judge_run_scripts(findings, job)
        judge_companions(findings, job)


def _ndmp(findings: FeasibilityFindings, job: JobSettings) -> None:
    if job.kind == "restore":
        message = "speaks NDMP, which is not supported; restores take another Restore job"
        findings.job_warning(job, "protocol", message, "protocol")
    else:
        message = "speaks NDMP, which is not supported: back the files up with an agent that has "
        message += "them mounted, or say Enabled = no"
        findings.job_cannot_run(job, "protocol", message, "protocol")


def _storage(findings: FeasibilityFindings, job: JobSettings) -> None:
    """A job that takes its own Storage finds all of them disabled."""
    configuration = findings.configuration
    if configuration.storage_of(job):
        return
    schedule = configuration.schedules.get(job.schedule)
    if schedule is not None and all(run.storage for run in schedule.runs):
        return
    message = "cannot run: every Storage of it (or of its Pool) is disabled"
    findings.job_warning(job, "storage", message, "storage")


def _verify(findings: FeasibilityFindings, job: JobSettings) -> None:
    configuration = findings.configuration
    verified = configuration.jobs.get(job.job_to_verify)
    if verified is None:
        message = "needs Job To Verify, the backup whose snapshots it verifies"
        findings.job_cannot_run(job, "job-to-verify", message)
    elif verified.kind != "backup":
        message = f"verifies {verified.name}, a job of Type {verified.type}, which has no snapshots"
        findings.job_cannot_run(job, "job-to-verify", message, "job_to_verify")
    else:
        judge_reach(findings, job, configuration.storage_of(verified))


def _restore(findings: FeasibilityFindings, job: JobSettings) -> None:
    if job.schedule:
        message = f"is not started by its Schedule {job.schedule}: a restore needs a snapshot"
        findings.job_warning(job, "schedule", message, "schedule")
    if job.run_on_incoming_connect_interval_seconds:
        message = "is not started when its client connects: a restore needs a snapshot"
        attribute = "run_on_incoming_connect_interval_seconds"
        findings.job_warning(job, "schedule", message, attribute)
    if job.where and (not job.where.startswith("/") or ".." in job.where.split("/")):
        message = f"cannot restore to {job.where}: Where is an absolute path without `..`"
        findings.job_warning(job, "where", message, "where")
