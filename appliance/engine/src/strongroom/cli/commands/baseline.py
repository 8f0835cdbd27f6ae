"""`strongroom baseline`: what bounds backups of this machine."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.cli.quantities import duration_text, size_text
from strongroom.cli.remembered_profile import remember
from strongroom.cli.table import Column, write_table
from strongroom.errors import EXIT_DONE, UsageError
from strongroom.measure.profile import Profile, profile_json
from strongroom.measure.verdict import predictions, sentences
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from strongroom.cli.settings import Settings
    from strongroom.cli.terminal import Terminal
    from strongroom.measure.profile import DiskProfile, NetworkProfile, Speed, Tree
    from strongroom.net.channels.channel import Channel

EPILOG = """\
examples:
  strongroom baseline --dir /home                       what bounds a backup of /home
  strongroom baseline --dir /home --html report.html    the same as a page with charts
  strongroom baseline --dir /home --server strongroom://vault --identity /etc/strongroom/identity
  strongroom baseline --skip disk -o web1.json          without a test file
  strongroom baseline --compare last --repo /mnt/backup predicted beside measured
  strongroom baseline --fleet web1.json --fleet db1.json --html fleet.html

The disk is measured by fio with a test file that has no name: at most 1 GiB, and at most half of
what is free. --cold empties the kernel's caches once, which slows down the machine for a while. The
storage daemon throws away what is sent to it. Takes about a minute and a half.
"""

PARTS: Final = ("processor", "tree", "disk", "network")
_BAR_WIDTH: Final = 24
_MEGA: Final = 1e6
# Above this, for each core, other work is in the figures.
_BUSY_LOAD: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add folder, server and what to leave out."""
    parser.add_argument("--dir", metavar="DIR", default=".", help="what is backed up (default: .)")
    parser.add_argument(
        "--server",
        metavar="PLACE",
        default="",
        help="the storage daemon, strongroom://HOST:PORT; without, no network is measured",
    )
    parser.add_argument(
        "--skip", metavar="PART", action="append", default=[], choices=PARTS,
        help=f"leave out {', '.join(PARTS)}; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--cold", action="store_true", help="empty the kernel's caches before the walk (root)"
    )
    parser.add_argument(
        "--seconds", metavar="N", type=float, default=2.0,
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
        action="append",
        default=[],
        help="a machine by its JSON, for the page of --html; named as its file, repeated",
    )
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="also write the JSON")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Measure, and say what it means. Raises UsageError."""
    if arguments.fleet:
        from strongroom.cli.baseline_comparison import compare_machines

        return compare_machines(arguments, terminal)
    if arguments.compare:
        from strongroom.cli.baseline_comparison import compare_backup

        return compare_backup(arguments, terminal)
    if arguments.profile:
        raise UsageError("--profile goes with --compare")
    if not 0.05 <= arguments.seconds <= 60:
        raise UsageError("--seconds is between 0.05 and 60")
    if not os.path.isdir(arguments.dir):
        raise UsageError(f"--dir {printable(arguments.dir)} is no folder")
    profile = _measure(arguments, terminal)
    remember(profile, arguments.settings, terminal)
    if arguments.output:
        _write(arguments.output, profile_json(profile))
    if arguments.html:
        _write(arguments.html, _page(profile))
    _show(profile, terminal)
    import msgspec

    terminal.emit({"type": "baseline", **msgspec.to_builtins(profile), "verdict": _told(profile)})
    return EXIT_DONE


def _measure(arguments: argparse.Namespace, terminal: Terminal) -> Profile:
    from strongroom.measure.processor import machine, measure_speed, works

    notes: list[str] = []
    load = os.getloadavg()[0]
    found = machine()
    if load > _BUSY_LOAD * found.cores:
        notes.append(
            f"the machine was busy (load {load:.1f} on {found.cores} cores): the figures are low"
        )
    tell = partial(_tell, terminal)
    skipped = set(arguments.skip)
    speeds: list[Speed] = []
    if "processor" not in skipped:
        for work in works():
            tell(f"processor: {work.name}")
            speeds.append(measure_speed(work, arguments.seconds / 10, found.cores))
    tree: Tree | None = None
    if "tree" not in skipped:
        from strongroom.measure.tree import measure_tree

        tree, of_tree = measure_tree(
            arguments.dir, arguments.seconds, cold=arguments.cold, tell=tell
        )
        notes += of_tree
    disk: DiskProfile | None = None
    if "disk" not in skipped:
        from strongroom.measure.disk import measure_disk

        disk = measure_disk(arguments.dir, arguments.seconds, tell)
        if not disk.is_direct:
            notes.append(
                "the file system knows no direct reads: the disk's figures are the cache's"
            )
    network: NetworkProfile | None = None
    if "network" not in skipped and arguments.server:
        from strongroom.measure.network import measure_network

        connect = _connector(arguments.server, arguments.settings)
        network = measure_network(arguments.server, connect, arguments.seconds, tell)
    terminal.clear_live_line()
    return Profile(
        clock.utc_text(clock.now_ns()), found, tuple(speeds), disk, tree, network, tuple(notes)
    )


def _connector(server: str, settings: Settings) -> Callable[[], Channel]:
    from strongroom.net.channels.connecting import connect
    from strongroom.net.channels.local_channel import connect_local
    from strongroom.net.identities.identity import Identity
    from strongroom.net.storage.place import is_remote, parse_place

    if not is_remote(server):
        raise UsageError(
            f"--server {printable(server)}: a storage daemon is named as strongroom://HOST:PORT"
        )
    place = parse_place(server)
    if place.socket_path:
        return lambda: connect_local(place.socket_path)
    folder = settings.identity_folder
    if not folder:
        raise UsageError(f"{printable(server)} requires a certificate; give --identity FOLDER")
    identity = Identity.load(folder)
    return lambda: connect(place.address, place.port, place.address, identity, settings.tls_mode)


def _tell(terminal: Terminal, text: str) -> None:
    if not terminal.quiet and terminal.messages.isatty():
        terminal.show_live_line(text)


def _page(profile: Profile) -> bytes:
    from strongroom.measure.report import html_report

    return html_report(profile).encode()


def _write(path: str, content: bytes) -> None:
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise UsageError(f"{printable(path)} cannot be written: {error.strerror}") from error


def _told(profile: Profile) -> list[dict[str, object]]:
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


def _show(profile: Profile, terminal: Terminal) -> None:
    machine = profile.machine
    terminal.line(
        f"{machine.host}: {machine.processor}, {machine.cores} cores, "
        f"{size_text(machine.memory_bytes)} memory, {size_text(machine.available_bytes)} free"
    )
    if profile.speeds:
        _show_speeds(profile.speeds, terminal)
    if profile.tree is not None:
        _show_tree(profile.tree, terminal)
    if profile.disk is not None:
        _show_disk(profile.disk, terminal)
    if profile.network is not None:
        _show_network(profile.network, terminal)
    for one in predictions(profile):
        terminal.line()
        files = "" if one.work == "image" else f"{one.files_per_second:,.0f} files/s, "
        what = {"full": "a full backup", "incremental": "an incremental, nothing changed",
                "image": "an image of 100 GiB", "backup": "a backup"}[one.work]  # fmt: skip
        terminal.line(
            f"{what}: {files}{one.bytes_per_second / _MEGA:,.0f} MB/s, "
            f"{duration_text(one.seconds)} (predicted)"
        )
        for sentence in sentences(one):
            terminal.line(f"  {sentence}")
    for note in profile.notes:
        terminal.warn(note)


def _show_speeds(speeds: tuple[Speed, ...], terminal: Terminal) -> None:
    columns = (
        Column("PROCESSOR"), Column("MB/s", to_the_right=True),
        Column("ALL CORES", to_the_right=True), Column("RATIO", to_the_right=True), Column(""),
    )  # fmt: skip
    most = max(speed.all_cores for speed in speeds)
    terminal.line()
    write_table(
        terminal,
        columns,
        [
            (
                speed.name,
                f"{speed.one_core / _MEGA:,.0f}",
                f"{speed.all_cores / _MEGA:,.0f}",
                f"{speed.ratio:.1f}" if speed.ratio else "",
                _bar(speed.all_cores, most),
            )
            for speed in speeds
        ],
    )


def _show_tree(tree: Tree, terminal: Terminal) -> None:
    terminal.line()
    terminal.line(
        f"{tree.folder}: {tree.files:,} files, {tree.directories:,} folders, "
        f"{size_text(tree.size_bytes)}; zstd1 makes 1/{tree.ratio:.1f} of it"
    )
    columns = (
        Column("WALK"), Column("ENTRIES/s", to_the_right=True), Column("READS", to_the_right=True),
        Column("ENTRIES A READ", to_the_right=True), Column(""),
    )  # fmt: skip
    most = max(walk.entries_per_second for walk in tree.walks)
    write_table(
        terminal,
        columns,
        [
            (
                walk.state,
                f"{walk.entries_per_second:,.0f}",
                "" if walk.read_ios is None else f"{walk.read_ios:,}",
                f"{walk.entries / walk.read_ios:,.1f}" if walk.read_ios else "",
                _bar(walk.entries_per_second, most),
            )
            for walk in tree.walks
        ],
    )
    terminal.line(
        f"attributes and ACLs {tree.attributes_us:.1f} µs an entry; open, read, close "
        f"{tree.open_us:.1f} µs a small file; content {tree.content_bytes_per_second / _MEGA:,.0f} "
        f"MB/s{'' if tree.content_is_cold else ' from memory'}"
    )


def _show_disk(disk: DiskProfile, terminal: Terminal) -> None:
    terminal.line()
    terminal.line(f"disk below {disk.folder}: {disk.device or 'none'}, {disk.file_system}")
    columns = (
        Column("RANDOM READS AT ONCE", to_the_right=True), Column("READS/s", to_the_right=True),
        Column("MEDIAN µs", to_the_right=True), Column("99% µs", to_the_right=True), Column(""),
    )  # fmt: skip
    most = max(one.reads_per_second for one in disk.random_reads)
    write_table(
        terminal,
        columns,
        [
            (
                str(one.depth),
                f"{one.reads_per_second:,.0f}",
                f"{one.p50_us:,.0f}",
                f"{one.p99_us:,.0f}",
                _bar(one.reads_per_second, most),
            )
            for one in disk.random_reads
        ],
    )
    fastest = max(one.bytes_per_second for one in disk.streaming)
    write_table(
        terminal,
        (Column("STREAMING"), Column("BLOCK KiB", to_the_right=True),
         Column("MB/s", to_the_right=True), Column("")),
        [
            (
                one.direction,
                f"{one.block_bytes >> 10:,}",
                f"{one.bytes_per_second / _MEGA:,.0f}",
                _bar(one.bytes_per_second, fastest),
            )
            for one in disk.streaming
        ],
    )  # fmt: skip


def _show_network(network: NetworkProfile, terminal: Terminal) -> None:
    terminal.line()
    terminal.line(
        f"{network.server}: {network.mode}, round trip {network.rtt_us / 1000:.2f} ms, MTU "
        f"{network.path_mtu_bytes}, {network.congestion_control or 'no TCP'}, sent again "
        f"{network.retransmitted:,} of {network.sent_segments:,} segments"
    )
    most = max(one.bytes_per_second for one in network.transfers)
    write_table(
        terminal,
        (Column("NETWORK"), Column("CONNECTIONS", to_the_right=True),
         Column("MB/s", to_the_right=True), Column("")),
        [
            (
                one.direction,
                str(one.streams),
                f"{one.bytes_per_second / _MEGA:,.0f}",
                _bar(one.bytes_per_second, most),
            )
            for one in network.transfers
        ],
    )  # fmt: skip


def _bar(value: float, most: float) -> str:
    return "#" * round(_BAR_WIDTH * value / most) if most else ""
