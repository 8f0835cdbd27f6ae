"""What a director is told besides jobs and schedules: catalog, FileSets, storages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.feasibility.findings import FeasibilityFindings
    from strongroom.config.model import ComponentConfiguration, Resource


def judge_resources(findings: FeasibilityFindings) -> None:
    """Judge them; what no job uses is passed over where only jobs would notice."""
    _catalog(findings)
    _filesets(findings)
    for name, storage in findings.configuration.storages.items():
        resource = findings.resource("Storage", name)
        _repository(findings, resource, storage.repository)
        _sharing(findings, resource, storage.share_chunks_from)
        _thresholds(findings, resource)
    for kind in ("Director", "Client", "Storage"):
        for resource in findings.component.of_type(kind).values():
            if resource.optional_number("maximum_concurrent_jobs") == 0:
                title = f"{kind} {resource.name}"
                message = f"no job of {title} ever starts: Maximum Concurrent Jobs is 0"
                findings.at(WARNING, "limit", message, resource, "maximum_concurrent_jobs")


def judge_devices(findings: FeasibilityFindings, storage: ComponentConfiguration) -> None:
    """Warn of Devices that the storage daemon of the same tree does not serve.

    Where a Storage has the name of that daemon, others at another address are other daemons.
    """
    daemon = storage.daemon
    if daemon is None:
        return
    served = {*storage.of_type("Device"), *storage.of_type("Autochanger")}
    storages = findings.configuration.storages
    namesake = storages.get(daemon.name)
    for name, one in storages.items():
        if namesake is not None and (one.address, one.port) != (namesake.address, namesake.port):
            continue
        if missing := next((device for device in one.devices if device not in served), ""):
            known = ", ".join(sorted(served)) or "none"
            message = f"the storage daemon {daemon.name} serves no Device {missing}; it has {known}"
            resource = findings.resource("Storage", name)
            findings.at(WARNING, "device", message, resource, "device")


def _catalog(findings: FeasibilityFindings) -> None:
    catalog = findings.configuration.catalog
    if catalog is None:
        return
    resource = findings.resource("Catalog", catalog.name)
    driver = resource.text("db_driver")
    if driver.lower().startswith(("mysql", "mariadb")):
        message = (
            f"Catalog {catalog.name} is one of {driver}, which is not supported: remove DB Driver, "
            "and name a database of PostgreSQL by DB Address or DB Socket, or none of them for "
            "SQLite"
        )
        findings.at(ERROR, "database", message, resource, "db_driver")
    if catalog.db_password and catalog.password_file:
        message = f"Catalog {catalog.name} has both a DB Password and a Password File"
        findings.at(ERROR, "password", message, resource, "password_file")


def _repository(findings: FeasibilityFindings, storage: Resource, place: str) -> None:
    if not place or place.startswith("/"):
        return
    from strongroom.net.storage.place import parse_place

    fault = (
        f"{place}: a Repository is the absolute path of a folder, or unix:PATH of the storage "
        "daemon's socket"
    )
    if place.startswith("unix:"):
        try:
            parse_place(place)
        except UsageError as error:
            fault = str(error)
        else:
            return
    findings.at(ERROR, "repository", fault, storage, "repository")


def _sharing(findings: FeasibilityFindings, storage: Resource, holders: int) -> None:
    """A threshold that somebody wrote down and that no chunk can reach."""
    clients = len(findings.configuration.clients)
    if storage.is_set("share_chunks_from") and holders > clients:
        message = (
            f"Storage {storage.name} never shares a chunk: Share Chunks From is {holders}, and the "
            f"configuration has {clients} Clients"
        )
        findings.at(WARNING, "limit", message, storage, "share_chunks_from")


def _thresholds(findings: FeasibilityFindings, storage: Resource) -> None:
    nearly, full = storage.number("nearly_full_at"), storage.number("full_at")
    if max(nearly, full) > 100:
        message = "Nearly Full At and Full At are percent: 100 is the most"
        findings.at(ERROR, "threshold", message, storage, "full_at", "nearly_full_at")
    elif full and storage.is_set("nearly_full_at") and nearly > full:
        message = f"Nearly Full At ({nearly} percent) is above Full At ({full} percent)"
        findings.at(ERROR, "threshold", message, storage, "nearly_full_at", "full_at")


def _filesets(findings: FeasibilityFindings) -> None:
    """FileSets of backup jobs that run commands of the director, or choose nothing."""
    configuration = findings.configuration
    used: dict[str, bool] = {}
    for job in configuration.jobs.values():
        if job.kind == "backup" and job.fileset:
            used[job.fileset] = used.get(job.fileset, False) or job.enabled
    for name, is_enabled in used.items():
        severity = ERROR if is_enabled else WARNING
        resource = findings.resource("FileSet", name)
        blocks = (*resource.blocks("include"), *resource.blocks("exclude"))
        for directive in (one for block in blocks for one in block.directives("file")):
            if str(directive.value).startswith("|"):
                message = (
                    f"FileSet {name} runs a command on the director for a list of files, which is "
                    r"not allowed; on the agent it would be \|"
                )
                findings.at_directive(severity, "fileset", message, directive)
        includes = configuration.fileset(name).includes
        if not any(include.files or include.plugins for include in includes):
            message = f"FileSet {name} has no File and no Plugin, so nothing is backed up"
            findings.at(WARNING, "fileset", message, resource, "include")
