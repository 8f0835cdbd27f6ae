"""The figures as Markdown, put between two markers of a document whose other text stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.figures import (
    BEFORE,
    OURS,
    PEERS,
    PLAIN,
    Figure,
    Figures,
    fastest_peer,
    summarise,
    times_as_fast,
)
from bench.more_cores import CORES, cores_lines
from bench.targets import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.results import RowResult

BEGIN = "<!-- figures: written by make bench -->"
END = "<!-- end of figures -->"
MB = 1_000_000
STEP_ORDER = ("help", "snapshots", "first", "unchanged", "changed", "restore", "prune")
STEP_TITLES = {
    "help": "`--help`",
    "snapshots": "list of snapshots",
    "first": "first backup",
    "unchanged": "unchanged, second backup",
    "changed": "backup after 1% changed",
    "restore": "restore",
    "prune": "forget and prune after the change",
}
INTRODUCTION = """# Performance

Measured by `make bench`, which makes its data sets, fetches the peers and runs everything in turns
on one machine: each step by every program before the next step, the order reversed in every second
round. All programs run with their defaults, encryption on, the data in the page cache, repository
and data on one disk. Absolute times do not carry over to another machine; ratios do, roughly.

- *wall*: median of the rounds, with the fastest and slowest in brackets where there were several;
- *CPU*: user and system time of the whole process tree;
- *memory*: peak of the sum of PSS over the process tree (sampled), and peak RSS of the largest
  process; targets are judged by the larger;
- *stored*: bytes of all files of the repository after the step;
- *floor*: what the bare kernel work takes: `scan` a loop of scandir and lstat in Python, `read`
  the same loop reading every file, `cat` reading by cat, `copy` writing by `cp -a`; `tar` and
  `untar` by tar and zstd -1, which many use instead of a backup program;
- restores go to an ext4 made anew for each, where the machine allows mounting.
"""


_CORES_TEXT = """Not measured: this machine has not so many cores. The coordinator is one process,
so a backup takes at least its processor time (*serial*), whatever the cores; the rest is shared by
them. Of the peers (the fastest, and restic) all processor time is taken to be shared. Disks are
taken to keep up."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column to the left, all others to the right."""
    lines = ["| " + " | ".join(header) + " |"]
    lines.append("|---" + "|---:" * (len(header) - 1) + "|")
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"a row of {len(row)} cells under {len(header)} headings")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)


def seconds_text(seconds: float) -> str:
    """Three significant digits at most, never fewer than the whole seconds."""
    if seconds < 1:
        return f"{seconds:.3f}"
    if seconds < 10:
        return f"{seconds:.2f}"
    return f"{seconds:.1f}"


def megabytes_text(size_bytes: float) -> str:
    """Whole megabytes, with two decimals below ten; nothing for what was not measured."""
    if not size_bytes:
        return ""
    return f"{size_bytes / MB:,.2f}" if size_bytes < 10 * MB else f"{size_bytes / MB:,.0f}"


def _order(contender: str) -> tuple[int, str]:
    names = (OURS, BEFORE, *PEERS, *PLAIN)
    return (names.index(contender) if contender in names else len(names), contender)


def _wall_text(figure: Figure) -> str:
    text = seconds_text(figure.wall_seconds)
    if figure.rounds == 1:
        return text
    spread = f"{seconds_text(figure.fastest_seconds)}-{seconds_text(figure.slowest_seconds)}"
    return f"{text} ({spread})"


def _comparison(figures: Figures, contender: str, step: str) -> str:
    if contender == BEFORE and (ours := figures.get((OURS, step))) is not None:
        before = figures[contender, step]
        wall = before.wall_seconds / ours.wall_seconds
        cpu = before.cpu_seconds / ours.cpu_seconds
        return f"now {wall:.2f} times as fast, {1 / cpu:.2f} of the CPU time"
    if contender != OURS:
        return "fastest peer" if fastest_peer(figures, step) == contender else ""
    ratio = times_as_fast(figures, step)
    return "" if ratio is None else f"**{ratio:.2f} times as fast**"


def row_table(figures: Figures) -> str:
    """All steps of one row: one line a contender or floor."""
    lines = []
    for step in STEP_ORDER:
        contenders = sorted((name for name, of in figures if of == step), key=_order)
        for number, contender in enumerate(contenders):
            figure = figures[contender, step]
            lines.append(
                [
                    STEP_TITLES[step] if number == 0 else "",
                    contender,
                    _wall_text(figure),
                    seconds_text(figure.cpu_seconds),
                    megabytes_text(figure.peak_pss_bytes),
                    megabytes_text(figure.largest_process_rss_bytes),
                    "" if figure.stored_bytes is None else megabytes_text(figure.stored_bytes),
                    _comparison(figures, contender, step),
                ]
            )
    header = ["step", "program", "wall s", "CPU s", "PSS MB", "RSS MB", "stored MB", ""]
    return table(header, lines)


def target_table(verdicts: Sequence[Verdict]) -> str:
    """Targets beside figures."""
    words = {True: "met", False: "**not met**", None: "-"}
    lines = [
        [f"{verdict.row}: {verdict.aim}", verdict.figure, words[verdict.met]]
        for verdict in verdicts
    ]
    return table(["target", "figure", ""], lines)


def cores_table(lines: Sequence[Sequence[str]]) -> str:
    """What `more_cores` says, in seconds of wall clock but for the processor time."""
    header = ["backup", "program", "serial of CPU s", "at most times", "here"]
    return table(header + [f"{cores} cores" for cores in CORES], lines)


def _row_text(result: RowResult, figures: Figures) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in result.machine.items())
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    scale = "" if result.scale == 1 else f" At scale {result.scale:g} of the real data set."
    dates = [
        f"{STEP_TITLES[step]}, {result.later[step]}" for step in STEP_ORDER if step in result.later
    ]
    later = f" Measured later: {'; '.join(dates)}." if dates else ""
    return (
        f"### {result.title}\n\n"
        f"{result.entries:,} entries, {result.file_bytes / MB:,.0f} MB in files.{scale} "
        f"Measured {result.date} with {versions} on: {machine}.{later}\n\n{row_table(figures)}\n"
    )


def figures_text(rows: Mapping[str, RowResult], chart_name: str | None) -> str:
    """Everything that goes between the markers."""
    by_row = {name: summarise(result.runs) for name, result in rows.items()}
    parts = []
    if chart_name:
        parts.append(f"![Wall clock of every step, each program a bar]({chart_name})\n")
    verdicts = judge(by_row)
    if any(verdict.met is not None for verdict in verdicts):
        parts.append(f"### Targets\n\n{target_table(verdicts)}\n")
    cores_here = {name: int(result.machine.get("cores", 1)) for name, result in rows.items()}
    lines = cores_lines(by_row, cores_here)
    if lines:
        parts.append(f"### On more cores, predicted\n\n{_CORES_TEXT}\n\n{cores_table(lines)}\n")
    parts += [_row_text(result, by_row[name]) for name, result in rows.items()]
    return "\n".join(parts)


def put_between_markers(document: str, text: str) -> str:
    """`document` with `text` between the markers; both are appended where they are missing.

    Raises ValueError when only one marker is there or they stand in the wrong order.
    """
    if BEGIN not in document and END not in document:
        return f"{document.rstrip()}\n\n{BEGIN}\n\n{text}\n{END}\n"
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document must hold {BEGIN!r} and after it {END!r}")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def write_document(path: Path, text: str) -> None:
    """Put `text` into the document at `path`, which is made when it is not there."""
    document = path.read_text() if path.exists() else INTRODUCTION
    path.write_text(put_between_markers(document, text))
