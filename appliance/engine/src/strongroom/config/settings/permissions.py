"""Console, User and Profile resources: who may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from strongroom.config.model import Resource
from strongroom.config.settings.reading import settings_of

PermissionKind = Literal[
    "job", "client", "storage", "schedule", "pool", "command", "fileset", "where"
]
PERMISSION_KINDS: Final[tuple[PermissionKind, ...]] = get_args(PermissionKind)


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
        return settings_of(
            cls,
            resource,
            **{kind: resource.texts(f"{kind}_acl") for kind in PERMISSION_KINDS},
            profiles=() if resource.type == "Profile" else resource.names_of("profile"),
        )

    def entries(self, kind: PermissionKind) -> tuple[str, ...]:
        """The list of one kind; empty where it is not set."""
        entries: tuple[str, ...] = getattr(self, kind)
        return entries
