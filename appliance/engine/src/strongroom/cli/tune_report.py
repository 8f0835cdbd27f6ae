"""What `strongroom tune` says of a search: the table, the evidence in the inventory, JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.cli.measure.processor import machine
from strongroom.cli.measure.tuning.axes import inventory_value
from strongroom.cli.measure.tuning.journal import Subject
from strongroom.cli.measure.tuning.search import DEFAULTS, KnobChanges, Search
from strongroom.cli.table import write_table
from strongroom.cli.terminal import JsonObject, Terminal
from strongroom.engine.knobs.knob import Value
from strongroom.engine.knobs.table import knob_named
from strongroom.net.identities.private_files import PUBLIC_MODE, write_file

FILE_NAME: Final = "strongroom_tuning.yml"
_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")


def require_host(host: str) -> str:
    """A name that may be a folder of host_vars. Raises UsageError."""
    if not _HOST.match(host):
        raise UsageError(
            f"--host {printable(host)} is not a name of an inventory: letters, digits, dots, "
            "dashes and underscores"
        )
    return host


def inventory_text(condition: KnobChanges, evidence: Iterable[str]) -> str:
    """The file: the evidence as comments, then the variables of the knobs that changed."""
    lines = [
        "# Written by `strongroom tune`; variables of the role strongroom.backup.agent.",
        *(f"# {line}".rstrip() for line in evidence),
        "---",
    ]
    variables = {
        knob_named(name).variable: inventory_value(name, value) for name, value in condition.changes
    }
    # JSON's numbers, truths and quoted texts are YAML's.
    lines += [f"{name}: {json.dumps(value)}" for name, value in sorted(variables.items())]
    if not variables:
        lines.append("{}")
    return "\n".join(lines) + "\n"


def write_inventory(folder: Path, host: str, text: str) -> Path:
    """Write the file of a host; its path. Raises UsageError."""
    path = folder / "host_vars" / host / FILE_NAME
    with os_errors(
        f"{printable(str(path))} cannot be written", then="; choose another folder with --inventory"
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(os.fsencode(path), text.encode(), PUBLIC_MODE)
    return path


_MEGA: Final = 1e6


def show_search(search: Search, costs: dict[tuple[str, Value], float], terminal: Terminal) -> None:
    """The table, what settings cost, and the verdict."""
    columns = ("CONDITIONS", ">TIME", ">MEMORY", ">NUMBER OF RUNS", ">STORED", ">AGAINST DEFAULTS")
    usual = search.median_seconds(DEFAULTS)
    terminal.line()
    write_table(
        terminal,
        columns,
        [
            (
                condition.text + (" (best)" if condition == search.best else ""),
                f"{seconds:.2f} s",
                size_text(memory),
                str(runs),
                size_text(stored),
                f"{usual / seconds:.2f} x",
            )
            for condition, seconds, memory, stored, runs in search.table()
        ],
    )
    terminal.line()
    for (name, value), ratio in costs.items():
        terminal.line(_cost_text(name, value, ratio))
    terminal.line(verdict(search))


def _cost_text(name: str, value: Value, ratio: float) -> str:
    shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    difference = f"{abs(1 - ratio):.0%} {'less' if ratio < 1 else 'more'} time"
    return f"{name} {shown}: {difference}; left as it is without --change {name}"


def verdict(search: Search) -> str:
    """What came out, in one sentence."""
    ended = "" if search.is_finished else "; the time was up, --resume continues"
    if search.best == DEFAULTS:
        return f"no setting that was tried is faster than the defaults{ended}"
    return f"{search.best.text}: {search.gain:.2f} times as fast as the defaults{ended}"


def evidence(
    subject: Subject, search: Search, costs: dict[tuple[str, Value], float]
) -> Iterator[str]:
    """Lines for the comments of the file."""
    here = machine()
    link = subject.link
    yield (
        f"{clock.utc_text(clock.now_ns())[:19]}Z, {printable(here.host)}: "
        f"{printable(here.processor)}, {here.cores} cores"
    )
    yield (
        f"{'a sample of ' if subject.is_sample else ''}{printable(subject.folder)}: "
        f"{counted(subject.files, 'file')}, {size_text(subject.size_bytes)}, "
        f"{'cold' if subject.is_cold else 'warm'} caches"
        + (f", a link of {link[0]:g} ms and {link[1] / _MEGA:g} MB/s" if link else "")
    )
    backups = {"first": "a first backup", "unchanged": "an unchanged backup"}
    yield f"time of {backups.get(subject.backup, 'a first and an unchanged backup')}, medians:"
    for condition, seconds, memory, stored, runs in search.table():
        yield (
            f"  {condition.text}: {seconds:.2f} s, {size_text(memory)} memory, "
            f"{size_text(stored)} stored, {counted(runs, 'run')}"
        )
    for (name, value), ratio in costs.items():
        yield f"  {_cost_text(name, value, ratio)}"
    yield verdict(search)


def search_json(
    subject: Subject,
    search: Search,
    costs: dict[tuple[str, Value], float],
    path: Path | None,
) -> JsonObject:
    """The line of JSON; `path`: what was written."""
    return {
        "type": "tune",
        "host": subject.host,
        "folder": subject.folder,
        "is_sample": subject.is_sample,
        "files": subject.files,
        "size_bytes": subject.size_bytes,
        "best": dict(search.best.changes),
        "gain": search.gain,
        "is_finished": search.is_finished,
        "conditions": [
            {
                "knobs": dict(condition.changes),
                "median_seconds": seconds,
                "memory_bytes": memory,
                "stored_bytes": stored,
                "runs": [run.seconds for run in search.runs[condition]],
            }
            for condition, seconds, memory, stored, _ in search.table()
        ],
        "costs": [
            {"knob": name, "value": value, "ratio": ratio} for (name, value), ratio in costs.items()
        ],
        "written": None if path is None else str(path),
    }
