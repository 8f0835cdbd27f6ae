"""A suite's figures as a table of Markdown, a chart, and a page that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from strongroom.measure.charts import Series, bar_chart, line_chart, standalone
from strongroom.measure.report import page, table
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.measure.suites.result import Row, SuiteResult

_MEBIBYTE: Final = 1 << 20
_BUSY_LOAD: Final = 0.5
# Below, a duration is told in a smaller unit.
_SHORT_SECONDS: Final = 0.1
_HEADS: Final = (
    "what", "condition", "median", "runs", "memory", "times as fast", "rate", "ratio", "figure",
    "in the text",
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
        yield (
            row.group,
            row.condition,
            _duration(row.median_seconds),
            _runs(row),
            f"{row.memory_bytes / _MEBIBYTE:,.0f} MiB" if row.memory_bytes else "",
            "" if times is None else f"{times:.1f} x",
            f"{content / row.median_seconds / 1e6:,.0f} MB/s" if content else "",
            f"{content / stored:.2f}" if content and stored else "",
            row.figure,
            row.text,
        )


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
    busy = result.load > _BUSY_LOAD * machine.cores
    beside = (
        f" Taken beside other work (load {result.load:.1f}): only the ratios count." if busy else ""
    )
    return (
        f"{result.taken_at[:16]}Z, {printable(machine.processor)}, {machine.cores} cores, "
        f"{machine.memory_bytes / (1 << 30):.0f} GiB, kernel {machine.kernel}, Python "
        f"{machine.python}. {result.data}.{beside}"
    )


def markdown(result: SuiteResult) -> str:
    """A page of documentation."""
    heads, rows = table_of(result)
    lines = [
        f"# {result.title}",
        "",
        f"`strongroom bench {result.suite}`, {circumstances(result)}",
        "",
        f"Seed: {result.seed}",
        "",
        f"Compared with `{result.reference}` of the same group.",
        "",
        f"| {' | '.join(heads)} |",
        f"|---|---|---:|---|{'---:|' * (len(heads) - 4)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    return "\n".join(lines)


def suite_page(result: SuiteResult) -> str:
    """A page of HTML with the charts."""
    blocks = [
        f"<h1>{escape(result.title)}</h1>",
        f'<p class="note">{escape(circumstances(result))}</p>',
        f"<p>{escape(result.seed)}</p>",
        _chart(result),
        *(
            bar_chart(
                f"{group}: seconds",
                [(row.condition, row.median_seconds) for row in rows],
                lambda value: f"{value:.2f} s",
            )
            for group, rows in result.groups().items()
        ),
        table(f"Compared with {result.reference}", *table_of(result)),
    ]
    return page(result.title, blocks)


def svg(result: SuiteResult) -> str:
    """The chart as a file of its own."""
    return standalone(_chart(result))


def _chart(result: SuiteResult) -> str:
    series = []
    for group, rows in result.groups().items():
        points = [(row.place, row.median_seconds) for row in rows if row.place is not None]
        if len(points) == len(dict(points)) > 0:
            series.append(Series(group, points))
    if not series:
        bars = [(f"{row.group}: {row.condition}", row.median_seconds) for row in result.rows]
        return bar_chart(f"{result.title}, seconds", bars, lambda value: f"{value:.2f} s")
    return line_chart(f"{result.title}, seconds", result.axis, series, lambda value: f"{value:g} s")
