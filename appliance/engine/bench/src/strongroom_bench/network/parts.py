"""The parts that compare single jobs: against the local engine, over latency, against Bacula."""

from __future__ import annotations

from pathlib import Path

from strongroom_bench.network.jobs import Way, bacula_way, local_way, network_way
from strongroom_bench.testbed.bacula import BaculaSettings

MODES = ("off", "tls")
# 100 means 50 in each direction; the target does not ask for it.
LATENCIES_MILLISECONDS = (0, 1, 10, 50, 100)
TARGET_LATENCIES_MILLISECONDS = (1, 10, 50)
QUEUE_SIZES = (1, 8, 128, 512)
# Latency is measured without TLS, where the daemon's share of the work is least.
LATENCY_MODE = "off"
QUEUE_LATENCIES_MILLISECONDS = (0, 50)
# What a queue of blocks needs is workers: without, each shard compresses and stores by itself.
QUEUE_WORKERS = 2
# As Bacula says it, and the nearest of ours. It has no LZ4 for files: LZ4 is what it compresses
# the connection with, and what is stored is as large as without.
COMPRESSIONS = {
    "none": ("none", "", False),
    "lz4": ("lz4", "", True),
    "lzo": ("lz4", "LZO", False),
    "gzip": ("gzip6", "GZIP", False),
}


def loopback_ways() -> list[Way]:
    """The local engine, and the same job through a storage daemon."""
    return [local_way("local"), *(network_way(f"network, {mode}", mode) for mode in MODES)]


def latency_ways() -> list[Way]:
    """The usual job over links of every latency, all through the relay."""
    return [
        network_way(f"{delay} ms", LATENCY_MODE, delay_milliseconds=delay)
        for delay in LATENCIES_MILLISECONDS
    ]


def queue_ways() -> list[Way]:
    """Workers and every queue size, near and far."""
    return [
        network_way(
            f"queue {size}, {delay} ms",
            LATENCY_MODE,
            *("--workers", str(QUEUE_WORKERS), "--upload-queue-size", str(size)),
            delay_milliseconds=delay,
        )
        for delay in QUEUE_LATENCIES_MILLISECONDS
        for size in QUEUE_SIZES
    ]


def peer_ways(programs: Path, compressions: tuple[str, ...]) -> list[Way]:
    """Ours and Bacula's of the same compression and TLS, one after the other."""
    ways = []
    for name in compressions:
        ours, of_files, on_wire = COMPRESSIONS[name]
        for mode in MODES:
            if name != "lzo":
                words = ("--compression", ours)
                ways.append(network_way(f"strongroom, {name}, {mode}", mode, *words))
            settings = BaculaSettings(of_files, on_wire, mode == "tls")
            ways.append(bacula_way(f"bacula, {name}, {mode}", programs, settings))
    return ways
