"""The figures as Markdown, put between two markers of a document whose other text stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strongroom_bench.charts import panels
from strongroom_bench.contenders import BEFORE, OURS
from strongroom_bench.documents import MB, megabytes_text, seconds_text, table
from strongroom_bench.more_cores import Cost, predicted_seconds
from strongroom_bench.rows.figures import (
    PEERS,
    PLAIN,
    Figure,
    Figures,
    fastest_peer,
    summarise,
    times_as_fast,
)
from strongroom_bench.rows.results import RowResult
from strongroom_bench.rows.targets import Verdict, judge

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
CORES = (4, 8, 16, 32)
_CORES_STEPS = ("first", "unchanged")
# A peer beside the fastest, in every row.
_ALWAYS = "restic"
# Steps of the page for users, and the floor that is tar's part in each.
_COMPARED = {"first": "floor: tar", "unchanged": "", "restore": "floor: untar"}
# Of the steps in the chart; the others are in the table alone.
CHART_TITLES = {
    "first": "first backup",
    "unchanged": "unchanged",
    "changed": "1% changed",
    "restore": "restore",
    "prune": "forget, prune",
}
_FLOOR = "bare floor"
_TAR = "tar, zstd"
COLOURS = {
    OURS: "#0f766e",
    "restic": "#64748b",
    "borg": "#94a3b8",
    "rustic": "#cbd5e1",
    "bacula": "#e2e8f0",
    _FLOOR: "#fcd34d",
    _TAR: "#fcd34d",
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


def cores_lines(by_row: Mapping[str, Figures], cores_here: Mapping[str, int]) -> list[list[str]]:
    """Lines of a table, for rows with a serial part: ours, the fastest peer and restic.

    A peer is given the best that is possible: all of its processor time shared.
    """
    lines = []
    for row, figures in by_row.items():
        for step in _CORES_STEPS:
            ours = figures.get((OURS, step))
            if ours is None or ours.serial_seconds is None:
                continue
            most = ours.cpu_seconds / ours.serial_seconds
            share = f"{ours.serial_seconds:.2f} of {ours.cpu_seconds:.2f}"
            lines.append(
                [f"{row}, {step}", OURS, share, f"{most:.1f}", *_walls(ours, cores_here[row])]
            )
            beside = {fastest_peer(figures, step), _ALWAYS}
            for peer in (one for one in PEERS if one in beside and (one, step) in figures):
                theirs = figures[peer, step]
                cpu = f"{theirs.cpu_seconds:.2f}"
                lines.append(["", peer, cpu, "", *_walls(theirs, cores_here[row])])
    return lines


def _walls(figure: Figure, here: int) -> list[str]:
    cost = Cost(figure.wall_seconds, figure.cpu_seconds, figure.serial_seconds or 0.0)
    return [f"{figure.wall_seconds:.2f}"] + [
        f"{predicted_seconds(cost, here, cores):.2f}" for cores in CORES
    ]


def cores_table(lines: Sequence[Sequence[str]]) -> str:
    """What the model of `more_cores` says, in seconds of wall clock but for the processor time."""
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


def comparison_text(rows: Mapping[str, RowResult]) -> str:
    """Tables of the page for users: seconds of the main steps, memory and size of first backups."""
    times, sizes = [], []
    for result in rows.values():
        figures = summarise(result.runs)
        if (OURS, "first") not in figures:
            continue
        for step, tar in _COMPARED.items():
            if (OURS, step) in figures:
                title = result.title if step == "first" else ""
                times.append([title, STEP_TITLES[step], *_times_cells(figures, step, tar)])
        sizes.append([result.title, *_sizes_cells(figures)])
    programs = (OURS, *PEERS)
    heads = ["seconds", "step", *programs, _TAR, "beside the fastest peer"]
    return (
        f"{table(heads, times, (0, 1))}\n\n"
        f"{table(['first backup: MB of memory / MB stored', *programs], sizes)}\n"
    )


def comparison_chart(rows: Mapping[str, RowResult]) -> str:
    """The chart of the page for users: its steps, its programs, tar and zstd."""
    shown = []
    for result in rows.values():
        figures = summarise(result.runs)
        if (OURS, "first") not in figures:
            continue
        steps = {}
        for step, tar in _COMPARED.items():
            named = [*((name, name) for name in (OURS, *PEERS)), (_TAR, tar)]
            steps[step] = [
                (title, figures[name, step].wall_seconds)
                for title, name in named
                if (name, step) in figures
            ]
        shown.append((result.title, {step: bars for step, bars in steps.items() if bars}))
    titles = {step: CHART_TITLES[step] for step in _COMPARED}
    return panels(shown, titles, COLOURS, seconds_text)


def _times_cells(figures: Figures, step: str, tar: str) -> list[str]:
    found = [figures.get((name, step)) for name in (OURS, *PEERS, tar)]
    ratio = times_as_fast(figures, step)
    return [
        *("" if figure is None else seconds_text(figure.wall_seconds) for figure in found),
        "" if ratio is None else f"**{ratio:.1f} times as fast**",
    ]


def _sizes_cells(figures: Figures) -> list[str]:
    found = [figures.get((name, "first")) for name in (OURS, *PEERS)]
    return [
        ""
        if figure is None
        else f"{megabytes_text(figure.memory_bytes)} / {megabytes_text(figure.stored_bytes or 0)}"
        for figure in found
    ]


def chart(figures_by_row: Mapping[str, Figures], titles: Mapping[str, str]) -> str:
    """The chart of all rows that have one of the steps; `titles` names the rows."""
    rows = []
    for row, figures in figures_by_row.items():
        steps = {step: bars for step in CHART_TITLES if (bars := _bars(figures, step))}
        if set(steps) - {"unchanged"}:
            rows.append((titles[row], steps))
    return panels(rows, CHART_TITLES, COLOURS, seconds_text)


def _bars(figures: Figures, step: str) -> list[tuple[str, float]]:
    """(name, seconds) of each bar; of several floors the highest, the nearest to the work."""
    bars = [
        (name, figures[name, step].wall_seconds)
        for name in (OURS, *PEERS, *PLAIN)
        if (name, step) in figures
    ]
    floors = [
        figure.wall_seconds
        for (name, of), figure in figures.items()
        if of == step and name.startswith("floor")
    ]
    return [*bars, (_FLOOR, min(floors))] if floors else bars
