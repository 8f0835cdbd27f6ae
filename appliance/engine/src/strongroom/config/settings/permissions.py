"""Console, User and Profile resources: who may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from strongroom.config.model import Resource

PermissionKind = Literal[
    "job", "client", "storage", "schedule", "pool", "command", "fileset", "where"
]
PERMISSION_KINDS: Final[tuple[PermissionKind, ...]] = (
    "job",
    "client",
    "storage",
    "schedule",
    "pool",
    "command",
    "fileset",
    "where",
)


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """The lists (ACL) of a Console, User or Profile by kind, and the Profiles it names."""

    name: str
    job: tuple[str, ...]
    client: tuple[str, ...]
    storage: tuple[str, ...]
    schedule: tuple[str, ...]
    pool: tuple[str, ...]
    command: tuple[str, ...]
    fileset: tuple[str, ...]
    where: tuple[str, ...]
    profiles: tuple[str, ...]

    @classmethod
    def of(cls, resource: Resource) -> PermissionSettings:
        """Those of such a resource."""
        return cls(
            name=resource.name,
            job=resource.texts("job_acl"),
            client=resource.texts("client_acl"),
            storage=resource.texts("storage_acl"),
            schedule=resource.texts("schedule_acl"),
            pool=resource.texts("pool_acl"),
            command=resource.texts("command_acl"),
            fileset=resource.texts("fileset_acl"),
            where=resource.texts("where_acl"),
            profiles=() if resource.type == "Profile" else resource.names_of("profile"),
        )

    def entries(self, kind: PermissionKind) -> tuple[str, ...]:
        """The list of one kind; empty where nothing is said of it."""
        entries: tuple[str, ...] = getattr(self, kind)
        return entries
