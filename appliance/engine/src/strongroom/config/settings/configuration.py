"""All settings of a director, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from strongroom.base.errors import ConfigurationError, UnknownNameError
from strongroom.config.model import ComponentConfiguration, Resource
from strongroom.config.settings.client import ClientSettings
from strongroom.config.settings.director import CatalogSettings, DirectorSettings
from strongroom.config.settings.fileset import FileSetSettings
from strongroom.config.settings.job import JobSettings, copy_job_of
from strongroom.config.settings.messages import MessagesSettings
from strongroom.config.settings.permissions import PermissionSettings
from strongroom.config.settings.pool import PoolSettings
from strongroom.config.settings.schedule import ScheduleSettings
from strongroom.config.settings.storage import StorageSettings

_Settings = TypeVar("_Settings")


class CopyTarget(NamedTuple):
    """Where copies of the snapshots of a pool go, and the pool to which they belong there."""

    storage: str
    pool: str


@dataclass(frozen=True, slots=True)
class DirectorConfiguration:
    """The director and all resources it knows, by name in reading order.

    jobs: also those that follow from the Copy To of a Pool, unless a Job has that name.
    catalog: the first one, None where there is none. client_groups: the JobDefs of which a client
    that joins a group gets jobs, in reading order. The lookups (`job`, `client` and so on) raise
    UnknownNameError for a name that there is not.
    """

    director: DirectorSettings
    catalog: CatalogSettings | None
    jobs: Mapping[str, JobSettings]
    clients: Mapping[str, ClientSettings]
    filesets: Mapping[str, FileSetSettings]
    pools: Mapping[str, PoolSettings]
    schedules: Mapping[str, ScheduleSettings]
    storages: Mapping[str, StorageSettings]
    messages: Mapping[str, MessagesSettings]
    consoles: Mapping[str, PermissionSettings]
    users: Mapping[str, PermissionSettings]
    profiles: Mapping[str, PermissionSettings]
    client_groups: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, component: ComponentConfiguration) -> DirectorConfiguration:
        """That of the director's component, which was found to be without errors.

        Raises ConfigurationError where there is no Director resource.
        """
        daemon = component.daemon
        if daemon is None:
            raise ConfigurationError("there is no Director resource; see strongroom config check")
        catalog = component.first("Catalog")

        def by_name(
            kind: str, settings: Callable[[Resource], _Settings]
        ) -> Mapping[str, _Settings]:
            found = component.of_type(kind).items()
            return MappingProxyType({name: settings(one) for name, one in found})

        jobs = by_name("Job", JobSettings.of)
        return cls(
            director=DirectorSettings.of(daemon),
            catalog=None if catalog is None else CatalogSettings.of(catalog),
            jobs=MappingProxyType({**_jobs_of_pools(component, jobs), **jobs}),
            clients=by_name("Client", ClientSettings.of),
            filesets=by_name("FileSet", FileSetSettings.of),
            pools=by_name("Pool", PoolSettings.of),
            schedules=by_name("Schedule", ScheduleSettings.of),
            storages=by_name("Storage", StorageSettings.of),
            messages=by_name("Messages", MessagesSettings.of),
            consoles=by_name("Console", PermissionSettings.of),
            users=by_name("User", PermissionSettings.of),
            profiles=by_name("Profile", PermissionSettings.of),
            client_groups=MappingProxyType(_client_groups(component)),
        )

    def job(self, name: str) -> JobSettings:
        """The Job of this name."""
        return _found(self.jobs, "Job", name)

    def client(self, name: str) -> ClientSettings:
        """The Client of this name."""
        return _found(self.clients, "Client", name)

    def fileset(self, name: str) -> FileSetSettings:
        """The FileSet of this name."""
        return _found(self.filesets, "FileSet", name)

    def pool(self, name: str) -> PoolSettings:
        """The Pool of this name."""
        return _found(self.pools, "Pool", name)

    def storage(self, name: str) -> StorageSettings:
        """The Storage of this name."""
        return _found(self.storages, "Storage", name)

    def storage_of(self, job: JobSettings) -> str:
        """The first enabled Storage of a job or else of its Pool; "" where all are disabled."""
        pool = self.pools.get(job.pool)
        names = job.storages or (pool.storages if pool is not None else ())
        return next((name for name in names if self.storage(name).enabled), "")

    def copy_target(self, pool: str) -> CopyTarget | None:
        """Where snapshots of a pool are copied by its Copy To; None without, or if disabled.

        A Storage keeps the copies in the same pool; a Pool takes them over, in its own Storage.
        """
        settings = self.pools.get(pool)
        if settings is None or not settings.copy_to:
            return None
        name = settings.copy_to
        other = self.pools.get(name)
        names, into = ((name,), pool) if other is None else (other.storages, other.name)
        storages = [one for one in names if one in self.storages and self.storages[one].enabled]
        return CopyTarget(storages[0], into) if storages else None

    def next_pool_of(self, job: JobSettings, pool: str, stated: str = "") -> PoolSettings | None:
        """Where a run of a copy job in `pool` copies to; None where nothing says it.

        stated: the Next Pool of the Run that starts it, which comes before that of the job.
        """
        from_pool = self.pools.get(pool)
        name = stated or job.next_pool or (from_pool.next_pool if from_pool is not None else "")
        return self.pools.get(name)


def _jobs_of_pools(
    component: ComponentConfiguration, jobs: Mapping[str, JobSettings]
) -> dict[str, JobSettings]:
    """The copy jobs of all Pools with Copy To, by name."""
    found: dict[str, JobSettings] = {}
    for name, pool in component.of_type("Pool").items():
        if pool.text("copy_to"):
            own = [*pool.names_of("storage")]
            own += [
                storage
                for job in jobs.values()
                if job.kind == "backup" and name in job.pools
                for storage in job.storages
            ]
            found[copy_job_of(name)] = JobSettings.of_pool(pool, tuple(dict.fromkeys(own)))
    return found


def _client_groups(component: ComponentConfiguration) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for name, jobdefs in component.of_type("JobDefs").items():
        for group in dict.fromkeys(jobdefs.texts("client_group")):
            groups[group] = (*groups.get(group, ()), name)
    return groups


def _found(resources: Mapping[str, _Settings], kind: str, name: str) -> _Settings:
    found = resources.get(name)
    if found is None:
        raise UnknownNameError(f"the director's configuration has no {kind} {name!r}")
    return found
