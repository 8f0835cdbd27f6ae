"""What `strongroom baseline` compares: machines with each other, a prediction with a backup."""

from __future__ import annotations

import argparse
from pathlib import Path

from strongroom.base import clock
from strongroom.base.errors import EXIT_DONE, UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.measure.comparison import Measured, compare, comparison_sentences
from strongroom.cli.measure.fleet_report import fleet_report
from strongroom.cli.remembered_profile import read_profile, remembered
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import find_snapshot
from strongroom.engine.stores.capabilities import found_false


def compare_machines(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """The page of --fleet. Raises UsageError."""
    if not arguments.html:
        raise UsageError("--fleet writes a page: add --html FILE")
    profiles = {}
    for path in arguments.fleet:
        name = Path(path).stem
        if name in profiles:
            raise UsageError(
                f"--fleet {printable(path)}: another file names the machine {printable(name)} too"
            )
        profiles[name] = read_profile(path)
    with os_errors(f"{printable(arguments.html)} cannot be written"):
        Path(arguments.html).write_text(fleet_report(profiles))
    hosts = list(profiles)
    terminal.emit({"type": "fleet", "hosts": hosts, "page": arguments.html})
    terminal.line(f"{len(hosts)} machines, on {printable(arguments.html)}")
    return EXIT_DONE


def compare_backup(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """What --compare asks for. Raises UsageError, SnapshotNotFoundError."""
    chosen = arguments.profile
    profile = read_profile(chosen) if chosen else remembered(arguments.settings)
    if profile is None:
        raise UsageError("no measurement yet: run `strongroom baseline --dir DIR` first")
    with open_repository(arguments, terminal) as repository:
        wanted = "latest" if arguments.compare == "last" else arguments.compare
        false = found_false(repository.store)
        known = [one for one in repository.snapshots(SetAside()) if one.id not in false]
        snapshot = find_snapshot(known, wanted)
    totals = snapshot.totals
    measured = Measured(
        totals.files + totals.directories + totals.others,
        totals.files_new + totals.files_changed,
        totals.read_bytes,
        (snapshot.end_ns - snapshot.start_ns) / clock.SECOND_NS,
    )
    found = compare(profile, measured)
    if found is None:
        raise UsageError("the profile has no tree to predict a backup from: measure with --dir DIR")
    terminal.line(
        f"snapshot {snapshot.short_id} of {printable(snapshot.host)}: {measured.entries:,} "
        f"entries, {counted(measured.files_read, 'file')} read, {size_text(measured.bytes_read)}"
    )
    for sentence in comparison_sentences(found):
        terminal.line(sentence)
    terminal.emit(
        {
            "type": "comparison",
            "snapshot": snapshot.id,
            "predicted_seconds": found.predicted.seconds,
            "predicted_files_per_second": found.predicted.files_per_second,
            "predicted_bytes_per_second": found.predicted.bytes_per_second,
            "bound": found.predicted.bound,
            "measured_seconds": measured.seconds,
            "measured_files_per_second": measured.files_per_second,
            "measured_bytes_per_second": measured.bytes_per_second,
        }
    )
    return EXIT_DONE
