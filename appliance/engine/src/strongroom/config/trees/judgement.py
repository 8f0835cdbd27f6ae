"""Whether a directive of the table may be used in a dialect, and what to report about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.table.schema import schema

if TYPE_CHECKING:
    from strongroom.config.table.dialects import Dialect
    from strongroom.config.table.schema import DirectiveSpec, ResourceSpec


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to report at the directive; with `severity` "" nothing."""

    severity: str = ""
    code: str = ""
    message: str = ""


_FINE = Verdict()


def _major(version: str) -> int:
    return int(version.split(".", 1)[0])


def verdict_on(
    spec: DirectiveSpec, resource: ResourceSpec, dialect: Dialect, *, strict: bool
) -> Verdict:
    """The verdict on using `spec` in `resource`."""
    place = f"{spec.shown_name} in {resource.name}"
    rejected = ERROR if strict else WARNING
    if spec.own and dialect.has_own:
        return _FINE
    if spec.retired is not None:
        if dialect.is_bacula or dialect.version <= spec.retired.bareos_until:
            return _FINE
        return Verdict(
            rejected, "retired", f"{place} was removed from the language; {spec.retired.instead}"
        )
    if spec.own:
        return Verdict(
            rejected, "own", f"{place} is a directive of Strongroom's that {dialect.name} rejects"
        )
    if spec.bacula and not dialect.is_bacula:
        return Verdict(rejected, "bacula", f"{place} is a directive of Bacula's and has no effect")
    if dialect.is_bacula:
        return _FINE
    if spec.introduced and _major(spec.introduced) > dialect.version:
        return Verdict(
            rejected, "introduced", f"{place} came with {spec.introduced}, after {dialect.name}"
        )
    if spec.deprecated and _major(spec.deprecated) <= dialect.version:
        hint = f"; {spec.instead}" if spec.instead else ""
        message = f"{place} is deprecated since {spec.deprecated}{hint}"
        return Verdict(WARNING, "deprecated", message)
    return _FINE


def where_else(key: str, resource: ResourceSpec) -> str:
    """Where a directive belongs that `resource` does not know: "" or " (it belongs to ...)".

    The same resource of another daemon comes first: `Working Directory` in the director's Client
    was meant for the agent's.
    """
    places = [
        (
            other.name == resource.name,
            component.name == resource.component,
            component.name,
            other.name,
        )
        for component in schema().components.values()
        for other in component.resources.values()
        if key in other.by_key and not other.by_key[key].bacula and not other.by_key[key].retired
    ]
    places += [
        (False, False, "", block.name)
        for block in schema().blocks.values()
        if key in block.by_key and block.name != resource.name
    ]
    if not places:
        return ""
    _, _, component, name = max(places, key=lambda place: place[:2])
    owner = f"{name} of the {component}" if component and component != resource.component else name
    return f" (it belongs to {owner})"
