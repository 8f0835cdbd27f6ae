"""Settings of a resource: a frozen dataclass, filled from the directives that its fields name.

A field has the name of a directive's attribute, and the type that is written for it says how it is
read. A reference is the name of what it refers to, "" where there is none.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, Final, TypeVar, cast

from strongroom.config.model import Resource
from strongroom.config.table.schema import ResourceSpec

_Settings = TypeVar("_Settings")
# Type of a field, as it is written -> method of Resource, and that for references.
_METHODS: Final = {
    "str": ("text", "name_of"),
    "int": ("number", "number"),
    "int | None": ("optional_number", "optional_number"),
    "bool": ("switch", "switch"),
    "tuple[str, ...]": ("texts", "names_of"),
}


def settings_of(settings: type[_Settings], resource: Resource, **others: object) -> _Settings:
    """The settings of a resource. others: fields that are no directive, or one of another name."""
    values: dict[str, Any] = dict(others)
    for name, method in _directives_of(cast("Any", settings), resource.spec):
        if name not in values:
            values[name] = getattr(resource, method)(name)
    return settings(**values)


@cache
def _directives_of(settings: Any, spec: ResourceSpec) -> tuple[tuple[str, str], ...]:
    """The fields that are directives of this resource, each with the method that reads it."""
    found = []
    for field in fields(settings):
        directive = spec.by_attribute.get(field.name)
        if directive is not None and field.type in _METHODS:
            is_reference = directive.type in ("RES", "ALIST_RES")
            found.append((field.name, _METHODS[str(field.type)][is_reference]))
    return tuple(found)
