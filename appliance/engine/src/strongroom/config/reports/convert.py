"""A Bareos or Bacula tree into a Strongroom tree, with a report on every directive not kept as is.

What has no effect here is left out, what is mapped is written the Strongroom way, the rest is kept
and printed canonically, a file for each resource, with the place it came from. What was written is
read back by the caller before anybody relies on it (`strongroom config convert` does).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from strongroom.config.reports.effects import MAPPED, NO_EFFECT, effect_of
from strongroom.config.table.schema import DAEMON_RESOURCES, DirectiveSpec, schema
from strongroom.config.trees.loader import Loaded
from strongroom.config.trees.printer import print_block
from strongroom.config.trees.tree import Block, Directive

KEPT, REPLACED, DROPPED, NOTED = "kept", "mapped", "dropped", "noted"
_DROPPED_RESOURCES = {
    ("director", "Counter"): "counters only number volumes, which Strongroom does not have",
    ("storage", "Autochanger"): "Strongroom has no tapes",
    ("storage", "Ndmp"): "NDMP is not spoken",
}
_UNSAFE = re.compile(r"[^A-Za-z0-9_.:-]")
# One file for all: which catalog is read first decides which is the default.
_TOGETHER = frozenset(("Catalog",))


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """What became of a directive or resource: `status`, where it stood, and why."""

    status: str
    file: str
    line: int
    resource: str
    directive: str
    why: str


@dataclass(slots=True)
class Conversion:
    """The files of the new tree (path below its root, text), and the report."""

    files: dict[str, str] = field(default_factory=dict)
    report: list[ReportEntry] = field(default_factory=list)
    kept: int = 0

    def summary(self) -> str:
        """How many directives were kept, mapped and dropped."""
        counts = dict.fromkeys((REPLACED, DROPPED, NOTED), 0)
        for entry in self.report:
            counts[entry.status] += 1
        return (
            f"{self.kept} directives kept, {counts[REPLACED]} mapped, {counts[DROPPED]} dropped, "
            f"{counts[NOTED]} to look at"
        )

    def markdown(self) -> str:
        """The report as a page."""
        lines = [
            "# Conversion",
            "",
            f"{self.summary()}.",
            "",
            "| | place | resource | directive | why |",
            "|---|---|---|---|---|",
        ]
        for entry in self.report:
            cells = (
                entry.status,
                f"{entry.file}:{entry.line}",
                entry.resource,
                entry.directive,
                entry.why,
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        return "\n".join(lines) + "\n"


def convert(loaded: Loaded) -> Conversion:
    """The Strongroom tree that the trees of `loaded` make; they must be free of errors."""
    conversion = Conversion()
    for component, tree in loaded.trees.items():
        if component == "monitor":
            for block in tree.blocks:
                _note(conversion, DROPPED, block, "", "Strongroom has no tray monitor")
            continue
        for block in tree.blocks:
            why = _DROPPED_RESOURCES.get((component, block.spec.name))
            if why is not None:
                _note(conversion, DROPPED, block, "", why)
                continue
            converted = _converted(conversion, component, block, _title(block))
            _place(conversion, component, block, print_block(converted))
    for finding in loaded.diagnostics.sorted("warning"):
        if finding.code in ("unknown-directive", "unknown-resource"):
            path, line, _ = finding.place
            entry = ReportEntry(DROPPED, path, line, "", "", finding.message)
            conversion.report.append(entry)
    return conversion


def _converted(conversion: Conversion, component: str, block: Block, title: str) -> Block:
    """A copy of `block` with what has no effect left out and what is mapped rewritten."""
    copy = Block(block.spec, block.source, block.offset)
    for directive in block.directives:
        spec = directive.spec
        if isinstance(directive.value, Block):
            inner = _converted(conversion, component, directive.value, f"{title} / {spec.name}")
            copy.add(Directive(spec, None, inner, directive.source, directive.offset))
            continue
        effect = effect_of(component, block.spec.name, spec)
        rewritten = _rewritten(component, block, directive)
        if rewritten is not None:
            copy.add(rewritten)
            why = f"to {rewritten.spec.shown_name}"
            _note(conversion, REPLACED, directive, title, why, spec)
        elif spec.deprecated or (effect.status == NO_EFFECT and not spec.required):
            why = effect.why or f"it is deprecated since {spec.deprecated}"
            _note(conversion, DROPPED, directive, title, why, spec)
        else:
            copy.add(directive)
            conversion.kept += 1
            if effect.status == MAPPED:
                _note(conversion, NOTED, directive, title, f"mapped {effect.why}", spec)
    return copy


def _rewritten(component: str, block: Block, directive: Directive) -> Directive | None:
    """Volume Retention of a Pool says how long snapshots are kept: that is Keep Within here."""
    spec = directive.spec
    if component != "director" or block.spec.name != "Pool" or spec.key != "volumeretention":
        return None
    if "keepwithin" in block.by_key:
        return None
    target = schema().components["director"].resources["pool"].by_key["keepwithin"]
    return Directive(target, directive.raw, directive.value, directive.source, directive.offset)


def _place(conversion: Conversion, component: str, block: Block, lines: list[str]) -> None:
    """Put the resource into its own file; of some types all into one."""
    kind = block.spec.name.lower()
    if block.spec.name in _TOGETHER:
        stem = f"{kind}s"
    elif DAEMON_RESOURCES[component] == block.spec.name and component != "console":
        stem = component
    else:
        stem = _UNSAFE.sub("_", block.name) or kind
    text = "\n".join([f"# from {block.source.path}:{block.line}", *lines]) + "\n"
    base = path = f"{component}.d/{kind}/{stem}"
    if block.spec.name in _TOGETHER:
        earlier = conversion.files.get(f"{path}.conf", "")
        conversion.files[f"{path}.conf"] = f"{earlier}\n{text}" if earlier else text
        return
    number = 1
    # Different names may become the same file name once they are made safe.
    while f"{path}.conf" in conversion.files:
        number += 1
        path = f"{base}-{number}"
    conversion.files[f"{path}.conf"] = text


def _note(
    conversion: Conversion,
    status: str,
    item: Directive | Block,
    title: str,
    why: str,
    spec: DirectiveSpec | None = None,
) -> None:
    resource = title or (_title(item) if isinstance(item, Block) else "")
    name = spec.shown_name if spec else ""
    conversion.report.append(ReportEntry(status, item.source.path, item.line, resource, name, why))


def _title(block: Block) -> str:
    return f"{block.spec.name} {block.name}".rstrip()
