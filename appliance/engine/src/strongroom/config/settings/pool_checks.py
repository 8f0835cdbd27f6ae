"""Pools whose `Copy To` cannot be carried out."""

from __future__ import annotations

from strongroom.config.language.diagnostics import ERROR
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.job import copy_job_of
from strongroom.config.settings.pool import PoolSettings


def check_pool(
    findings: Findings, configuration: DirectorConfiguration, pool: PoolSettings
) -> None:
    """Report a Copy To that names nothing, leads back, or that the director cannot reach."""
    if not pool.copy_to:
        return
    (*_, directive) = findings.resource("Pool", pool.name).directives("copy_to")
    if fault := _fault(configuration, pool):
        known = [*configuration.storages, *configuration.pools]
        is_unknown = pool.copy_to not in known
        family = ("director", "Copy To")
        meant = findings.diagnostics.suggest(pool.copy_to, known, family) if is_unknown else ""
        findings.at_directive(ERROR, "copy-to", fault, directive, meant)


def _fault(configuration: DirectorConfiguration, pool: PoolSettings) -> str:
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
