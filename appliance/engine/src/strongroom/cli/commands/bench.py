"""`strongroom bench`: reproduces texts on the speed of backups."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.cli.quantities import size_text
from strongroom.cli.table import Column, write_table
from strongroom.errors import EXIT_DONE, UsageError
from strongroom.measure.suites.catalog import SUITES
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from strongroom.cli.terminal import Terminal
    from strongroom.measure.suites.result import SuiteResult

_EPILOG: Final = """\
suites:
{suites}

examples:
  strongroom bench bacula-latency --html latency.html
  strongroom bench obnam --scale 0.1 -o obnam.json --svg obnam.svg
  strongroom bench bareos-compression --rounds 1 --markdown compression.md
  strongroom bench hashbackup --shards 1,2,4,8,16

Conditions are measured in turns. Everything is made in a folder that is removed afterwards. tar
with zstd, restic, rustic and borg are measured beside where they are installed, and in the suites
bacula-latency and bacula-nfs Bacula (bacula-director-sqlite3, -sd, -fd, -console). Measure when
nothing else runs; beside other programs only the ratios say something, and the report says so.
"""
EPILOG = _EPILOG.format(
    suites="\n".join(f"  {name:<19} {suite.summary}" for name, suite in SUITES.items())
)

# Not the temporary folder, which often lies in memory.
_LARGE_TEMPORARY: Final = "/var/tmp"  # noqa: S108 - a folder of its own is made in it
_RESERVE_BYTES: Final = 1 << 30
_LONGEST_DELAY: Final = 1000
_MOST_SHARDS: Final = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the suite, how much, and where the results go."""
    add = parser.add_argument
    add("suite", metavar="SUITE", help=", ".join(SUITES))
    add("--scale", metavar="N", type=float, default=1.0, help="share of the data, 0 to 1")
    add("--rounds", metavar="N", type=int, default=3, help="runs of each condition (default: 3)")
    add(
        "--delays",
        metavar="MS[,MS]",
        default="",
        help="how late a file server answers, for bacula-latency and bacula-nfs "
        "(default: 0.2,1,5 milliseconds)",
    )
    add(
        "--shards",
        metavar="N[,N]",
        default="",
        help="how many shards, for hashbackup (default: 1,2,4,8); beside each but the least stands "
        "what the model of more cores predicts",
    )
    add("--work", metavar="FOLDER", default="", help="where data is made (default: /var/tmp)")
    add("-o", "--output", metavar="FILE", default="", help="write the JSON")
    add("--html", metavar="FILE", default="", help="write a page with charts")
    add("--svg", metavar="FILE", default="", help="write the chart")
    add("--markdown", metavar="FILE", default="", help="write the table as a page of Markdown")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Measure, and tell. Raises UsageError."""
    import msgspec

    from strongroom.measure.suites.report import (
        circumstances,
        suite_page,
        svg,
        table_of,
    )

    if arguments.suite not in SUITES:
        raise UsageError(
            f"{printable(arguments.suite)} is no suite: write one of {', '.join(SUITES)}"
        )
    if not 0 < arguments.scale <= 1:
        raise UsageError("--scale is above 0 and at most 1")
    if not 1 <= arguments.rounds <= 100:
        raise UsageError("--rounds is between 1 and 100")
    _require_choice(arguments)
    given = _delays(arguments.delays) or _shards(arguments.shards)
    place = arguments.work or _LARGE_TEMPORARY
    _require_room(place, arguments.suite, arguments.scale)
    folder = Path(tempfile.mkdtemp(prefix=".strongroom-bench-", dir=place))
    try:
        result = _measured(arguments, folder, given, terminal)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    terminal.clear_live_line()
    files: tuple[tuple[str, Callable[[], str]], ...] = (
        (arguments.output, lambda: msgspec.json.encode(result).decode() + "\n"),
        (arguments.html, lambda: suite_page(result)),
        (arguments.svg, lambda: svg(result)),
        (arguments.markdown, lambda: _page(result, arguments.svg)),
    )
    for path, text in files:
        if path:
            _write(path, text())
    terminal.line(circumstances(result))
    terminal.line(result.seed)
    terminal.line()
    heads, rows = table_of(result)
    columns = [
        Column(head.upper(), to_the_right=head not in (heads[0], "condition", "in the text"))
        for head in heads
    ]
    write_table(terminal, columns, rows)
    terminal.emit({"type": "bench", **msgspec.to_builtins(result)})
    return EXIT_DONE


def _measured(
    arguments: argparse.Namespace,
    folder: Path,
    given: tuple[float, ...],
    terminal: Terminal,
) -> SuiteResult:
    from strongroom.measure.processor import machine
    from strongroom.measure.suites.result import SuiteResult
    from strongroom.measure.testbed.other_work import OtherWork

    suite = SUITES[arguments.suite]
    measure, seed, reference = suite.load()

    def tell(text: str) -> None:
        terminal.detail(text)
        if not terminal.quiet and terminal.messages.isatty():
            terminal.show_live_line(text)

    chosen = (given,) if given else ()
    others = OtherWork()
    data, rows = measure(folder, arguments.scale, arguments.rounds, tell, *chosen)
    return SuiteResult(
        arguments.suite, suite.title, seed, clock.utc_text(clock.now_ns()), machine(),
        others.cores(), data, reference, suite.axis, tuple(rows),
    )  # fmt: skip


def _page(result: SuiteResult, chart: str) -> str:
    from strongroom.measure.suites.report import markdown

    return markdown(result, SUITES[result.suite].readers, Path(chart).name)


def _require_choice(arguments: argparse.Namespace) -> None:
    for choice in ("delays", "shards"):
        if getattr(arguments, choice) and SUITES[arguments.suite].choice != choice:
            suites = [name for name, suite in SUITES.items() if suite.choice == choice]
            raise UsageError(f"--{choice} is for {' and '.join(suites)}, not {arguments.suite}")


def _delays(text: str) -> tuple[float, ...]:
    if not text:
        return ()
    try:
        delays = tuple(map(float, text.split(",")))
    except ValueError:
        delays = ()
    if not delays or not all(0 <= delay <= _LONGEST_DELAY for delay in delays):
        raise UsageError(
            f"--delays {printable(text)}: write milliseconds of at most {_LONGEST_DELAY}, as in "
            "0.5,5"
        )
    return delays


def _shards(text: str) -> tuple[int, ...]:
    if not text:
        return ()
    try:
        counts = tuple(map(int, text.split(",")))
    except ValueError:
        counts = ()
    if not counts or not all(1 <= count <= _MOST_SHARDS for count in counts):
        raise UsageError(
            f"--shards {printable(text)}: write numbers of at most {_MOST_SHARDS}, as in 1,2,4"
        )
    return tuple(dict.fromkeys(counts))


def _require_room(place: str, suite: str, scale: float) -> None:
    try:
        found = os.statvfs(place)
    except OSError as error:
        raise UsageError(f"--work {printable(place)}: {error.strerror}") from error
    needed = int(SUITES[suite].needed_bytes * scale) + _RESERVE_BYTES
    if found.f_bavail * found.f_frsize < needed:
        raise UsageError(
            f"{printable(place)} has {size_text(found.f_bavail * found.f_frsize)} free, and "
            f"{suite} takes {size_text(needed)}: name another folder with --work, or a smaller "
            "--scale"
        )


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise UsageError(f"{printable(path)} cannot be written: {error.strerror}") from error
