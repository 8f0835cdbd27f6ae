"""`tsm-baseline`: the steps of a guide to what bounds a backup client, from the disk to the backup.

The text: the guide to baselines of IBM's storage manager (TSM). The parts are those of `strongroom
baseline`, followed by the backups that they predict.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from strongroom.base import clock
from strongroom.cli.measure.comparison import Measured, compare
from strongroom.cli.measure.disk import measure_disk
from strongroom.cli.measure.network import measure_network
from strongroom.cli.measure.processor import machine, measure_speed, works
from strongroom.cli.measure.profile import DiskProfile, NetworkProfile, Profile, Tree
from strongroom.cli.measure.testbed.command import measure
from strongroom.cli.measure.testbed.vault import Vault
from strongroom.cli.measure.tree import measure_tree
from strongroom.net.channels.channel import Channel
from strongroom.net.channels.connecting import connect
from strongroom.net.identities.identity import Identity
from strongroom_bench.suites.data import MAKERS
from strongroom_bench.suites.result import Row, counted

SECONDS: Final = 2.0
WARM: Final = "walk, warm"
_NAMES: Final = {"cold": "walk, cold", "first": "walk, as it was", "warm": WARM}
_DROP: Final = "/proc/sys/vm/drop_caches"
SEED: Final = (
    "A guide to baselines of TSM (Safespring, System performance tuning): measure random reads and "
    "the stat rate of a disk, count the reads that a walk takes and the files for each, then the "
    "network, and judge a backup by them. Its figures of streaming reads are left open there "
    "(TBD), those of processor and network are missing. Its machine is of 2010: software RAID-5 of "
    "SATA and PATA disks of 7200 rpm below LVM and dm-crypt, ext4, AMD Phenom II X4 of 3.4 GHz, 16 "
    "GB; its walk is of 2.0 million files on a file system of 394 GiB. Where root may, the caches "
    "of the whole machine are emptied before the first walk. Peers have no such steps, so none is "
    "measured here."
)
_TEXTS: Final = {
    "walk, cold": "4,882 files/s, 5.82 files for each read, 838 reads/s",
    WARM: "169,700 files/s, no reads",
    "1 at once": "133 a second, 7,478 us, 99% within 14,272 us",
}


def measure_tsm(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    *,
    cold: bool | None = None,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError.

    cold: empty the caches of the machine before the first walk; None for where that is allowed.
    """
    if cold is None:
        cold = os.access(_DROP, os.W_OK)
    tell("making root")
    data = MAKERS["root"](folder / "root", scale)
    seconds = max(0.1, SECONDS * scale)
    tree, _ = measure_tree(str(data.folder), seconds, cold=cold, tell=tell)
    disk = measure_disk(str(folder), seconds, tell)
    here = machine()
    speeds = tuple(measure_speed(work, seconds / 10, here.cores) for work in works())
    with Vault(folder / "vault") as vault:
        network = measure_network(f"127.0.0.1:{vault.port}", lambda: _connect(vault), seconds, tell)
        profile = Profile(clock.utc_text(clock.now_ns()), here, speeds, disk, tree, network)
        rows = [*_of_tree(tree), *_of_disk(disk), *_of_network(network)]
        for number in range(rounds + 1):
            what = f"incremental {number}" if number else "full"
            tell(f"backup, {what}")
            rows.append(_of_backup(vault, data.folder, what, profile))
    return data.words, rows


def _connect(vault: Vault) -> Channel:
    identity = Identity.load(str(vault.folder / "web1"))
    return connect("127.0.0.1", vault.port, "127.0.0.1", identity, "tls")


def _of_tree(tree: Tree) -> list[Row]:
    rows = []
    for walk in tree.walks:
        figure = f"{walk.entries_per_second:,.0f} entries/s"
        if walk.read_ios:
            figure += (
                f", {walk.read_ios:,} reads, {walk.entries / walk.read_ios:,.2f} entries for each, "
                f"{walk.read_ios / walk.seconds:,.0f} reads/s"
            )
        elif walk.read_ios is not None:
            figure += ", no reads"
        name = _NAMES[walk.state]
        rows.append(
            Row("1 metadata", name, (walk.seconds,), figure=figure, text=_TEXTS.get(name, ""))
        )
    cost = f"{tree.open_us:.1f} us to open and read, {tree.attributes_us:.1f} us for attributes"
    content = tree.size_bytes / max(1.0, tree.content_bytes_per_second)
    rows.append(
        Row("2 content", "files, one after the other", (content,), figure=cost,
            content_bytes=tree.size_bytes, text="TBD")
    )  # fmt: skip
    return rows


def _of_disk(disk: DiskProfile) -> list[Row]:
    rows = [
        Row("3 random reads of 4 KiB", f"{one.depth} at once", (one.mean_us / 1e6,),
            place=one.depth, text=_TEXTS.get(f"{one.depth} at once", ""),
            figure=f"{one.reads_per_second:,.0f} a second, 99% within {one.p99_us:,.0f} us")
        for one in disk.random_reads
    ]  # fmt: skip
    rows += [
        Row("4 streaming", f"{one.direction}, blocks of {one.block_bytes >> 10:,} KiB",
            ((1 << 30) / one.bytes_per_second,), content_bytes=1 << 30, text="TBD")
        for one in disk.streaming
    ]  # fmt: skip
    return rows


def _of_network(network: NetworkProfile) -> list[Row]:
    return [
        Row("5 network, loopback", f"{one.direction}, {counted(one.streams, 'stream')}",
            ((1 << 30) / one.bytes_per_second,), content_bytes=1 << 30,
            figure=f"round trip {network.rtt_us:,.0f} us")
        for one in network.transfers
    ]  # fmt: skip


def _of_backup(vault: Vault, data: Path, what: str, profile: Profile) -> Row:
    log = vault.folder / "log"
    found = measure(vault.backup("tls", str(data)), vault.environment, vault.folder, log)
    summary = json.loads(log.read_bytes().splitlines()[-1])
    entries = summary["files"] + summary["directories"] + summary["others"]
    measured = Measured(entries, summary["files_read"], summary["bytes_read"], found.wall_seconds)
    beside = compare(profile, measured)
    figure = f"{entries / found.wall_seconds:,.0f} entries/s"
    if beside is not None:
        figure += f", predicted {beside.predicted.seconds:,.2f} s"
    return Row(
        "6 backup", what, (found.wall_seconds,), found.peak_pss_bytes,
        content_bytes=summary["bytes_read"], figure=figure, cpu_seconds=found.cpu_seconds,
        serial_seconds=summary["coordinator_seconds"],
    )  # fmt: skip
