"""What `strongroom baseline` compares: machines with each other, a prediction with a backup."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from strongroom import clock
from strongroom.cli.access import open_repository
from strongroom.cli.quantities import size_text
from strongroom.cli.remembered_profile import read_profile, remembered
from strongroom.errors import EXIT_DONE, UsageError
from strongroom.measure.comparison import Measured, compare, comparison_sentences
from strongroom.measure.fleet_report import fleet_report
from strongroom.printable import printable
from strongroom.repo.set_aside import SetAside
from strongroom.repo.snapshots import find_snapshot
from strongroom.stores.capabilities import found_false

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal


def compare_machines(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """The page of --fleet. Raises UsageError."""
    if not arguments.html:
        raise UsageError("--fleet makes a page: say where with --html FILE")
    profiles = {}
    for path in arguments.fleet:
        name = Path(path).stem
        if name in profiles:
            raise UsageError(
                f"--fleet {printable(path)}: another file names the machine {printable(name)} too"
            )
        profiles[name] = read_profile(path)
    try:
        Path(arguments.html).write_text(fleet_report(profiles))
    except OSError as error:
        raise UsageError(
            f"{printable(arguments.html)} cannot be written: {error.strerror}"
        ) from error
    hosts = list(profiles)
    terminal.emit({"type": "fleet", "hosts": hosts, "page": arguments.html})
    terminal.line(f"{len(hosts)} machines, on {printable(arguments.html)}")
    return EXIT_DONE


def compare_backup(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """What --compare asks for. Raises UsageError, SnapshotNotFoundError."""
    chosen = arguments.profile
    profile = read_profile(chosen) if chosen else remembered(arguments.settings)
    if profile is None:
        raise UsageError("nothing was measured here yet: run `strongroom baseline --dir DIR` first")
    repository = open_repository(arguments, terminal)
    try:
        wanted = "latest" if arguments.compare == "last" else arguments.compare
        false = found_false(repository.store)
        known = [one for one in repository.snapshots(SetAside()) if one.id not in false]
        snapshot = find_snapshot(known, wanted)
    finally:
        repository.close()
    totals = snapshot.totals
    measured = Measured(
        totals.files + totals.directories + totals.others,
        totals.files_new + totals.files_changed,
        totals.read_bytes,
        (snapshot.end_ns - snapshot.start_ns) / clock.SECOND_NS,
    )
    found = compare(profile, measured)
    if found is None:
        raise UsageError(
            "the profile has no tree, so it predicts no backup: measure with --dir DIR"
        )
    terminal.line(
        f"snapshot {snapshot.short_id} of {printable(snapshot.host)}: {measured.entries:,} "
        f"entries, {measured.files_read:,} files read, {size_text(measured.bytes_read)}"
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
