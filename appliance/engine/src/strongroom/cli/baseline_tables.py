"""What `strongroom baseline` measured, as tables with bars and the verdict in words."""

from __future__ import annotations

from typing import Final

from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.cli.measure.profile import DiskProfile, Profile, Speed, Tree, transfer_rows
from strongroom.cli.measure.verdict import predictions, sentences
from strongroom.cli.measure.wording import (
    acceleration_sentence,
    attributes_sentence,
    iperf3_sentence,
    network_sentence,
)
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal

_BAR_WIDTH: Final = 24
_MEGA: Final = 1e6


def show_profile(profile: Profile, terminal: Terminal) -> None:
    """Show everything that was measured, what it predicts, and the notes as warnings."""
    machine = profile.machine
    terminal.line(
        f"{machine.host}: {machine.processor}, {machine.cores} cores, "
        f"{size_text(machine.memory_bytes)} memory, {size_text(machine.available_bytes)} free"
    )
    terminal.line(acceleration_sentence(machine))
    if profile.speeds:
        _show_speeds(profile.speeds, terminal)
    if profile.tree is not None:
        _show_tree(profile.tree, terminal)
    if profile.disk is not None:
        _show_disk(profile.disk, terminal)
    if profile.network is not None or profile.iperf3 is not None:
        _show_network(profile, terminal)
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
    columns = ("PROCESSOR", ">MB/s", ">ALL CORES", ">RATIO", "")
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
        f"{tree.folder}: {counted(tree.files, 'file')}, {counted(tree.directories, 'folder')}, "
        f"{size_text(tree.size_bytes)}; zstd1 makes 1/{tree.ratio:.1f} of it"
    )
    columns = ("WALK", ">ENTRIES/s", ">READS", ">ENTRIES A READ", "")
    most = max(walk.entries_per_second for walk in tree.walks)
    write_table(
        terminal,
        columns,
        [
            (
                walk.state,
                f"{walk.entries_per_second:,.0f}",
                "not counted" if walk.read_ios is None else f"{walk.read_ios:,}",
                f"{walk.entries / walk.read_ios:,.1f}" if walk.read_ios else "",
                _bar(walk.entries_per_second, most),
            )
            for walk in tree.walks
        ],
    )
    if tree.reads_uncounted:
        terminal.line(f"reads are not counted: {tree.reads_uncounted}")
    terminal.line(attributes_sentence(tree))
    terminal.line(
        f"open, read, close {tree.open_us:.1f} µs a small file; content "
        f"{tree.content_bytes_per_second / _MEGA:,.0f} MB/s"
        f"{'' if tree.content_is_cold else ' from memory'}"
    )


def _show_disk(disk: DiskProfile, terminal: Terminal) -> None:
    terminal.line()
    terminal.line(f"disk below {disk.folder}: {disk.device or 'none'}, {disk.file_system}")
    columns = (">RANDOM READS AT ONCE", ">READS/s", ">MEDIAN µs", ">99% µs", "")
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
        ("STREAMING", ">BLOCK KiB", ">MB/s", ""),
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


def _show_network(profile: Profile, terminal: Terminal) -> None:
    terminal.line()
    if profile.network is not None:
        terminal.line(f"{profile.network.server}: {network_sentence(profile.network)}")
    if profile.iperf3 is not None:
        terminal.line(f"{profile.iperf3.server}: {iperf3_sentence(profile.iperf3)}")
    rows = transfer_rows(profile)
    most = max(row.daemon or row.iperf3 or 0.0 for row in rows)
    write_table(
        terminal,
        ("NETWORK", ">CONNECTIONS", ">MB/s", ">IPERF3 MB/s", ""),
        [
            (
                row.direction,
                str(row.streams),
                _megabytes(row.daemon),
                _megabytes(row.iperf3),
                _bar(row.daemon or row.iperf3 or 0.0, most),
            )
            for row in rows
        ],
    )  # fmt: skip


def _megabytes(rate: float | None) -> str:
    return "" if rate is None else f"{rate / _MEGA:,.0f}"


def _bar(value: float, most: float) -> str:
    return "#" * round(_BAR_WIDTH * value / most) if most else ""
