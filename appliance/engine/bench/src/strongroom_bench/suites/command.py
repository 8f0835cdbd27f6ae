"""`make bench SUITE=NAME`: reproduces a text on the speed of backups."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.errors import EXIT_DONE, UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.base.quantities import size_text
from strongroom.cli.measure.processor import machine
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal
from strongroom_bench.suites.catalog import SUITES
from strongroom_bench.suites.report import circumstances, markdown, suite_page, svg, table_of
from strongroom_bench.suites.result import SuiteResult
from strongroom_bench.testbed.other_work import OtherWork

_EPILOG: Final = """\
suites:
{suites}

examples:
  make bench SUITE=bacula-latency ARGUMENTS="--html latency.html"
  make bench SUITE=obnam ARGUMENTS="--scale 0.1 -o obnam.json --svg obnam.svg"
  make bench SUITE=bareos-compression ARGUMENTS="--rounds 1 --markdown compression.md"
  make bench SUITE=hashbackup ARGUMENTS="--shards 1,2,4,8,16"

Conditions are measured in turns. Everything is made in a folder that is removed afterwards. tar
with zstd, restic, rustic and borg are measured beside where they are installed, and in the suites
bacula-latency and bacula-nfs Bacula (bacula-director-sqlite3, -sd, -fd, -console). Measure when
nothing else runs; beside other programs only the ratios say something, and the report says so.
"""
EPILOG = _EPILOG.format(
    suites="\n".join(f"  {name:<19} {suite.summary}" for name, suite in SUITES.items())
)

# Not the temporary folder, which often lies in memory.
_LARGE_TEMPORARY: Final = "/var/tmp"
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
        help="how late a server answers, in milliseconds, for bacula-latency and bacula-nfs "
        "(default: 0.2,1,5) and object-store (default: 0,10,50)",
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
    add("--quiet", action="store_true", help="print no table")


def run(arguments: argparse.Namespace) -> int:
    """Measure, and tell. Raises UsageError."""
    _check(arguments)
    given = _delays(arguments.delays) or _shards(arguments.shards)
    place = arguments.work or _LARGE_TEMPORARY
    _require_room(place, arguments.suite, arguments.scale)
    terminal = Terminal(quiet=arguments.quiet)
    folder = Path(tempfile.mkdtemp(prefix=".strongroom-bench-", dir=place))
    try:
        result = _measured(arguments, folder, given, terminal)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    terminal.clear_live_line()
    _write_files(arguments, result)
    terminal.line(circumstances(result))
    terminal.line(result.seed)
    terminal.line()
    heads, rows = table_of(result)
    texts = (heads[0], "condition", "in the text")
    write_table(terminal, [("" if head in texts else ">") + head.upper() for head in heads], rows)
    return EXIT_DONE


def _measured(
    arguments: argparse.Namespace,
    folder: Path,
    given: tuple[float, ...],
    terminal: Terminal,
) -> SuiteResult:
    suite = SUITES[arguments.suite]
    measure, seed, reference = suite.load()

    def tell(text: str) -> None:
        if not terminal.quiet and terminal.messages.isatty():
            terminal.show_live_line(text)

    chosen = (given,) if given else ()
    others = OtherWork()
    data, rows = measure(folder, arguments.scale, arguments.rounds, tell, *chosen)
    return SuiteResult(
        arguments.suite, suite.title, seed, clock.utc_text(clock.now_ns()), machine(),
        others.cores(), data, reference, suite.axis, tuple(rows),
    )  # fmt: skip


def _write_files(arguments: argparse.Namespace, result: SuiteResult) -> None:
    readers, chart = SUITES[result.suite].readers, Path(arguments.svg).name
    files: tuple[tuple[str, Callable[[], str]], ...] = (
        (arguments.output, lambda: msgspec.json.encode(result).decode() + "\n"),
        (arguments.html, lambda: suite_page(result)),
        (arguments.svg, lambda: svg(result)),
        (arguments.markdown, lambda: markdown(result, readers, chart)),
    )
    for path, text in files:
        if path:
            with os_errors(f"{printable(path)} cannot be written"):
                Path(path).write_text(text())


def _check(arguments: argparse.Namespace) -> None:
    if arguments.suite not in SUITES:
        raise UsageError(
            f"{printable(arguments.suite)} is not a suite: write one of {', '.join(SUITES)}"
        )
    if not 0 < arguments.scale <= 1:
        raise UsageError("--scale is above 0 and at most 1")
    if not 1 <= arguments.rounds <= 100:
        raise UsageError("--rounds is between 1 and 100")
    for choice in ("delays", "shards"):
        if getattr(arguments, choice) and SUITES[arguments.suite].choice != choice:
            suites = [name for name, suite in SUITES.items() if suite.choice == choice]
            raise UsageError(f"--{choice} is for {', '.join(suites)}, not {arguments.suite}")


def _delays(text: str) -> tuple[float, ...]:
    delays = _numbers(text, float)
    if text and not (delays and all(0 <= delay <= _LONGEST_DELAY for delay in delays)):
        raise UsageError(
            f"--delays {printable(text)}: write milliseconds of at most {_LONGEST_DELAY}, as in "
            "0.5,5"
        )
    return delays


def _shards(text: str) -> tuple[float, ...]:
    counts = _numbers(text, int)
    if text and not (counts and all(1 <= count <= _MOST_SHARDS for count in counts)):
        raise UsageError(
            f"--shards {printable(text)}: write numbers of at most {_MOST_SHARDS}, as in 1,2,4"
        )
    return tuple(dict.fromkeys(counts))


def _numbers(text: str, kind: type[int | float]) -> tuple[float, ...]:
    """None where one is not a number."""
    try:
        return tuple(map(kind, text.split(",")))
    except ValueError:
        return ()


def _require_room(place: str, suite: str, scale: float) -> None:
    with os_errors(f"--work {printable(place)}"):
        found = os.statvfs(place)
    needed = int(SUITES[suite].needed_bytes * scale) + _RESERVE_BYTES
    if found.f_bavail * found.f_frsize < needed:
        raise UsageError(
            f"{printable(place)} has {size_text(found.f_bavail * found.f_frsize)} free, and "
            f"{suite} takes {size_text(needed)}: name another folder with --work, or a smaller "
            "--scale"
        )
