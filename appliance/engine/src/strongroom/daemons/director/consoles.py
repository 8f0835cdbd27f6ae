"""The Console and User resources that certificates and tokens stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.config.settings.permissions import PermissionSettings
    from strongroom.daemons.director.results.access import Token


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
