"""A suite's figures as a table of Markdown, a chart, and a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from strongroom.base.printable import printable
from strongroom.cli.measure.charts import Series, bar_chart, line_chart
from strongroom.cli.measure.report import page, table
from strongroom_bench.charts import bars_beside_best, chart_file
from strongroom_bench.documents import table as markdown_table
from strongroom_bench.suites.result import Row, SuiteResult

_MEBIBYTE: Final = 1 << 20
# Of one core: more than that of other programs, and figures are not of this machine alone.
_OTHERS_CORES: Final = 0.1
# Below, a duration is reported in a smaller unit.
_SHORT_SECONDS: Final = 0.1
# Below, a rate has a decimal.
_SLOW_MEGABYTES: Final = 1
_HEADS: Final = (
    "what", "condition", "median", "runs", "memory", "times as fast", "beside its own", "serial",
    "rate", "ratio", "figure", "in the text",
)  # fmt: skip
# Columns that every suite has.
_ALWAYS: Final = 6


def table_of(result: SuiteResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The heads, and a row of text for each condition; no column that is empty in this suite."""
    rows = list(_cells(result))
    kept = [
        column
        for column in range(len(_HEADS))
        if column < _ALWAYS or any(row[column] for row in rows)
    ]
    return (
        tuple(_HEADS[column] for column in kept),
        [tuple(row[column] for column in kept) for row in rows],
    )


def _cells(result: SuiteResult) -> Iterator[tuple[str, ...]]:
    for row in result.rows:
        content, stored = row.content_bytes, row.stored_bytes
        times = result.against_reference(row)
        own = result.against_own(row)
        yield (
            row.group,
            _condition(row),
            _duration(row.median_seconds) if row.seconds else "",
            _runs(row),
            f"{row.memory_bytes / _MEBIBYTE:,.0f} MiB" if row.memory_bytes else "",
            "" if times is None else f"{times:.1f} x",
            "" if own is None else f"{own:.1f} x {row.own_reference}",
            f"{row.serial_seconds:.2f} s" if row.serial_seconds else "",
            _rate(content / row.median_seconds) if content and row.seconds else "",
            f"{content / stored:.2f}" if content and stored else "",
            row.figure,
            row.text,
        )


def _rate(bytes_per_second: float) -> str:
    megabytes = bytes_per_second / 1e6
    return f"{megabytes:,.0f} MB/s" if megabytes >= _SLOW_MEGABYTES else f"{megabytes:.1f} MB/s"


def _duration(seconds: float) -> str:
    if seconds >= _SHORT_SECONDS:
        return f"{seconds:.2f} s"
    return (
        f"{seconds * 1e3:.1f} ms" if seconds >= _SHORT_SECONDS / 1e3 else f"{seconds * 1e6:.0f} us"
    )


def _runs(row: Row) -> str:
    if row.median_seconds < _SHORT_SECONDS:
        return ", ".join(map(_duration, row.seconds))
    return ", ".join(f"{one:.2f}" for one in row.seconds)


def circumstances(result: SuiteResult) -> str:
    """Machine, data, and whether it was idle."""
    machine = result.machine
    beside = (
        f" Taken beside other programs, which used {result.others_cores:.1f} cores on average: "
        "only the ratios count."
        if result.others_cores > _OTHERS_CORES
        else ""
    )
    return (
        f"{result.taken_at[:16]}Z, {printable(machine.processor)}, {machine.cores} cores, "
        f"{machine.memory_bytes / (1 << 30):.0f} GiB, kernel {machine.kernel}, Python "
        f"{machine.python}. {result.data}.{beside}"
    )


def markdown(result: SuiteResult, readers: str = "", picture: str = "") -> str:
    """A page of documentation: who is to read it, and the file of its chart, where given."""
    heads, rows = table_of(result)
    lines = [
        f"# {result.title}",
        "",
        *((f"*For {readers}.*", "") if readers else ()),
        f"`make bench SUITE={result.suite}`, {circumstances(result)}",
        "",
        f"Seed: {result.seed}",
        "",
        *((f"![Times of the conditions]({picture})", "") if picture else ()),
        *_column_notes(result),
        "",
        markdown_table(heads, rows, to_the_left=(0, 1, 3)),
        "",
    ]
    return "\n".join(lines)


def suite_page(result: SuiteResult) -> str:
    """A page of HTML with the charts."""
    blocks = [
        f"<h1>{escape(result.title)}</h1>",
        f'<p class="note">{escape(circumstances(result))}</p>',
        f"<p>{escape(result.seed)}</p>",
        *charts(result),
        *(
            bar_chart(
                f"{group}: seconds",
                [(row.condition, row.median_seconds) for row in rows if row.seconds],
                _two_digits,
            )
            for group, rows in result.groups().items()
            if any(row.seconds for row in rows)
        ),
        *(f"<p>{escape(note)}</p>" for note in _column_notes(result)),
        table(f"Compared with {result.reference}", *table_of(result)),
    ]
    return page(result.title, blocks)


def svg(result: SuiteResult) -> str:
    """The charts as its own file."""
    return chart_file(result.title, charts(result))


def charts(result: SuiteResult) -> list[str]:
    """Figures of HTML: lines where conditions are numbers, else bars."""
    groups = result.groups().items()
    if any(row.is_best for row in result.rows):
        return [_judged_bars(f"{group}, seconds", rows) for group, rows in groups]
    if any(row.line for row in result.rows):
        drawn = ((group, _lines_of(rows)) for group, rows in groups)
        return [
            line_chart(f"{group}, seconds", result.axis, lines, _seconds)
            for group, lines in drawn
            if lines
        ]
    lines = []
    for group, rows in groups:
        points = _points(rows)
        if len(points) == len(dict(points)) > 0:
            lines.append(Series(group, points))
    if lines:
        return [line_chart(f"{result.title}, seconds", result.axis, lines, _seconds)]
    bars = [
        (f"{row.group}: {row.condition}", row.median_seconds) for row in result.rows if row.seconds
    ]
    return [bar_chart(f"{result.title}, seconds", bars, _two_digits)]


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _points(rows: Sequence[Row]) -> list[tuple[float, float]]:
    return [(row.place, row.median_seconds) for row in rows if row.place is not None]


def _lines_of(rows: Sequence[Row]) -> list[Series]:
    """Those of more than one point."""
    names = dict.fromkeys(row.line for row in rows if row.line)
    found = (Series(name, _points([row for row in rows if row.line == name])) for name in names)
    return [series for series in found if len(series.points) > 1]


def _judged_bars(title: str, rows: Sequence[Row]) -> str:
    bars = [(_condition(row), row.median_seconds) for row in rows]
    best = next((number for number, row in enumerate(rows) if row.is_best), None)
    if best is None:
        return bar_chart(title, bars, _two_digits)
    return bars_beside_best(title, bars, best, _two_digits)


def _condition(row: Row) -> str:
    return f"{row.condition} (best)" if row.is_best else row.condition


def _two_digits(value: float) -> str:
    return f"{value:.2f} s"


def _column_notes(result: SuiteResult) -> Iterator[str]:
    """What the columns mean that do not say it."""
    text = f"Compared with `{result.reference}` of the same group"
    if any(row.own_reference for row in result.rows):
        text += ", and beside its own with the condition that is named there"
    if any(row.serial_seconds for row in result.rows):
        text += (
            ". Serial is the processor time of the process that coordinates our backup: no number "
            "of cores makes a backup faster than that"
        )
    yield text + "."
