"""`make bench`: measure the rows asked for and write the document, the chart and the raw data.

Rows measured earlier stay in the document with their own date, and so do the other steps where only
some are asked for; a run at another scale than 1 is for trying and only prints.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from strongroom.base.errors import UsageError
from strongroom.cli.measure.testbed.command import adopted_orphans
from strongroom_bench.contenders import (
    CONTENDERS,
    STEPS,
    Contender,
    strongroom_before,
)
from strongroom_bench.datasets import DATASETS, Dataset
from strongroom_bench.documents import write_document
from strongroom_bench.errors import ContenderError, OtherConditionsError
from strongroom_bench.places import DOCUMENTS, RESULTS, WORK
from strongroom_bench.rows.figures import summarise
from strongroom_bench.rows.report import (
    INTRODUCTION,
    chart,
    comparison_chart,
    comparison_text,
    figures_text,
)
from strongroom_bench.rows.results import (
    RowResult,
    check_conditions,
    load_results,
    save_results,
    with_steps_of,
)
from strongroom_bench.rows.runner import RowRunner

MEASURED_ROWS = RESULTS / "performance.json"
EPILOG = """examples:
  make bench                                  all rows, into appliance/engine/bench/results
  make bench ROWS=kernel,empty REPEATS=1
  make bench ARGUMENTS="--scale 0.01"         small data sets, printed only
  make bench ROWS=small REPEATS=3 ARGUMENTS="--again strongroom,restic"
  make bench ROWS=small ARGUMENTS="--steps restore"     the other steps stay as they are
  make bench ROWS=usr ARGUMENTS="--contenders restic,borg --steps first --print"
  make bench ROWS=kernel,usr ARGUMENTS="--contenders strongroom --against HEAD~1"
"""


def _choices(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        wanted = text.split(",")
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(known)}")
        return [name for name in known if name in wanted]

    return parse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is measured, how often, and where the results go."""
    parser.add_argument("--rows", type=_choices(list(DATASETS)), default=list(DATASETS))
    parser.add_argument("--contenders", type=_choices(list(CONTENDERS)), default=list(CONTENDERS))
    parser.add_argument(
        "--against", metavar="COMMIT", help="measure Strongroom of that commit too; only prints"
    )
    parser.add_argument("--steps", type=_choices(STEPS), default=list(STEPS))
    parser.add_argument("--repeats", type=int, help="rounds of every row (else 2 or 3 by its size)")
    parser.add_argument(
        "--again", type=_choices(list(CONTENDERS)), metavar="CONTENDERS",
        help="those of the rounds after the first (else all): a round of a million files takes "
        "half an hour, most of it of the slowest",
    )  # fmt: skip
    parser.add_argument("--scale", type=float, default=1.0, help="share of the data sets, to try")
    parser.add_argument(
        "--work-folder", type=Path, default=WORK,
        help="data sets, peers and repositories; data sets and peers stay there",
    )  # fmt: skip
    parser.add_argument("--no-floors", action="store_true", help="leave the bare loops out")
    parser.add_argument("--print", action="store_true", help="write no document, only print")
    parser.add_argument("--documents", type=Path, default=RESULTS, help="where the page goes")
    parser.add_argument(
        "--comparison", type=Path, default=DOCUMENTS / "performance.md",
        help="the page for users: its tables are written, and the picture in its folder images",
    )  # fmt: skip


def _check(arguments: argparse.Namespace) -> None:
    if not 0 < arguments.scale <= 1:
        raise UsageError("--scale must be above 0 and at most 1")
    if arguments.repeats is not None and arguments.repeats < 1:
        raise UsageError("--repeats must be at least 1")
    if arguments.no_floors and len(arguments.steps) < len(STEPS) and _publishes(arguments):
        raise UsageError(
            "--no-floors would drop the floors of these steps: use --print, or leave it"
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _contenders(names: Sequence[str], work_folder: Path) -> list[Contender]:
    found = []
    for name in names:
        try:
            found.append(CONTENDERS[name](work_folder))
        except ContenderError as error:
            _say(f"left out: {name}: {error}")
    return found


def _publish(row: RowResult, documents: Path, comparison: Path) -> None:
    kept = load_results(MEASURED_ROWS) | {row.row: row}
    ordered = {name: kept[name] for name in DATASETS if name in kept}
    save_results(MEASURED_ROWS, ordered)
    by_row = {name: summarise(result.runs) for name, result in ordered.items()}
    titles = {name: result.title for name, result in ordered.items()}
    (documents / "performance.svg").write_text(chart(by_row, titles))
    text = figures_text(ordered, "performance.svg")
    write_document(documents / "performance.md", text, INTRODUCTION)
    write_document(comparison, comparison_text(ordered), INTRODUCTION)
    (comparison.parent / "images" / "performance.svg").write_text(comparison_chart(ordered))


def _measured(
    dataset: Dataset,
    contenders: Sequence[Contender],
    work_folder: Path,
    arguments: argparse.Namespace,
) -> RowResult:
    """The row, with the steps not asked for as measured before. Raises OtherConditionsError."""
    _say(f"{dataset.name}: preparing the data set")
    steps = arguments.steps
    joins = _publishes(arguments) and len(steps) < len(STEPS) and dataset.name != "startup"
    if joins:
        # Each step is measured after those before it, as in a whole run.
        steps = STEPS[: 1 + max(STEPS.index(step) for step in steps)]
    runner = RowRunner(
        dataset,
        contenders,
        work_folder,
        arguments.scale,
        frozenset(steps),
        not arguments.no_floors,
        _say,
    )
    kept = load_results(MEASURED_ROWS).get(dataset.name)
    if joins:
        check_conditions(kept, runner.result(), arguments.steps)
    result = runner.run(arguments.repeats or dataset.repeats, arguments.again)
    return with_steps_of(kept, result, arguments.steps) if joins else result


def _publishes(arguments: argparse.Namespace) -> bool:
    return not (arguments.print or arguments.against) and arguments.scale == 1


def run(arguments: argparse.Namespace) -> int:
    """Measure and report; 1 when there is nothing to measure with, or to be beside."""
    _check(arguments)
    work_folder: Path = arguments.work_folder.resolve()
    work_folder.mkdir(parents=True, exist_ok=True)
    contenders = _contenders(arguments.contenders, work_folder)
    if arguments.against:
        contenders.append(strongroom_before(arguments.against, work_folder))
    if not contenders:
        return 1
    rows: dict[str, RowResult] = {}
    status = 0
    for name in arguments.rows:
        with adopted_orphans():
            try:
                rows[name] = _measured(DATASETS[name], contenders, work_folder, arguments)
            except OtherConditionsError as error:
                _say(f"left out: {error}")
                status = 1
                continue
        # After every row, so that an interrupted run keeps the rows it has finished.
        if _publishes(arguments):
            _publish(rows[name], arguments.documents, arguments.comparison)
    print(figures_text(rows, None))
    return status
