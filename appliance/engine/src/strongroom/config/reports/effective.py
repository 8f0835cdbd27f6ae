"""Effective values: what `strongroom config show` prints and `strongroom config diff` compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from strongroom.base.errors import UsageError
from strongroom.config.model import Origin, Resource
from strongroom.config.resolve import Configuration
from strongroom.config.trees.printer import value_text
from strongroom.config.values.forms import Address, Destination, Password
from strongroom.config.values.measures import duration_words
from strongroom.config.values.run_schedule import ScheduleRun


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One line of `show`: a directive, its value as text and as plain data, and its origin."""

    name: str
    text: str
    data: Any
    origin: Origin


def effective_values(
    resource: Resource, *, defaults: bool = True, secrets: bool = False
) -> list[EffectiveValue]:
    """The values of a resource in the table's order; without `defaults` only what was set.

    Secrets are replaced by `***` unless `secrets`.
    """
    values = []
    for spec in resource.spec.directives:
        is_set = resource.is_set(spec.attribute)
        if not is_set and (not defaults or spec.retired or spec.bacula or spec.deprecated):
            continue
        value = resource.job_type if spec.key == "type" else resource.value(spec.attribute)
        if not is_set and value in (None, ()):
            continue
        data = plain(value, secrets=secrets)
        text = _text(data)
        if spec.type == "TIME" and isinstance(value, int):
            text = f"{value} ({duration_words(value)})" if value >= 60 else str(value)
        elif spec.type == "RUN":
            # Sets of numbers are for programs; a reader knows the words of the language.
            runs = [one for one in resource.block.directives if one.spec is spec]
            text = "; ".join(value_text(spec, one.raw, one.value) for one in runs)
        values.append(EffectiveValue(spec.shown_name, text, data, resource.origin(spec.attribute)))
    return values


def find_resources(configuration: Configuration, wanted: str) -> list[tuple[str, Resource]]:
    """The resources that `wanted` names, each with its component.

    `wanted` is a type (`Job`), a name (`nightly`), `TYPE/NAME`, any of them after `COMPONENT:`, or
    "" for all. Raises UsageError when nothing is meant by it.
    """
    component_name, colon, rest = wanted.partition(":")
    if not colon or component_name not in configuration.components:
        component_name, rest = "", wanted
    type_name, slash, name = rest.partition("/")
    found = []
    for component, tree in configuration.components.items():
        if component_name not in ("", component):
            continue
        for resource in tree.resources:
            same_type = resource.type.lower() == type_name.replace(" ", "").lower()
            exact = same_type and resource.name == name if slash else False
            if not rest or exact or resource.name == rest or (not slash and same_type):
                found.append((component, resource))
    if not found:
        raise UsageError(f"no resource matches `{wanted}`; write TYPE, NAME or TYPE/NAME")
    return found


def plain(value: Any, *, secrets: bool = False) -> Any:
    """A typed value as data for JSON; a reference is its name."""
    if isinstance(value, Resource):
        if value.name and value.spec.component:
            return value.name
        return {
            one.spec.shown_name: plain(value.value(one.spec.attribute), secrets=secrets)
            for one in value.block.directives
        }
    if isinstance(value, Password):
        shown = value.clear if value.clear is not None else f"[md5]{value.md5_hex}"
        return shown if secrets else "***"
    if isinstance(value, tuple):
        return [plain(one, secrets=secrets) for one in value]
    if isinstance(value, Destination):
        return {"addresses": list(value.addresses), "types": list(value.types)}
    if isinstance(value, Address):
        return {"family": value.family, "addr": value.host, "port": value.port}
    if isinstance(value, ScheduleRun):
        return run_data(value)
    return value


def run_data(run: ScheduleRun) -> dict[str, Any]:
    """A run as plain data: what it overrides, and the sets that hold less than everything."""
    everything = {
        "weekdays": range(7),
        "months": range(1, 13),
        "days": range(1, 32),
        "weeks_of_month": range(1, 6),
        "weeks_of_year": range(54),
    }
    data: dict[str, Any] = {}
    for field in ScheduleRun.__slots__:
        value = getattr(run, field)
        if value is None or (field in everything and value == tuple(everything[field])):
            continue
        if field in ("last_week", "last_day") and not value:
            continue
        data[field] = value
    return {key: list(one) if isinstance(one, tuple) else one for key, one in data.items()}


def _text(data: Any) -> str:
    if isinstance(data, bool):
        return "yes" if data else "no"
    if isinstance(data, list):
        return ", ".join(_text(one) for one in data)
    if isinstance(data, dict):
        return "{ " + "; ".join(f"{key} = {_text(one)}" for key, one in data.items()) + " }"
    return str(data)


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
    """What is different by meaning, by component, type and name.

    Order, layout, spelling and files do not count. A directive that states its default is no
    difference, nor is one that moved between a Job and its JobDefs without changing the Job.
    """
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
