"""The one table of directives: what drives parsing, defaults, checks, printing and documentation.

Built at first use from data files beside this module: Bareos's directives, our own (marked `own`,
with their documentation), those that were retired, and Bacula's. Of directives that set a knob
default and documentation are those of `strongroom.knobs.table`. A ComponentSpec holds resources,
a ResourceSpec directives; a block inside a resource (Include, Options, RunScript) is a
ResourceSpec as well. Lookup is by key: the name in lower case without blanks.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from strongroom.knobs.table import knob_at

COMPONENTS = ("director", "storage", "agent", "console", "monitor", "machine")
# Code of a reference in the table -> type of the resource it names.
REFERENCE_TYPES = {
    "R_MSGS": "Messages",
    "R_CATALOG": "Catalog",
    "R_POOL": "Pool",
    "R_CLIENT": "Client",
    "R_FILESET": "FileSet",
    "R_SCHEDULE": "Schedule",
    "R_JOB": "Job",
    "R_JOBDEFS": "JobDefs",
    "R_STORAGE": "Storage",
    "R_PROFILE": "Profile",
    "R_DEVICE": "Device",
    "R_COUNTER": "Counter",
}
# The resource that is the daemon itself: exactly one must be there.
DAEMON_RESOURCES = {
    "director": "Director",
    "storage": "Storage",
    "agent": "Client",
    "console": "Director",
    "monitor": "Monitor",
    "machine": "Machine",
}
BLOCK_OF_TYPE = {
    "INCEXC": "Include",
    "NOTIFY": "Notify",
    "OPTIONS": "Options",
    "RUNSCRIPT": "RunScript",
}
# Types whose directive may be given several times; each adds to what was there.
REPEATABLE_TYPES = frozenset(
    (
        "ACL",
        "ALIST_DIR",
        "ALIST_RES",
        "ALIST_STR",
        "AUDIT",
        "DEVICE",
        "DRIVETYPE",
        "EXCLUDEDIR",
        "FNAME",
        "FOLDERS",
        "FSTYPE",
        "INCEXC",
        "META",
        "MSGS",
        "NOTICE_EVENTS",
        "NOTIFY",
        "OPTIONS",
        "PLUGINNAME",
        "PLUGIN_NAMES",
        "REGEX",
        "RUN",
        "RUNSCRIPT",
        "RUNSCRIPT_CMD",
        "SHRTRUNSCRIPT",
        "STR_VECTOR",
        "STR_VECTOR_OF_DIRS",
        "WILD",
    )
)
_UNITS = {
    "TIME": "seconds",
    "SIZE32": "bytes",
    "SIZE64": "bytes",
    "MAXBLOCKSIZE": "bytes",
    "SPEED": "bytes_per_second",
}
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
# Parts of names that are one word to everybody -> how they are shown.
_JOINED = {"FileSet": "Fileset", "JobDefs": "Jobdefs", "XAttr": "Xattr", "XFlate": "Xflate"}
_SHOWN = {
    "Fileset": "FileSet",
    "Jobdefs": "JobDefs",
    "Xattr": "XAttr",
    "Xflate": "XFlate",
    "Tls": "TLS",
    "Ktls": "kTLS",
    "Ndmp": "NDMP",
    "Acl": "ACL",
    "Fd": "FD",
    "Sd": "SD",
    "Fs": "FS",
    "Db": "DB",
    "Pki": "PKI",
    "Ca": "CA",
    "Smtp": "SMTP",
    "Url": "URL",
    "Cn": "CN",
    "Dh": "DH",
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
    code: str = ""
    required: bool = False
    default: str | None = None
    aliases: tuple[str, ...] = ()
    introduced: str = ""
    deprecated: str = ""
    no_equals: bool = False
    own: bool = False
    bacula: bool = False
    retired: Retired | None = None
    description: str = ""
    instead: str = ""  # of a deprecated directive: what to do about it
    key: str = field(init=False)  # the name as lookup spells it
    attribute: str = field(init=False)  # the name in a program: `volume_retention_seconds`
    repeatable: bool = field(init=False)  # may stand several times, each adding to the last
    block: str = field(init=False)  # what its braces hold (Include, Options, RunScript), or ""

    def __post_init__(self) -> None:
        words = "_".join(word.lower() for word in name_words(self.name))
        unit = _UNITS.get(self.type, "")
        with_unit = words if not unit or words.endswith("_" + unit) else f"{words}_{unit}"
        exclude = self.name == "Exclude" and self.type == "INCEXC"
        object.__setattr__(self, "key", self.name.lower())
        object.__setattr__(self, "attribute", with_unit)
        object.__setattr__(self, "repeatable", self.type in REPEATABLE_TYPES)
        object.__setattr__(
            self, "block", "Exclude" if exclude else BLOCK_OF_TYPE.get(self.type, "")
        )

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

    @property
    def attribute(self) -> str:
        """What a program calls all resources of this type: `jobs`, `filesets`."""
        words = "_".join(word.lower() for word in name_words(self.name))
        return words if words.endswith("s") else words + "s"


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """What one daemon or program reads."""

    name: str
    resources: dict[str, ResourceSpec]  # by key
    aliases: dict[str, str]  # key of an alias that Bareos knows -> key of the resource
    bacula_aliases: dict[str, str]
    bacula_ignored: frozenset[str]  # keys of Bacula's resources that nothing here reads


def _spec(row: dict[str, Any], **more: Any) -> DirectiveSpec:
    return DirectiveSpec(
        name=row["name"],
        type=row["type"],
        code=str(row.get("code", "")),
        required=row.get("required", False),
        default=row.get("default"),
        aliases=tuple(row.get("aliases", ())),
        introduced=row.get("introduced", ""),
        deprecated=row.get("deprecated", ""),
        no_equals=row.get("no_equals", False),
        description=row.get("description", ""),
        **more,
    )


def _resource(
    name: str, component: str, specs: list[DirectiveSpec], *, deprecated: bool = False
) -> ResourceSpec:
    by_key: dict[str, DirectiveSpec] = {}
    for spec in specs:
        # The first entry of a key wins: ours and Bareos's before retired ones and Bacula's.
        for alias in (spec.name, *spec.aliases):
            by_key.setdefault(alias.lower(), spec)
    listed = tuple(dict.fromkeys(by_key[spec.key] for spec in specs))
    by_attribute = {spec.attribute: spec for spec in reversed(listed)}
    required = tuple(spec for spec in listed if spec.required and spec.type != "NAME")
    return ResourceSpec(name, component, listed, by_key, by_attribute, deprecated, required)


def _read(name: str) -> Any:
    return json.loads(
        (resources.files("strongroom.config.table") / "data" / name).read_text("utf-8")
    )


def _applies(places: str, component: str, resource: str) -> bool:
    return f"{component}.{resource}" in places.split()


@dataclass(frozen=True, slots=True)
class Schema:
    """The whole table."""

    components: dict[str, ComponentSpec]
    blocks: dict[str, ResourceSpec]


@cache
def schema() -> Schema:
    """The table, built once."""
    bareos = _read("bareos_directives.json")
    own_rows = _read("own_directives.json")
    retired_rows = _read("retired_directives.json")
    bacula = _read("bacula_directives.json")
    descriptions = _read("descriptions.json")
    replacements = _read("deprecated_replacements.json")
    components = {}
    for component, tables in bareos["components"].items():
        specs_of = {}
        for resource, rows in tables.items():
            specs = [_spec(row) for row in rows]
            present = {spec.key for spec in specs}
            retired = {
                row["name"]: row for row in retired_rows if _applies(row["in"], component, resource)
            }
            specs += [
                _spec(row, own=True, retired=_retired(retired.get(row["name"])))
                for row in own_rows
                if _applies(row["in"], component, resource) and row["name"].lower() not in present
            ]
            specs += [_spec(row, retired=_retired(row)) for row in retired.values()]
            specs += [
                DirectiveSpec(name=name, type=kind, bacula=True)
                for group in bacula["directives"]
                if _applies(group["in"], component, resource)
                for name, kind in group["names"].items()
            ]
            specs = [
                _described(
                    _of_knob(spec, f"{component}.{resource}"), resource, descriptions, replacements
                )
                for spec in specs
            ]
            specs_of[resource.lower()] = _resource(
                resource, component, specs, deprecated=resource == "Counter"
            )
        components[component] = ComponentSpec(
            component,
            specs_of,
            {"filedaemon": "client"} if component == "agent" else {},
            {
                alias.lower(): name.lower()
                for alias, name in bacula["resource_aliases"].get(component, {}).items()
            },
            frozenset(name.lower() for name in bacula["ignored_resources"].get(component, ())),
        )
    components["machine"] = _machine(own_rows, components["director"])
    blocks = {
        name: _resource(
            name,
            "",
            [_described(_of_knob(_spec(row), name), name, descriptions, {}) for row in rows],
        )
        for name, rows in bareos["blocks"].items()
    }
    blocks["Notify"] = _resource(
        "Notify", "", [_spec(row, own=True) for row in own_rows if row["in"] == "Notify"]
    )
    # An Exclude knows the names of an Include, so that errors can name what it may not contain.
    blocks["Exclude"] = replace(blocks["Include"], name="Exclude")
    return Schema(components, blocks)


def _machine(own_rows: list[dict[str, Any]], director: ComponentSpec) -> ComponentSpec:
    """Of one machine without daemons: a resource of ours, and a FileSet as the director's."""
    rows = [row for row in own_rows if _applies(row["in"], "machine", "Machine")]
    # Its own before those that it shares with a Pool, its Name first of all.
    rows.sort(key=lambda row: row["in"] != "machine.Machine")
    machine = _resource("Machine", "machine", [_spec(row, own=True) for row in rows])
    fileset = replace(director.resources["fileset"], component="machine")
    return ComponentSpec("machine", {"machine": machine, "fileset": fileset}, {}, {}, frozenset())


def _retired(row: dict[str, Any] | None) -> Retired | None:
    return Retired(row["bareos_until"], row["instead"]) if row else None


def _of_knob(spec: DirectiveSpec, place: str) -> DirectiveSpec:
    """A directive that sets a knob has the knob's default and text."""
    knob = knob_at(place, spec.key)
    if knob is None or spec.bacula:
        return spec
    text = knob.summary
    if place == "director.Client" and "agent.Client" in knob.places and knob.kind == "number":
        text += " Where the director does not set it, the agent's own directive holds."
    return replace(spec, default=knob.directive_default, description=text)


def _described(
    spec: DirectiveSpec,
    resource: str,
    descriptions: dict[str, str],
    replacements: dict[str, str],
) -> DirectiveSpec:
    names = (f"{resource}.{spec.name}", spec.name)
    text = spec.description or next((descriptions[one] for one in names if one in descriptions), "")
    instead = ""
    if spec.deprecated:
        instead = next((replacements[one] for one in names if one in replacements), "")
    return replace(spec, description=text, instead=instead) if text or instead else spec
