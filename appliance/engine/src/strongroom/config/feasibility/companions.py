"""The `Run` directives of Jobs: whether what is to be started along with a job can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.settings.companions import LEVEL_OF_RUN, parse_companion
from strongroom.config.settings.levels import level_of
from strongroom.errors import StrongroomError, UsageError

if TYPE_CHECKING:
    from strongroom.config.feasibility.findings import FeasibilityFindings
    from strongroom.config.settings.job import JobSettings

# A level that the run of a job of this kind may have, for `%l`.
_LEVELS: Final = {"backup": "full", "verify": "client"}


def judge_companions(findings: FeasibilityFindings, job: JobSettings) -> None:
    """Judge the `Run` directives of a job."""
    if not job.companions:
        return
    severity = ERROR if job.enabled else WARNING
    for directive in findings.job(job).directives("run"):
        for text in directive.value:
            try:
                _judge(findings, job, text)
            except StrongroomError as error:
                findings.at_directive(severity, "run", f"Run of job {job.name}: {error}", directive)


def _judge(findings: FeasibilityFindings, job: JobSettings, text: str) -> None:
    """Raise UsageError or UnknownNameError for what cannot be started."""
    configuration = findings.configuration
    written = parse_companion(text)
    companion = written.at_level(_LEVELS.get(job.kind, ""))
    lookups = (
        (written.client, configuration.client),
        (written.fileset, configuration.fileset),
        (written.storage, configuration.storage),
        (written.pool, configuration.pool),
    )
    for name, lookup in lookups:
        if name and LEVEL_OF_RUN not in name:
            lookup(name)
    if LEVEL_OF_RUN in written.job:
        return
    started = configuration.job(companion.job)
    if started.kind == "restore":
        raise UsageError(f"{started.name} is a restore job, which needs a snapshot to start with")
    level_of(started.kind, companion.level or started.level)
