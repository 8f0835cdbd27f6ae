"""Two configurations compared by meaning: order, layout, spelling and files do not count.

A directive that states its default is no difference, nor is one that moved between a Job and its
JobDefs without changing the Job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strongroom.config.reports.effective import EffectiveValue, effective_values

if TYPE_CHECKING:
    from strongroom.config.model import Configuration, Resource


@dataclass(frozen=True, slots=True)
class ConfigurationDifference:
    """`kind` is added, removed or changed; a changed one names the directive and both values."""

    kind: str
    component: str
    type: str
    name: str
    directive: str = ""
    before: EffectiveValue | None = None
    after: EffectiveValue | None = None


def differences(before: Configuration, after: Configuration) -> list[ConfigurationDifference]:
    """What is different, by component, type and name."""
    found: list[ConfigurationDifference] = []
    left, right = _resources(before), _resources(after)
    for key in sorted(left.keys() | right.keys()):
        if key not in right:
            found.append(ConfigurationDifference("removed", *key))
        elif key not in left:
            found.append(ConfigurationDifference("added", *key))
        else:
            found += _changes(key, left[key], right[key])
    return found


def _resources(configuration: Configuration) -> dict[tuple[str, str, str], Resource]:
    return {
        (component, resource.type, resource.name): resource
        for component, tree in configuration.components.items()
        for resource in tree.resources
    }


def _changes(
    key: tuple[str, str, str], left: Resource, right: Resource
) -> list[ConfigurationDifference]:
    old, old_shown = _values(left)
    new, new_shown = _values(right)
    return [
        ConfigurationDifference("changed", *key, name, old_shown.get(name), new_shown.get(name))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def _values(resource: Resource) -> tuple[dict[str, Any], dict[str, EffectiveValue]]:
    """Values to compare, and values to show: secrets are compared, never shown."""
    return (
        {value.name: value.data for value in effective_values(resource, secrets=True)},
        {value.name: value for value in effective_values(resource)},
    )
