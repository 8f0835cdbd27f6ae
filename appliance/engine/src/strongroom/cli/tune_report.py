"""What `strongroom tune` says of a search: the table, the evidence in the inventory, JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.cli.quantities import size_text
from strongroom.cli.table import Column, write_table
from strongroom.measure.processor import machine
from strongroom.measure.tuning.search import DEFAULTS
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strongroom.cli.terminal import Terminal
    from strongroom.knobs.knob import Value
    from strongroom.measure.tuning.journal import Subject
    from strongroom.measure.tuning.search import Search

_MEGA: Final = 1e6


def show_search(search: Search, costs: dict[tuple[str, Value], float], terminal: Terminal) -> None:
    """The table, what settings cost, and the verdict."""
    columns = (
        Column("CONDITIONS"), Column("TIME", to_the_right=True),
        Column("MEMORY", to_the_right=True), Column("NUMBER OF RUNS", to_the_right=True),
        Column("STORED", to_the_right=True), Column("AGAINST DEFAULTS", to_the_right=True),
    )  # fmt: skip
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
        return f"nothing that was tried is faster than the defaults{ended}"
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
        f"{subject.files:,} files, {size_text(subject.size_bytes)}, "
        f"{'cold' if subject.is_cold else 'warm'} caches"
        + (f", a link of {link[0]:g} ms and {link[1] / _MEGA:g} MB/s" if link else "")
    )
    counted = {"first": "a first backup", "unchanged": "an unchanged backup"}
    yield f"time of {counted.get(subject.backup, 'a first and an unchanged backup')}, medians:"
    for condition, seconds, memory, stored, runs in search.table():
        yield (
            f"  {condition.text}: {seconds:.2f} s, {size_text(memory)} memory, "
            f"{size_text(stored)} stored, {runs} run{'s'[: runs != 1]}"
        )
    for (name, value), ratio in costs.items():
        yield f"  {_cost_text(name, value, ratio)}"
    yield verdict(search)


def search_json(
    subject: Subject,
    search: Search,
    costs: dict[tuple[str, Value], float],
    path: Path | None,
) -> dict[str, object]:
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
