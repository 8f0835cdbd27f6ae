"""Judging a whole configuration whose language is right: see the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.feasibility.agent import judge_agent
from strongroom.config.feasibility.findings import FeasibilityFindings, report
from strongroom.config.feasibility.jobs import judge_jobs
from strongroom.config.feasibility.machine import judge_machine
from strongroom.config.feasibility.messages import judge_messages
from strongroom.config.feasibility.resources import judge_devices, judge_resources
from strongroom.config.feasibility.schedules import judge_schedules
from strongroom.config.feasibility.storage_daemon import judge_storage_daemon
from strongroom.config.language.diagnostics import ERROR, Diagnostics
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.listening import listening_addresses
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.model import ComponentConfiguration, Configuration


def judge(configuration: Configuration, diagnostics: Diagnostics) -> None:
    """Report what the daemons of a configuration could not carry out.

    The configuration has no errors so far: references lead somewhere, nothing that is required is
    missing.
    """
    if configuration.director is not None:
        judge_director(configuration.director, diagnostics, configuration.storage)
    if configuration.machine is not None:
        judge_machine(configuration.machine, diagnostics)
    for component, judged in (
        (configuration.storage, judge_storage_daemon),
        (configuration.agent, judge_agent),
    ):
        if component is not None and _can_listen(component, diagnostics):
            judged(component, diagnostics)


def judge_director(
    component: ComponentConfiguration,
    diagnostics: Diagnostics,
    storage: ComponentConfiguration | None,
) -> None:
    """Judge a director; `storage`: the storage daemon of the same tree, if it has one."""
    if not _can_listen(component, diagnostics):
        return
    findings = FeasibilityFindings(component, DirectorConfiguration.of(component), diagnostics)
    judge_resources(findings)
    judge_messages(findings)
    judge_jobs(findings)
    judge_schedules(findings)
    if storage is not None:
        judge_devices(findings, storage)


def device_warnings(
    director: ComponentConfiguration, storage: ComponentConfiguration
) -> tuple[str, ...]:
    """Of Devices that the storage daemon of the same tree does not serve, each with its place."""
    diagnostics = Diagnostics()
    findings = FeasibilityFindings(director, DirectorConfiguration.of(director), diagnostics)
    judge_devices(findings, storage)
    return tuple(warning.head() for warning in diagnostics.sorted())


def _can_listen(component: ComponentConfiguration, diagnostics: Diagnostics) -> bool:
    daemon = component.daemon
    if daemon is None:
        return False
    try:
        listening_addresses(daemon)
    except UsageError as error:
        report(diagnostics, ERROR, "port", str(error), daemon, "addresses", "port")
        return False
    return True
