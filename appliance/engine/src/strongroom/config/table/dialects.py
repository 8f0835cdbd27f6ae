"""Which language a tree is written in, and how severely it is judged.

`strongroom` is Bareos 26 with our own directives and values. A dialect says what is known
(introduced, deprecated, retired directives; Bacula's own). Strictness is a separate matter: strict
rejects exactly what the daemon of that dialect would reject; otherwise what is unknown or retired
is a warning, and parsing continues.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.base.errors import UsageError
from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.table.schema import DirectiveSpec, ResourceSpec, schema


@dataclass(frozen=True, slots=True)
class Dialect:
    """One product at one major version."""

    name: str
    family: str  # strongroom, bareos or bacula
    version: int

    @property
    def has_own(self) -> bool:
        """Whether Strongroom's own directives and values belong to this dialect."""
        return self.family == "strongroom"

    @property
    def is_bacula(self) -> bool:
        """Whether Bacula's directives and its laxer values belong to this dialect."""
        return self.family == "bacula"


STRONGROOM = Dialect("strongroom", "strongroom", 26)
BAREOS_26 = Dialect("bareos26", "bareos", 26)
DIALECTS: dict[str, Dialect] = {
    "strongroom": STRONGROOM,
    **{
        f"bareos{version}": Dialect(f"bareos{version}", "bareos", version)
        for version in range(23, 26)
    },
    "bareos26": BAREOS_26,
    **{
        f"bacula{version}": Dialect(f"bacula{version}", "bacula", version)
        for version in range(9, 16)
    },
}


def dialect_named(name: str | None, *, strict: bool = False) -> Dialect:
    """The dialect called `name`; without a name ours, or Bareos 26 with `strict`.

    Raises UsageError for a name that is not one.
    """
    if name is None:
        return BAREOS_26 if strict else STRONGROOM
    if name not in DIALECTS:
        raise UsageError(f"there is no dialect `{name}`; there are {', '.join(DIALECTS)}")
    return DIALECTS[name]


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
