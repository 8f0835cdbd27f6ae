"""Who asks, what he may see, and what is known of tokens and of what was done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.permissions import PermissionKind, PermissionSettings
from strongroom.director.results.formats import Time, served

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


def console_type(configuration: DirectorConfiguration, name: str) -> str:
    """The type of the resource of this name that defines rights: Console, User, or ""."""
    if name in configuration.consoles:
        return "Console"
    return "User" if name in configuration.users else ""


def console_named(
    configuration: DirectorConfiguration, name: str, resource_type: str
) -> PermissionSettings | None:
    """The Console or User of this name; None when there is none."""
    found = {"Console": configuration.consoles, "User": configuration.users}.get(resource_type, {})
    return found.get(name)


def missing_resource(configuration: DirectorConfiguration, token: Token) -> str:
    """The resource without which a token cannot be used, and which is gone; "" if none is."""
    if token.bound_to and console_named(configuration, token.name, token.bound_to) is None:
        return f"{token.bound_to} {token.name!r}"
    if token.profile and token.profile not in configuration.profiles:
        return f"Profile {token.profile!r}"
    return ""
