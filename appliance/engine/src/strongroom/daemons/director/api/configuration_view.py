"""The configuration as the API shows it: explicit directives, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongroom.config.reports.effective import effective_values

if TYPE_CHECKING:
    from strongroom.config.model import ComponentConfiguration, Resource
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
        or (resource.type in _JUDGED and rights.permits(_JUDGED[resource.type], resource.name))
    ]


def resource_object(resource: Resource) -> dict[str, Any]:
    """A resource as plain data."""
    return {
        "type": resource.type,
        "name": resource.name,
        "directives": {
            value.name: {"value": value.data, "origin": str(value.origin)}
            for value in effective_values(resource, defaults=False)
        },
    }
