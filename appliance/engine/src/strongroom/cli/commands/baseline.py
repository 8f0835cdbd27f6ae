"""`strongroom baseline`: what bounds backups of this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strongroom.base import clock
from strongroom.base.errors import EXIT_DONE, UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.cli.baseline_tables import show_profile
from strongroom.cli.measure.profile import (
    DiskProfile,
    Iperf3Profile,
    NetworkProfile,
    Profile,
    Speed,
    Tree,
    profile_json,
)
from strongroom.cli.measure.verdict import predictions, sentences
from strongroom.cli.options import REPEATED, decimal, folder
from strongroom.cli.remembered_profile import read_profile, remember, remembered
from strongroom.cli.settings import Settings
from strongroom.cli.terminal import JsonObject, Terminal

if TYPE_CHECKING:
    from strongroom.engine.stores.place import RemoteLocation
    from strongroom.net.channels.channel import Channel

EPILOG = """\
examples:
  strongroom baseline --dir /home                       what bounds a backup of /home
  strongroom baseline --dir /home --html report.html    the same as a page with charts
  strongroom baseline --dir /home --server vault --identity /etc/strongroom/identity
  strongroom baseline --skip disk --iperf3 vault        also to `iperf3 -s` on vault
  strongroom baseline --skip disk -o web1.json          without a test file
  strongroom baseline --compare last --repo /mnt/backup predicted beside measured
  strongroom baseline --fleet web1.json --fleet db1.json --html fleet.html

The disk is measured by fio with a test file that has no name: at most 1 GiB, and at most half of
what is free. --cold empties the kernel's caches once, which slows down the machine for a while. The
storage daemon throws away what is sent to it. Takes about a minute and a half.
"""

PARTS: Final = ("processor", "tree", "disk", "network")
# Above this, for each core, other work is in the figures.
_BUSY_LOAD: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add folder, server and what to leave out."""
    parser.add_argument(
        "--dir", metavar="DIR", type=folder, default=".", help="what is backed up (default: .)"
    )
    parser.add_argument(
        "--server",
        metavar="ADDRESS",
        default="",
        help="the storage daemon, HOST, HOST:PORT or strongroom://HOST:PORT; without, the way to "
        "it is not measured",
    )
    parser.add_argument(
        "--iperf3",
        metavar="HOST[:PORT]",
        default="",
        help="measure the way to a server of iperf3 too (`iperf3 -s` there, port 5201)",
    )
    parser.add_argument(
        "--skip", metavar="PART", **REPEATED, choices=PARTS,
        help=f"leave out {', '.join(PARTS)}; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--cold", action="store_true", help="empty the kernel's caches before the walk (root)"
    )
    parser.add_argument(
        "--seconds", metavar="N", type=decimal(0.05, 60), default=2.0,
        help="how long each step measures (default: 2)",
    )  # fmt: skip
    parser.add_argument("--html", metavar="FILE", default="", help="also write a page with charts")
    other = parser.add_argument_group("instead of measuring")
    other.add_argument(
        "--compare",
        metavar="SNAPSHOT",
        default="",
        help="show what was predicted beside what a backup took; last: the newest",
    )
    other.add_argument(
        "--profile", metavar="FILE", default="", help="with the JSON in FILE, not the last profile"
    )
    other.add_argument(
        "--fleet",
        metavar="FILE",
        **REPEATED,
        help="a machine by its JSON, for the page of --html; named as its file, repeated",
    )
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="also write the JSON")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Measure, and say what it means. Raises UsageError."""
    if arguments.fleet:
        return _compare_machines(arguments, terminal)
    if arguments.compare:
        return _compare_backup(arguments, terminal)
    if arguments.profile:
        raise UsageError("--profile goes with --compare")
    _require_places(arguments)
    profile = _measure(arguments, terminal)
    remember(profile, arguments.settings, terminal)
    if arguments.output:
        _write(arguments.output, profile_json(profile))
    if arguments.html:
        _write(arguments.html, _page(profile))
    show_profile(profile, terminal)
    import msgspec

    terminal.emit(
        {"type": "baseline", **msgspec.to_builtins(profile), "verdict": _verdict_objects(profile)}
    )
    return EXIT_DONE


def _compare_machines(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """The page of --fleet. Raises UsageError."""
    from strongroom.cli.measure.fleet_report import fleet_report

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
    _write(arguments.html, fleet_report(profiles).encode())
    hosts = list(profiles)
    terminal.emit({"type": "fleet", "hosts": hosts, "page": arguments.html})
    terminal.line(f"{len(hosts)} machines, on {printable(arguments.html)}")
    return EXIT_DONE


def _compare_backup(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """A prediction beside a backup, for --compare. Raises UsageError, SnapshotNotFoundError."""
    from strongroom.cli.access import open_repository
    from strongroom.cli.measure.comparison import Measured, compare, comparison_sentences
    from strongroom.engine.repository.set_aside import SetAside
    from strongroom.engine.repository.snapshots import find_snapshot
    from strongroom.engine.stores.capabilities import found_false

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


def _require_places(arguments: argparse.Namespace) -> None:
    """Tell what is missing before anything is measured. Raises UsageError."""
    for path in filter(None, (arguments.output, arguments.html)):
        place = path if os.path.exists(path) else os.path.dirname(path) or "."
        if not os.access(place, os.W_OK):
            raise UsageError(
                f"{printable(path)} cannot be written: no such folder, or no permission"
            )
    if "disk" not in arguments.skip:
        from strongroom.cli.measure.disk import require_disk

        require_disk(arguments.dir)
    if "tree" not in arguments.skip and arguments.cold:
        from strongroom.cli.measure.tree import require_drop

        require_drop()


def _measure(arguments: argparse.Namespace, terminal: Terminal) -> Profile:
    from strongroom.cli.measure.processor import machine, measure_speed, works

    notes: list[str] = []
    load = os.getloadavg()[0]
    found = machine()
    if load > _BUSY_LOAD * found.cores:
        notes.append(
            f"the machine was busy (load {load:.1f} on {found.cores} cores): the figures are low"
        )
    tell = terminal.show_step
    skipped = set(arguments.skip)
    network: NetworkProfile | None = None
    iperf3: Iperf3Profile | None = None
    if "network" not in skipped:
        # First, because an address where nothing answers is known only now.
        network, iperf3 = _measure_network(arguments, tell)
    speeds: list[Speed] = []
    if "processor" not in skipped:
        for work in works():
            tell(f"processor: {work.name}")
            speeds.append(measure_speed(work, arguments.seconds / 10, found.cores))
    tree: Tree | None = None
    if "tree" not in skipped:
        from strongroom.cli.measure.tree import measure_tree

        tree, of_tree = measure_tree(
            arguments.dir, arguments.seconds, cold=arguments.cold, tell=tell
        )
        notes += of_tree
    disk: DiskProfile | None = None
    if "disk" not in skipped:
        from strongroom.cli.measure.disk import measure_disk

        disk = measure_disk(arguments.dir, arguments.seconds, tell)
        if not disk.is_direct:
            notes.append(
                "the file system knows no direct reads: the disk's figures are the cache's"
            )
    terminal.clear_live_line()
    return Profile(
        clock.utc_text(clock.now_ns()),
        found,
        tuple(speeds),
        disk,
        tree,
        network,
        tuple(notes),
        iperf3=iperf3,
    )


def _measure_network(
    arguments: argparse.Namespace, tell: Callable[[str], None]
) -> tuple[NetworkProfile | None, Iperf3Profile | None]:
    """What --server and --iperf3 ask for; both are checked before either is measured."""
    connect = _connector(arguments.server, arguments.settings) if arguments.server else None
    network: NetworkProfile | None = None
    iperf3: Iperf3Profile | None = None
    if arguments.iperf3:
        from strongroom.cli.measure.iperf3 import measure_iperf3, parse_server, require_iperf3

        far_end = parse_server(arguments.iperf3)
        require_iperf3()
        iperf3 = measure_iperf3(far_end, arguments.seconds, tell)
    if connect is not None:
        from strongroom.cli.measure.network import measure_network

        network = measure_network(arguments.server, connect, arguments.seconds, tell)
    return network, iperf3


def _connector(server: str, settings: Settings) -> Callable[[], Channel]:
    from strongroom.net.channels.connecting import connect
    from strongroom.net.channels.local_channel import connect_local
    from strongroom.net.identities.identity import Identity

    place = _storage_daemon(server)
    if place.socket_path:
        return lambda: connect_local(place.socket_path)
    folder = settings.identity_folder
    if not folder:
        raise UsageError(f"{printable(server)} requires a certificate; give --identity FOLDER")
    identity = Identity.load(folder)
    return lambda: connect(place.address, place.port, place.address, identity, settings.tls_mode)


def _storage_daemon(server: str) -> RemoteLocation:
    """What --server names: a place of a repository, or HOST or HOST:PORT. Raises UsageError."""
    from strongroom.net.storage.place import parse_place

    if server.startswith(("unix:", "strongroom:")):
        return parse_place(server)
    try:
        if "/" not in server:
            return parse_place(f"strongroom://{server}")
    except UsageError as error:
        raise _no_daemon(server) from error
    raise _no_daemon(server)


def _no_daemon(server: str) -> UsageError:
    return UsageError(
        f"--server {printable(server)}: a storage daemon is named as HOST, HOST:PORT or "
        "strongroom://HOST:PORT"
    )


def _page(profile: Profile) -> bytes:
    from strongroom.cli.measure.report import html_report

    return html_report(profile).encode()


def _write(path: str, content: bytes) -> None:
    with os_errors(f"{printable(path)} cannot be written"):
        Path(path).write_bytes(content)


def _verdict_objects(profile: Profile) -> list[JsonObject]:
    return [
        {
            "work": one.work,
            "bound": one.bound,
            "seconds": one.seconds,
            "files_per_second": one.files_per_second,
            "bytes_per_second": one.bytes_per_second,
            "stages": {stage: one.seconds_of(stage) for stage in one.stages},
            "sentences": list(sentences(one)),
        }
        for one in predictions(profile)
    ]
