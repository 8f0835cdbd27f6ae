"""`strongroom vouch`: verifies what agents stored before other agents may share it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE, CheckFailedError
from strongroom.base.quantities import counted, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.set_aside import name_set_aside
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.repository import Repository

if TYPE_CHECKING:
    from strongroom.engine.check.vouch import VouchReport

EPILOG = """\
examples:
  strongroom vouch --repo unix:/run/strongroom-storage/storage.sock

Agents deduplicate against the uploads of others only after this has read and verified them. Run it
regularly, before prune; it reads only new data.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Takes no options of its own."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Verify and report. CheckFailedError when anything was false or damaged."""
    from strongroom.engine.check.vouch import required_judge, vouch

    with open_repository(arguments, terminal, "read") as repository:
        judge = required_judge(repository.store)
        with show_progress(terminal, "vouch") as progress:
            report = vouch(repository, judge, progress)
        _report(report, repository, terminal)
    wrong = len(report.false_objects) + len(report.damaged_objects)
    if wrong:
        raise CheckFailedError(
            f"{counted(wrong, 'object')} forged or damaged (listed above). Forged ones are "
            "hidden: check the client that stored them"
        )
    report.set_aside.require_none()
    return EXIT_DONE


def _report(report: VouchReport, repository: Repository, terminal: Terminal) -> None:
    for title, found in (("false", report.false_objects), ("damaged", report.damaged_objects)):
        for kind, name, why in found:
            terminal.emit({"type": title, "kind": kind, "name": name, "message": why})
            terminal.line(f"{title}: {kind} {name}: {why}")
    name_set_aside(report.set_aside, repository, terminal)
    terminal.emit(report.summary())
    terminal.line(
        f"verified {counted(report.packs, 'pack')} and "
        f"{counted(report.index_objects, 'index object')}; {size_text(report.read_bytes)} read"
    )
