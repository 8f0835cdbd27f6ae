"""Findings about the resources of a director, each at the directive that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.language.diagnostics import ERROR, WARNING

if TYPE_CHECKING:
    from strongroom.config.language.diagnostics import Diagnostics
    from strongroom.config.model import ComponentConfiguration, Resource
    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.config.settings.job import JobSettings
    from strongroom.config.trees.tree import Directive


@dataclass(frozen=True, slots=True)
class FeasibilityFindings:
    """What is judged, and where what is found goes."""

    component: ComponentConfiguration
    configuration: DirectorConfiguration
    diagnostics: Diagnostics

    def job_cannot_run(self, job: JobSettings, code: str, message: str, *attributes: str) -> None:
        """A job can never run: an error, of a disabled job a warning. See `at` for the place."""
        severity = ERROR if job.enabled else WARNING
        self.at(severity, code, f"{job.type} job {job.name} {message}", self.job(job), *attributes)

    def job_warning(self, job: JobSettings, code: str, message: str, *attributes: str) -> None:
        """A job does not run as it is written."""
        self.at(WARNING, code, f"{job.type} job {job.name} {message}", self.job(job), *attributes)

    def job(self, job: JobSettings) -> Resource:
        """The resource of a job, for its places."""
        return self.resource("Job", job.name)

    def resource(self, kind: str, name: str) -> Resource:
        """A resource that is there."""
        found = self.component.find(kind, name)
        assert found is not None
        return found

    def at(
        self, severity: str, code: str, message: str, resource: Resource, *attributes: str
    ) -> None:
        """A finding at the first of these attributes that is set, else at the resource."""
        report(self.diagnostics, severity, code, message, resource, *attributes)

    def at_directive(self, severity: str, code: str, message: str, directive: Directive) -> None:
        """A finding at one directive."""
        report_directive(self.diagnostics, severity, code, message, directive)


def report(
    diagnostics: Diagnostics,
    severity: str,
    code: str,
    message: str,
    resource: Resource,
    *attributes: str,
) -> None:
    """A finding at the first of these attributes that is set, else where the resource begins."""
    for attribute in attributes:
        if directives := resource.directives(attribute):
            report_directive(diagnostics, severity, code, message, directives[0])
            return
    block = resource.block
    diagnostics.add(severity, code, message, block.source, block.offset, len(block.spec.name))


def report_directive(
    diagnostics: Diagnostics, severity: str, code: str, message: str, directive: Directive
) -> None:
    """A finding at one directive."""
    source, offset = directive.source, directive.offset
    diagnostics.add(severity, code, message, source, offset, len(directive.spec.name))
