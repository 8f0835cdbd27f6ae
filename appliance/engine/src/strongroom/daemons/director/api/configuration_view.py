"""The configuration as the API shows it: explicit directives, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongroom.config.model import Resource
from strongroom.config.reports.effective import effective_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.config.model import ComponentConfiguration
    from strongroom.config.reports.effective import EffectiveValue
    from strongroom.config.settings.permissions import PermissionKind
    from strongroom.daemons.director.api.rights import CallerRights

# Types of resources that permissions can name.
_JUDGED: dict[str, PermissionKind] = {
    "Job": "job",
    "Client": "client",
    "Storage": "storage",
    "Schedule": "schedule",
    "Pool": "pool",
    "FileSet": "fileset",
}


def visible_resources(
    configuration: ComponentConfiguration, rights: CallerRights
) -> list[Resource]:
    """The resources that a caller may see, by type and in reading order."""
    sees_all = rights.is_unlimited
    return [
        resource
        for resource in configuration.resources
        if sees_all
        or (
            resource.type in _JUDGED
            and rights.permits(_JUDGED[resource.type], resource.name)
            and (resource.type != "Job" or rights.permits("client", resource.name_of("client")))
        )
    ]


def visible_values(
    resource: Resource, rights: CallerRights, *, defaults: bool = False
) -> list[EffectiveValue]:
    """The values of a resource without references to what a caller may not see.

    defaults: also those that nobody has set.
    """
    hidden = set() if rights.is_unlimited else set(_hidden(resource, rights))
    values = effective_values(resource, defaults=defaults)
    return [value for value in values if value.name not in hidden]


def resource_object(resource: Resource, rights: CallerRights) -> dict[str, Any]:
    """A resource as plain data, without references to what a caller may not see."""
    return {
        "type": resource.type,
        "name": resource.name,
        "directives": {
            value.name: {"value": value.data, "origin": str(value.origin)}
            for value in visible_values(resource, rights)
        },
    }


def _hidden(resource: Resource, rights: CallerRights) -> Iterator[str]:
    """The directives that name a resource that is not permitted."""
    for spec in resource.spec.directives:
        value = resource.value(spec.attribute)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Resource):
                kind = _JUDGED.get(one.type)
                if kind is not None and not rights.permits(kind, one.name):
                    yield spec.shown_name
    if resource.type == "Job":
        # Its value is a text that names another job, and what that is to use.
        yield "Run"
