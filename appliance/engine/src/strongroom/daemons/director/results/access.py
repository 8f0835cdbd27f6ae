"""Who asks, what he may see, and what is known of tokens and of what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.daemons.director.served_formats import Time, served

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.config.settings.permissions import PermissionKind

    # Whether a caller may see a resource: its kind ("job", "client", ...) and its name.
    Permits = Callable[[PermissionKind, str], bool]


def permits_all(kind: PermissionKind, name: str) -> bool:
    """The director itself may see everything."""
    return True


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller: for the audit log, and for `requested_by` of a run."""

    name: str
    role: str
    address: str = ""

    @property
    def title(self) -> str:
        """The caller's name in logs and `requested_by`."""
        return f"{self.role} {self.name}".strip()


@served()
@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An action of an actor; result: "done", or the id of the error.

    jobs, clients: the names of those that it was about.
    """

    id: int
    time_ns: Time
    who: str
    role: str
    action: str
    object: str
    result: str
    address: str
    jobs: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


@served()
@dataclass(frozen=True, slots=True)
class Token:
    """A token of the API, without its text, which is not stored.

    profile: restricts it to that profile's permissions. bound_to: the type of the resource of its
    name whose permissions it has, and with which it ends: Console, User, or "" for none.
    """

    id: str
    name: str
    profile: str
    bound_to: str
    created_ns: Time
    expires_ns: Time
    last_used_ns: Time
