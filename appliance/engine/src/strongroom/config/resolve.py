"""What a parsed tree means as a whole, and what is wrong with it as a whole.

Checks what no file shows by itself: references to resources that are not there, what is required
and missing (of a Job after it has inherited), JobDefs that inherit in a circle, a director without
a Director. `load` is the way a program gets its configuration.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from strongroom.config.feasibility.judgement import judge
from strongroom.config.language.diagnostics import ERROR, WARNING, Diagnostics
from strongroom.config.language.sources import SourceText
from strongroom.config.model import (
    MAXIMUM_INHERITANCE,
    ComponentConfiguration,
    Configuration,
    Resource,
)
from strongroom.config.table.schema import DAEMON_RESOURCES, REFERENCE_TYPES
from strongroom.config.trees.loader import Loaded, LoadOptions, is_whole, load_trees
from strongroom.config.values.run_schedule import ScheduleRun
from strongroom.errors import ConfigurationError

if TYPE_CHECKING:
    from strongroom.config.trees.tree import Block, Directive

_log = logging.getLogger(__name__)

# Component -> types of which at least one must be there, beside the daemon itself.
_NEEDED = {"director": ("Job",), "storage": ("Director", "Device"), "agent": ("Director",)}
_JOB_NEEDS = ("type", "messages", "pool")
_DATA_NEEDS = ("client", "fileset")
_WITHOUT_DATA = frozenset(("Copy", "Migrate"))
_SHOWN_ERRORS = 20
_COMPARED_NAMES = 1000


def load(
    path: str, options: LoadOptions | None = None, component: str | None = None
) -> Configuration:
    """The configuration at `path`; warnings, which nobody would see otherwise, are logged.

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
        _Check(component, place, loaded.diagnostics, whole=whole).run()
    configuration = Configuration(**components)
    # Strictly read, the question is what the original takes, not what can be carried out here.
    if whole and not loaded.options.strict and not loaded.diagnostics.has_errors:
        judge(configuration, loaded.diagnostics)
    return configuration


class _Check:
    """Judges one component; `place`: its file or folder."""

    def __init__(
        self,
        component: ComponentConfiguration,
        place: str,
        diagnostics: Diagnostics,
        *,
        whole: bool,
    ) -> None:
        self.component = component
        self.place = place
        self.diagnostics = diagnostics
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
                self._report(block, "required", f"{_titled(block)} needs {spec.shown_name}")

    def _references(self, directive: Directive) -> None:
        spec, value = directive.spec, directive.value
        if spec.type == "RES":
            self._reference(directive, REFERENCE_TYPES[spec.code], value)
        elif spec.type == "ALIST_RES":
            for name in value:
                self._reference(directive, REFERENCE_TYPES[spec.code], name)
        elif isinstance(value, ScheduleRun):
            for field in (
                "pool",
                "full_pool",
                "incremental_pool",
                "differential_pool",
                "next_pool",
            ):
                self._run_reference(directive, "Pool", getattr(value, field))
            self._run_reference(directive, "Storage", value.storage)
            self._run_reference(directive, "Messages", value.messages)

    def _run_reference(self, directive: Directive, kind: str, name: str | None) -> None:
        if name is not None:
            self._reference(directive, kind, name)

    def _reference(self, directive: Directive, kind: str, name: str) -> None:
        if self.component.find(kind, name) is not None:
            return
        known = islice(self.component.of_type(kind), _COMPARED_NAMES)
        self.diagnostics.add(
            ERROR,
            "dangling",
            f"{directive.spec.shown_name} names the {kind} {name}, which is not defined",
            directive.source,
            directive.offset,
            len(directive.spec.name),
            self.diagnostics.suggest(name, known, (self.component.spec.name, kind)),
        )

    def _jobs(self) -> None:
        for jobdefs in self.component.of_type("JobDefs").values():
            self._circle(jobdefs)
        for job in self.component.of_type("Job").values():
            blocks = [owner.block for owner in job.lineage()]
            if blocks[-1].was_written("jobdefs"):
                # What it inherits is not known, and that is told where the chain breaks.
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
                self._report(job.block, "required", message)

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
                    self._at_jobdefs(above, "circle", message)
                return
            seen.append(above.value)
            if len(seen) > MAXIMUM_INHERITANCE:
                message = f"JobDefs inherit through more than {MAXIMUM_INHERITANCE} others"
                self._at_jobdefs(above, "limit", message)
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
            self.diagnostics.add(ERROR, "incomplete", message, place, 0)
        elif len(found) > 1 and name not in ("console", "monitor"):
            for extra in list(found.values())[1:]:
                message = f"only one {daemon} may be there; {_titled(extra.block)} is another"
                self._report(extra.block, "incomplete", message)
        for kind in _NEEDED.get(name, ()):
            if not self.component.of_type(kind):
                message = f"the {name} needs a {kind} resource; there is none"
                self.diagnostics.add(ERROR, "incomplete", message, place, 0)

    def _at_jobdefs(self, above: Directive, code: str, message: str) -> None:
        self.diagnostics.add(ERROR, code, message, above.source, above.offset, len("JobDefs"))

    def _report(self, block: Block, code: str, message: str) -> None:
        self.diagnostics.add(ERROR, code, message, block.source, block.offset, len(block.spec.name))


def _is_written(key: str, blocks: list[Block]) -> bool:
    return any(block.was_written(key) for block in blocks)


def _titled(block: Block) -> str:
    return f"{block.spec.name} {block.name}".rstrip()
