"""The configuration as it was resolved: frozen resources whose directives are read by name.

    configuration = load("/etc/strongroom")  (of `resolve`)
    job = configuration.director.of_type("Job")["nightly"]
    job.number("max_run_time_seconds")                 -> 7200
    job.reference("fileset").blocks("include")         -> the Include blocks of its FileSet
    job.origin("max_run_time_seconds")                 -> where that was set, and by whom

Names of attributes come from the directive table: the directive's in snake case, with its unit
(`_seconds`, `_bytes`, `_bytes_per_second`). Each is read by a method that says its type; what was
not set has its default, and without one "", 0, False or (). A reference gives the Resource it
names. A Job takes what it does not set from its JobDefs, those from theirs, whatever the order of
the files. Daemons read none of this while they run: `strongroom.config.settings` makes typed
settings of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeVar

from strongroom.config.table.schema import (
    DAEMON_RESOURCES,
    ComponentSpec,
    DirectiveSpec,
    ResourceSpec,
    schema,
)
from strongroom.config.trees.tree import Block, ComponentTree, Directive
from strongroom.config.values.forms import Destination
from strongroom.config.values.measures import duration_seconds, size_bytes

_Value = TypeVar("_Value")

# How many JobDefs one Job may inherit through.
MAXIMUM_INHERITANCE = 32
_INHERITING = frozenset(("Job", "JobDefs"))
_NOT_INHERITED = frozenset(("name", "description", "jobdefs", "clientgroup"))
_SCRIPT_TYPES = frozenset(("RUNSCRIPT", "SHRTRUNSCRIPT"))
_OPTION_DEFAULTS = {"aclsupport": True, "xattrsupport": True, "hardlinks": False}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: set, inherited or default; the place and the JobDefs, if any."""

    kind: str
    file: str = ""
    line: int = 0
    inherited_from: str = ""

    def __str__(self) -> str:
        if self.kind == "default":
            return "default"
        place = f"{self.file}:{self.line}"
        return f"{place} (from JobDefs {self.inherited_from})" if self.inherited_from else place


@dataclass(frozen=True, eq=False, repr=False)
class Resource:
    """A resource, or a block within one; frozen. block: what was parsed."""

    block: Block
    component: ComponentConfiguration

    def value(self, name: str) -> object:
        """The value of an attribute: what was set or inherited, or its default."""
        spec = self.block.spec.by_attribute.get(name) or self._spec(name)
        # Most of what may be given is not, so this is what reading a large configuration takes.
        if spec.key not in self._keys_given and spec.type != "MSGS":
            return self._default(spec)
        return self._value(spec)

    def text(self, name: str) -> str:
        """A text; "" without one."""
        return _typed(self, name, str) or ""

    def number(self, name: str) -> int:
        """A number, seconds and bytes included; 0 without one."""
        return _typed(self, name, int) or 0

    def optional_number(self, name: str) -> int | None:
        """The same where 0 says something else than nothing."""
        return _typed(self, name, int)

    def switch(self, name: str) -> bool:
        """Whether it is on."""
        return bool(_typed(self, name, bool))

    def texts(self, name: str) -> tuple[str, ...]:
        """All values of a directive that may be repeated, or that takes a list."""
        return tuple(map(str, _typed(self, name, tuple) or ()))

    def reference(self, name: str) -> Resource | None:
        """The resource that is named."""
        return _typed(self, name, Resource)

    def blocks(self, name: str) -> tuple[Resource, ...]:
        """The blocks of this name, or the resources that are named, in their order."""
        found = _typed(self, name, tuple) or ()
        return tuple(one for one in found if isinstance(one, Resource))

    def within(self, block: Block) -> Resource:
        """A block that is in this resource, as its own resource."""
        return Resource(block, self.component)

    def name_of(self, name: str) -> str:
        """The name of the resource that is named; "" without one."""
        found = self.reference(name)
        return "" if found is None else found.name

    def names_of(self, name: str) -> tuple[str, ...]:
        """The names of the resources that are named, in their order."""
        return tuple(one.name for one in self.blocks(name))

    def directives(self, name: str) -> tuple[Directive, ...]:
        """The directives that say the value of an attribute, own or inherited."""
        return tuple(directive for directive, _ in self._found(self._spec(name)))

    def __repr__(self) -> str:
        return f"<{self.type} {self.name}>" if self.name else f"<{self.type}>"

    @property
    def type(self) -> str:
        """The type as the table spells it; the `Type` of a Job is its `job_type`."""
        return self.block.spec.name

    @property
    def job_type(self) -> str | None:
        """The `Type` of a Job or JobDefs: Backup, Verify, Restore and so on."""
        spec = self.block.spec.by_key.get("type")
        return self._value(spec) if spec is not None else None

    @property
    def name(self) -> str:
        """Its Name; "" for a block within a resource."""
        return self.block.name

    @property
    def spec(self) -> ResourceSpec:
        """Its entry in the table."""
        return self.block.spec

    def is_set(self, name: str) -> bool:
        """Whether the attribute was set or inherited, not a default."""
        return bool(self._found(self._spec(name)))

    def origin(self, name: str) -> Origin:
        """Where the value of an attribute came from; of a list, where its first entry did."""
        found = self._found(self._spec(name))
        if not found:
            return Origin("default")
        directive, owner = found[0]
        kind = "set" if owner is self else "inherited"
        inherited = "" if owner is self else owner.name
        return Origin(kind, directive.source.path, directive.line, inherited)

    @cached_property
    def lineage(self) -> tuple[Resource, ...]:
        """The resource and what it inherits from, nearest first; MAXIMUM_INHERITANCE ends it."""
        found = [self]
        above = self.block.last("jobdefs")
        while above is not None and len(found) <= MAXIMUM_INHERITANCE:
            owner = self.component.find("JobDefs", above.value)
            if owner is None:
                break
            found.append(owner)
            above = owner.block.last("jobdefs")
        return tuple(found)

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """Of Messages: all destinations in order, each with the command that was before it."""
        commands: dict[str, str] = {}
        found = []
        for directive in self.block.directives:
            if isinstance(directive.value, Destination):
                kind = directive.spec.code
                which = "operatorcommand" if kind == "operator" else "mailcommand"
                mails = kind.startswith("mail") or kind == "operator"
                found.append(
                    replace(
                        directive.value,
                        command=commands.get(which) if mails else None,
                        timestamp_format=commands.get("timestampformat"),
                    )
                )
            elif directive.spec.type == "STDSTR":
                commands[directive.spec.key] = directive.value
        return tuple(found)

    def _spec(self, name: str) -> DirectiveSpec:
        spec = self.block.spec.by_attribute.get(name)
        if spec is None:
            message = f"{self.type} has no directive of this name: {name}"
            raise AttributeError(message, name=name, obj=self)
        return spec

    def _found(self, spec: DirectiveSpec) -> list[tuple[Directive, Resource]]:
        """The directives that make the value of `spec`, and whose they are."""
        found: list[tuple[Directive, Resource]] = []
        # Job and JobDefs have their own tables with the same keys.
        inherits = self.block.spec.name in _INHERITING and spec.key not in _NOT_INHERITED
        for owner in self.lineage if inherits else (self,):
            last = owner.block.by_key.get(spec.key)
            if last is None:
                continue
            if not spec.repeatable:
                return [(last, owner)]
            own = [one for one in owner.block.directives if one.spec.key == spec.key]
            found += [(one, owner) for one in own]
            if found and spec.type not in _SCRIPT_TYPES:
                break
        return found

    @cached_property
    def _keys_given(self) -> Collection[str]:
        """Keys of all directives that are there, inherited ones included."""
        if self.block.spec.name not in _INHERITING:
            return self.block.by_key
        return {key for owner in self.lineage for key in owner.block.by_key}

    def _value(self, spec: DirectiveSpec) -> Any:
        if spec.type == "MSGS":
            return tuple(one for one in self.destinations if one.kind == spec.name)
        found = [directive.value for directive, _ in self._found(spec)]
        if not found:
            return self._default(spec)
        if spec.block:
            return tuple(Resource(value, self.component) for value in found)
        if spec.kind.is_list:
            entries = tuple(entry for value in found for entry in value)
            if spec.type != "ALIST_RES":
                return entries
            return tuple(self.component.find(spec.code, one) for one in entries)
        if spec.repeatable:
            return tuple(found)
        if spec.type == "RES":
            return self.component.find(spec.code, found[-1])
        return found[-1]

    def _default(self, spec: DirectiveSpec) -> Any:
        if spec.repeatable:
            return typed_default(spec) if spec.kind.is_list and spec.default else ()
        if spec.type == "OPTION":
            return _OPTION_DEFAULTS.get(spec.key)
        if spec.key == "catalog" and self.type == "Client":
            return self.component.first("Catalog")
        return typed_default(spec)


def _typed(resource: Resource, name: str, kind: type[_Value]) -> _Value | None:
    value = resource.value(name)
    if value is None or isinstance(value, kind):
        return value
    message = f"{name} of {resource.type} is not a {kind.__name__}"
    raise TypeError(message)


@dataclass(frozen=True, eq=False, repr=False)
class ComponentConfiguration:
    """All resources of one component; frozen. tree: what was parsed."""

    tree: ComponentTree

    @property
    def spec(self) -> ComponentSpec:
        """Its entry in the table."""
        return schema().components[self.tree.component]

    @cached_property
    def _by_type(self) -> dict[str, dict[str, Resource]]:
        by_type: dict[str, dict[str, Resource]] = {
            one.name: {} for one in self.spec.resources.values()
        }
        for block in self.tree.blocks:
            by_type[block.spec.name].setdefault(block.name, Resource(block, self))
        return by_type

    def of_type(self, type_name: str) -> Mapping[str, Resource]:
        """The resources of a type by name, in reading order."""
        return self._by_type[type_name]

    def find(self, type_name: str, name: str) -> Resource | None:
        """The resource of this type and name."""
        return self._by_type.get(type_name, {}).get(name)

    def first(self, type_name: str) -> Resource | None:
        """The first resource of a type."""
        return next(iter(self._by_type[type_name].values()), None)

    @property
    def daemon(self) -> Resource | None:
        """The resource that is the daemon itself (Director, Storage, Client, Monitor)."""
        return self.first(DAEMON_RESOURCES[self.spec.name])

    @property
    def resources(self) -> tuple[Resource, ...]:
        """All resources by type, in reading order within one."""
        return tuple(one for group in self._by_type.values() for one in group.values())


@cache
def typed_default(spec: DirectiveSpec) -> Any:
    """The default of a directive, typed as its values are."""
    text, kind = spec.default, spec.kind
    if kind.value == "boolean":
        return text is not None and text.lower() in ("true", "yes", "on")
    if text is None:
        return None
    if kind.value in ("number", "port"):
        return int(text)
    if kind.is_list:
        return tuple(text.split(", "))
    if kind.value == "duration":
        return duration_seconds(text)
    if kind.value == "size":
        return size_bytes(text)
    return next((word for word in kind.words if word.lower() == text.lower()), text)
