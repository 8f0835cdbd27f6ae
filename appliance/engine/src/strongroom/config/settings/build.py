"""A component's settings, built once and checked while they are.

The language of the configuration is right so far: references lead somewhere, nothing that is
required is missing. What its daemon could not carry out is reported.
"""

from __future__ import annotations

from strongroom.base.errors import UsageError
from strongroom.config.language.diagnostics import ERROR, Diagnostics
from strongroom.config.model import ComponentConfiguration
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.daemons import (
    check_agent,
    check_storage_daemon,
    listening_addresses,
)
from strongroom.config.settings.director import check_catalog
from strongroom.config.settings.fileset import check_fileset
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.job import JobSettings, copy_job_of
from strongroom.config.settings.job_checks import check_job
from strongroom.config.settings.machine import check_machine
from strongroom.config.settings.messages import check_messages
from strongroom.config.settings.pool import PoolSettings
from strongroom.config.settings.schedule import check_schedule, check_time_zone
from strongroom.config.settings.storage import check_devices, check_storage

_CHECKS = {"storage": check_storage_daemon, "agent": check_agent, "machine": check_machine}


def check_component(component: ComponentConfiguration, diagnostics: Diagnostics) -> None:
    """Report what any component but a director could not carry out."""
    check = _CHECKS.get(component.spec.name)
    findings = Findings(component, diagnostics)
    if check is not None and (component.spec.name == "machine" or _can_listen(findings)):
        check(findings)


def director_settings(
    component: ComponentConfiguration,
    diagnostics: Diagnostics,
    storage: ComponentConfiguration | None = None,
) -> DirectorConfiguration | None:
    """The settings of a director; None where it could not listen.

    storage: the storage daemon of the same tree, if it has one.
    """
    findings = Findings(component, diagnostics)
    if not _can_listen(findings):
        return None
    configuration = DirectorConfiguration.of(component)
    if configuration.catalog is not None:
        check_catalog(findings, configuration.catalog)
    _check_filesets(findings, configuration)
    for one in configuration.storages.values():
        check_storage(findings, one, len(configuration.clients))
    _check_limits(findings)
    _check_messages(findings, configuration)
    for pool in configuration.pools.values():
        _check_pool(findings, configuration, pool)
    for job in configuration.jobs.values():
        if not job.is_of_pool:
            check_job(findings, configuration, job)
    _check_schedules(findings, configuration)
    if storage is not None:
        check_devices(findings, configuration.storages, storage)
    return configuration


def device_warnings(
    director: ComponentConfiguration,
    settings: DirectorConfiguration,
    storage: ComponentConfiguration,
) -> tuple[str, ...]:
    """Of Devices that the storage daemon of the same tree does not serve, each with its place."""
    diagnostics = Diagnostics()
    check_devices(Findings(director, diagnostics), settings.storages, storage)
    return tuple(warning.head() for warning in diagnostics.sorted())


def _can_listen(findings: Findings) -> bool:
    daemon = findings.component.daemon
    if daemon is None:
        return False
    try:
        listening_addresses(daemon)
    except UsageError as error:
        findings.at(ERROR, "port", str(error), daemon, "addresses", "port")
        return False
    return True


def _check_filesets(findings: Findings, configuration: DirectorConfiguration) -> None:
    """Those of backup jobs; what no job uses is passed over."""
    used: dict[str, bool] = {}
    for job in configuration.jobs.values():
        if job.kind == "backup" and job.fileset:
            used[job.fileset] = used.get(job.fileset, False) or job.enabled
    for name, is_enabled in used.items():
        check_fileset(findings, configuration.fileset(name), is_enabled=is_enabled)


def _check_limits(findings: Findings) -> None:
    for kind in ("Director", "Client", "Storage"):
        for resource in findings.component.of_type(kind).values():
            if resource.optional_number("maximum_concurrent_jobs") == 0:
                title = f"{kind} {resource.name}"
                message = f"no job of {title} ever starts: Maximum Concurrent Jobs is 0"
                findings.warning("limit", message, resource, "maximum_concurrent_jobs")


def _check_messages(findings: Findings, configuration: DirectorConfiguration) -> None:
    for messages in findings.component.of_type("Messages").values():
        check_messages(findings, messages)
    of_director = configuration.director.messages
    notified = {one.name for one in configuration.messages.values() if one.notify}
    daemon = findings.component.daemon
    if notified and of_director not in notified and daemon is not None:
        message = (
            "problems of no single job (disks, certificates, the clock) are not reported: Messages "
            f"{of_director}, which the Director names, has no Notify block"
        )
        findings.warning("messages", message, daemon, "messages")


def _check_pool(
    findings: Findings, configuration: DirectorConfiguration, pool: PoolSettings
) -> None:
    """Report a Copy To that names nothing, leads back, or that the director cannot reach."""
    if not pool.copy_to:
        return
    (*_, directive) = findings.resource("Pool", pool.name).directives("copy_to")
    if fault := _copy_fault(configuration, pool):
        known = [*configuration.storages, *configuration.pools]
        is_unknown = pool.copy_to not in known
        family = ("director", "Copy To")
        meant = findings.diagnostics.suggest(pool.copy_to, known, family) if is_unknown else ""
        findings.at_directive(ERROR, "copy-to", fault, directive, meant)


def _copy_fault(configuration: DirectorConfiguration, pool: PoolSettings) -> str:
    """Why a pool cannot be copied, "" if it can be."""
    name, pools = pool.copy_to, configuration.pools
    if name in pools:
        if not pools[name].storages:
            return f"Copy To names the Pool {name}, which has no Storage"
        way = [pool.name]
        while (following := pools[way[-1]].copy_to) in pools:
            way.append(following)
            if following in way[:-1]:
                return f"Copy To leads back: {' -> '.join(way)}"
    elif name not in configuration.storages:
        return f"Copy To names {name}, which is neither a Storage nor a Pool"
    job = configuration.jobs[copy_job_of(pool.name)]
    if not job.is_of_pool:
        return f"its copy job would have the name of the Job {job.name}: give that another name"
    target = pools[name].storages[0] if name in pools else name
    if target in job.storages:
        return f"Copy To would copy Storage {target} to itself"
    for storage in (*job.storages, target):
        if not configuration.storages[storage].repository:
            return f"Copy To needs Repository in Storage {storage}, the director's way to it"
    return ""


def _check_schedules(findings: Findings, configuration: DirectorConfiguration) -> None:
    if findings.component.daemon is not None:
        zone = configuration.director.time_zone
        check_time_zone(findings, findings.component.daemon, zone)
    jobs_of: dict[str, list[JobSettings]] = {}
    for job in configuration.jobs.values():
        jobs_of.setdefault(job.schedule, []).append(job)
    for name, schedule in configuration.schedules.items():
        check_schedule(findings, schedule, jobs_of.get(name, ()))
