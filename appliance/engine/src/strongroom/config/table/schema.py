"""The one table of directives: what drives parsing, defaults, checks, printing and documentation.

Built at first use from `directives.json` beside this module. It lists what each resource has (its
own and Bareos's directives, then retired ones and Bacula's), and has a row for each directive:
`Name`, or `Resource.Name` and `component.Resource.Name` where it is another there. Of directives
that set a knob default and documentation are those of `strongroom.engine.knobs.table`. A
ComponentSpec holds resources, a ResourceSpec directives; a block inside a resource (Include,
Options, RunScript) is a ResourceSpec as well. Lookup is by key: the name in lower case without
blanks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from strongroom.config.table.types import VALUE_TYPES, ValueType, read_table
from strongroom.engine.knobs.table import knob_at

# The resource that is the daemon itself: exactly one must be there.
DAEMON_RESOURCES = {
    "director": "Director",
    "storage": "Storage",
    "agent": "Client",
    "console": "Director",
    "monitor": "Monitor",
    "machine": "Machine",
}
COMPONENTS = tuple(DAEMON_RESOURCES)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
# Parts of names that are one word to everybody -> how they are shown.
_JOINED = {"FileSet": "Fileset", "JobDefs": "Jobdefs", "XAttr": "Xattr", "XFlate": "Xflate"}
_SHOWN = {
    **{name: joined for joined, name in _JOINED.items()},
    **{name.capitalize(): name for name in read_table("types.json")["acronyms"]},
}


def key_of(name: str) -> str:
    """The key of a name: lower case, blanks gone."""
    return name.replace(" ", "").replace("\t", "").lower()


def name_words(name: str) -> list[str]:
    """The words of a name in the table: `MaximumFileSize` -> [Maximum, File, Size]."""
    for joined, single in _JOINED.items():
        name = name.replace(joined, single)
    return _WORD.findall(name)


@dataclass(frozen=True, slots=True)
class Retired:
    """A removed directive: since which Bareos, and what to write instead."""

    bareos_until: int
    instead: str


# Specs are compared and hashed by identity: there is one of each, and they are keys of caches.
@dataclass(frozen=True, slots=True, eq=False)
class DirectiveSpec:
    """One directive of one resource."""

    name: str
    type: str
    code: str = ""  # of a reference, the type of resource that it names
    required: bool = False
    default: str | None = None
    aliases: tuple[str, ...] = ()
    introduced: str = ""
    deprecated: str = ""
    own: bool = False
    bacula: bool = False
    retired: Retired | None = None
    description: str = ""
    instead: str = ""  # of a deprecated directive: what to do about it
    kind: ValueType = field(init=False)
    key: str = field(init=False)  # the name as lookup spells it
    attribute: str = field(init=False)  # the name in a program: `volume_retention_seconds`
    repeatable: bool = field(init=False)  # may stand several times, each adding to the last
    block: str = field(init=False)  # what its braces hold (Include, Options, RunScript), or ""

    def __post_init__(self) -> None:
        words = "_".join(word.lower() for word in name_words(self.name))
        kind = VALUE_TYPES[self.type]
        unit = kind.unit
        with_unit = words if not unit or words.endswith("_" + unit) else f"{words}_{unit}"
        exclude = self.name == "Exclude" and self.type == "INCEXC"
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "key", self.name.lower())
        object.__setattr__(self, "attribute", with_unit)
        object.__setattr__(self, "repeatable", kind.repeatable)
        object.__setattr__(self, "block", "Exclude" if exclude else kind.block)

    @property
    def shown_name(self) -> str:
        """The name as the printer writes it: `Volume Retention`."""
        return " ".join(_SHOWN.get(word, word) for word in name_words(self.name))


@dataclass(frozen=True, slots=True, eq=False)
class ResourceSpec:
    """A resource, or a block within one."""

    name: str
    component: str
    directives: tuple[DirectiveSpec, ...]
    by_key: dict[str, DirectiveSpec] = field(repr=False)
    by_attribute: dict[str, DirectiveSpec] = field(repr=False)
    deprecated: bool = False
    required: tuple[DirectiveSpec, ...] = ()  # the Name apart


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """What one daemon or program reads."""

    name: str
    resources: dict[str, ResourceSpec]  # by key
    aliases: dict[str, str]  # key of an alias that Bareos knows -> key of the resource
    bacula_aliases: dict[str, str]
    bacula_ignored: frozenset[str]  # keys of Bacula's resources that nothing here reads


def _resource(name: str, component: str, lines: list[str], table: dict[str, Any]) -> ResourceSpec:
    rows = table["directives"]
    by_key: dict[str, DirectiveSpec] = {}
    directives = tuple(_directive(one, component, name, rows) for one in " ".join(lines).split())
    for spec in directives:
        # The first of a name wins: ours and Bareos's are before retired ones and Bacula's.
        for alias in (spec.name, *spec.aliases):
            by_key.setdefault(alias.lower(), spec)
    by_attribute = {spec.attribute: spec for spec in reversed(directives)}
    required = tuple(spec for spec in directives if spec.required and spec.type != "NAME")
    deprecated = name in table["deprecated_resources"]
    return ResourceSpec(name, component, directives, by_key, by_attribute, deprecated, required)


def _directive(
    name: str, component: str, resource: str, rows: dict[str, dict[str, Any]]
) -> DirectiveSpec:
    """The row of a directive: that of its component, else of its resource, else of its name."""
    place = f"{component}.{resource}" if component else resource
    row = rows.get(f"{place}.{name}") or rows.get(f"{resource}.{name}") or rows[name]
    values = {**row, "aliases": tuple(row.get("aliases", ()))}
    if "retired" in row:
        values["retired"] = Retired(**row["retired"])
    spec = DirectiveSpec(name=name, **values)
    knob = knob_at(place, spec.key)
    if knob is None or spec.bacula:
        return spec
    # A directive that sets a knob has the knob's default and text.
    text = knob.summary
    if place == "director.Client" and "agent.Client" in knob.places and knob.kind == "number":
        text += " Where the director does not set it, the agent's own directive holds."
    return replace(spec, default=knob.directive_default, description=text)


@dataclass(frozen=True, slots=True)
class Schema:
    """The whole table."""

    components: dict[str, ComponentSpec]
    blocks: dict[str, ResourceSpec]


@cache
def schema() -> Schema:
    """The table, built once."""
    table = read_table("directives.json")

    def keys(name: str, component: str) -> dict[str, str]:
        aliases = table[name].get(component, {})
        return {alias.lower(): resource.lower() for alias, resource in aliases.items()}

    components = {
        component: ComponentSpec(
            component,
            {name.lower(): _resource(name, component, one, table) for name, one in found.items()},
            keys("resource_aliases", component),
            keys("bacula_resource_aliases", component),
            frozenset(
                name.lower() for name in table["bacula_ignored_resources"].get(component, ())
            ),
        )
        for component, found in table["resources"].items()
    }
    blocks = {name: _resource(name, "", one, table) for name, one in table["blocks"].items()}
    # An Exclude knows the names of an Include, so that errors can name what it may not contain.
    blocks["Exclude"] = replace(blocks["Include"], name="Exclude")
    return Schema(components, blocks)
