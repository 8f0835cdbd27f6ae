"""What a parsed tree means as a whole, and what is wrong with it as a whole.

Checks what no file shows by itself: references to resources that are not there, what is required
and missing (of a Job after it has inherited), JobDefs that inherit in a circle, a director without
a Director. Where nothing is wrong so far, settings are built and checked. `load` is the way a
program gets its configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from strongroom.base.errors import ConfigurationError
from strongroom.config.language.diagnostics import ERROR, WARNING, Diagnostics
from strongroom.config.language.sources import SourceText
from strongroom.config.model import MAXIMUM_INHERITANCE, ComponentConfiguration, Resource
from strongroom.config.settings.build import check_component, director_settings
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.findings import Findings
from strongroom.config.table.schema import DAEMON_RESOURCES
from strongroom.config.trees.loader import Loaded, LoadOptions, is_whole, load_trees
from strongroom.config.trees.tree import Block, Directive
from strongroom.config.values.run_schedule import OVERRIDES, ScheduleRun

_log = logging.getLogger(__name__)

# Component -> types of which at least one must be there, beside the daemon itself.
_NEEDED = {"director": ("Job",), "storage": ("Director", "Device"), "agent": ("Director",)}
_NAMED_BY_RUNS = frozenset(("Pool", "Storage", "Messages"))
_JOB_NEEDS = ("type", "messages", "pool")
_DATA_NEEDS = ("client", "fileset")
_WITHOUT_DATA = frozenset(("Copy", "Migrate"))
_SHOWN_ERRORS = 20
_COMPARED_NAMES = 1000


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a path says, by component.

    settings: those of the director, of a whole configuration without errors, not strictly read.
    """

    components: Mapping[str, ComponentConfiguration]
    settings: DirectorConfiguration | None = None

    @property
    def director(self) -> ComponentConfiguration | None:
        """The director."""
        return self.components.get("director")

    @property
    def storage(self) -> ComponentConfiguration | None:
        """The storage daemon."""
        return self.components.get("storage")

    @property
    def agent(self) -> ComponentConfiguration | None:
        """The agent."""
        return self.components.get("agent")

    @property
    def console(self) -> ComponentConfiguration | None:
        """The console."""
        return self.components.get("console")

    @property
    def machine(self) -> ComponentConfiguration | None:
        """The machine without daemons."""
        return self.components.get("machine")


def load(
    path: str, options: LoadOptions | None = None, component: str | None = None
) -> Configuration:
    """The configuration at `path`; warnings, which no one would see otherwise, are logged.

    Raises ConfigurationError with every error found, UsageError where nothing is there.
    """
    loaded = load_trees(path, options or LoadOptions(), component)
    configuration = resolve(loaded, whole=is_whole(path, component))
    for warning in accepted(loaded.diagnostics, path):
        _log.warning("%s", warning)
    return configuration


def accepted(diagnostics: Diagnostics, path: str) -> tuple[str, ...]:
    """The warnings about what is at `path`, each with its place.

    Raises ConfigurationError with every error found.
    """
    if diagnostics.has_errors:
        errors = diagnostics.sorted(ERROR)
        shown = "\n".join(error.head() for error in errors[:_SHOWN_ERRORS])
        more = len(errors) - _SHOWN_ERRORS
        rest = f"\n... and {more} more; see `strongroom config check {path}`" if more > 0 else ""
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        raise ConfigurationError(f"{count} in {path}:\n{shown}{rest}")
    return tuple(warning.head() for warning in diagnostics.sorted(WARNING))


def resolve(loaded: Loaded, *, whole: bool = True) -> Configuration:
    """The configuration that the trees of `loaded` make; findings go to its diagnostics.

    Without `whole` (one file of a tree) references and completeness are not judged.
    """
    components = {name: ComponentConfiguration(tree) for name, tree in loaded.trees.items()}
    for name, component in components.items():
        place = loaded.places.get(name, name)
        _Check(Findings(component, loaded.diagnostics), place, whole=whole).run()
    director, settings = components.get("director"), None
    # Strictly read, the question is what the original takes, not what can be carried out here.
    if whole and not loaded.options.strict and not loaded.diagnostics.has_errors:
        for component in components.values():
            check_component(component, loaded.diagnostics)
        if director is not None:
            storage = components.get("storage")
            settings = director_settings(director, loaded.diagnostics, storage)
    return Configuration(components, settings)


class _Check:
    """Judges one component; `place`: its file or folder."""

    def __init__(self, findings: Findings, place: str, *, whole: bool) -> None:
        self.findings = findings
        self.component = findings.component
        self.place = place
        self.whole = whole

    def run(self) -> None:
        """Judge everything."""
        for block in self.component.tree.blocks:
            if block.spec.name not in ("Job", "JobDefs"):
                self._required(block)
            if self.whole:
                for directive in block.directives:
                    self._references(directive)
        if self.whole:
            if self.component.spec.name == "director":
                self._jobs()
            self._completeness()

    def _required(self, block: Block) -> None:
        for spec in block.spec.required:
            if not block.was_written(spec.key):
                self.findings.at_block(
                    ERROR, "required", f"{_titled(block)} needs {spec.shown_name}", block
                )

    def _references(self, directive: Directive) -> None:
        spec, value = directive.spec, directive.value
        if spec.type == "RES":
            self._reference(directive, spec.code, value)
        elif spec.type == "ALIST_RES":
            for name in value:
                self._reference(directive, spec.code, name)
        elif isinstance(value, ScheduleRun):
            for override in OVERRIDES.values():
                name = getattr(value, override.attribute)
                if override.kind in _NAMED_BY_RUNS and name is not None:
                    self._reference(directive, override.kind, name)

    def _reference(self, directive: Directive, kind: str, name: str) -> None:
        if self.component.find(kind, name) is not None:
            return
        known = islice(self.component.of_type(kind), _COMPARED_NAMES)
        family = (self.component.spec.name, kind)
        meant = self.findings.diagnostics.suggest(name, known, family)
        message = f"{directive.spec.shown_name} names the {kind} {name}, which is not defined"
        self.findings.at_directive(ERROR, "dangling", message, directive, meant)

    def _jobs(self) -> None:
        for jobdefs in self.component.of_type("JobDefs").values():
            self._circle(jobdefs)
        for job in self.component.of_type("Job").values():
            blocks = [owner.block for owner in job.lineage]
            if blocks[-1].was_written("jobdefs"):
                # What it inherits is not known, and that is reported where the chain breaks.
                continue
            missing = [name for name in _JOB_NEEDS if not _is_written(name, blocks)]
            if job.job_type not in _WITHOUT_DATA:
                missing += [name for name in _DATA_NEEDS if not _is_written(name, blocks)]
                pool = job.reference("pool")
                in_pool = pool is not None and _is_written("storage", [pool.block])
                if not in_pool and not _is_written("storage", blocks):
                    missing.append("storage")
            for name in missing:
                shown = job.spec.by_attribute[name].shown_name
                hint = " (nor has its Pool one)" if name == "storage" else ""
                message = f"{_titled(job.block)} needs {shown}, its own or from JobDefs{hint}"
                self.findings.at_block(ERROR, "required", message, job.block)

    def _circle(self, jobdefs: Resource) -> None:
        seen = [jobdefs.name]
        current: Resource | None = jobdefs
        while current is not None:
            above = current.block.last("jobdefs")
            if above is None:
                return
            if above.value in seen:
                if above.value == jobdefs.name:
                    way = " -> ".join([*seen, above.value])
                    message = f"JobDefs inherit in a circle: {way}"
                    self.findings.at_directive(ERROR, "circle", message, above)
                return
            seen.append(above.value)
            if len(seen) > MAXIMUM_INHERITANCE:
                message = f"JobDefs inherit through more than {MAXIMUM_INHERITANCE} others"
                self.findings.at_directive(ERROR, "limit", message, above)
                return
            current = self.component.find("JobDefs", above.value)

    def _completeness(self) -> None:
        name = self.component.spec.name
        daemon = DAEMON_RESOURCES[name]
        found = self.component.of_type(daemon)
        first = next(iter(self.component.tree.blocks), None)
        place = first.source if first else SourceText(self.place, "")
        if not found:
            message = f"the {name} needs a {daemon} resource; there is none"
            self.findings.diagnostics.add(ERROR, "incomplete", message, place, 0)
        elif len(found) > 1 and name not in ("console", "monitor"):
            for extra in list(found.values())[1:]:
                message = f"only one {daemon} may be there; {_titled(extra.block)} is another"
                self.findings.at_block(ERROR, "incomplete", message, extra.block)
        for kind in _NEEDED.get(name, ()):
            if not self.component.of_type(kind):
                message = f"the {name} needs a {kind} resource; there is none"
                self.findings.diagnostics.add(ERROR, "incomplete", message, place, 0)


def _is_written(key: str, blocks: list[Block]) -> bool:
    return any(block.was_written(key) for block in blocks)


def _titled(block: Block) -> str:
    return f"{block.spec.name} {block.name}".rstrip()
