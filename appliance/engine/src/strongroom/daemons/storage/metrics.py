"""Metrics of a storage daemon, in Prometheus' text format.

Counters are incremented by many threads under one lock, once per request.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from strongroom.daemons.exposition import Metric, MetricKind, exposition
from strongroom.net.channels.ktls import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HELP: Final[dict[str, tuple[MetricKind, str]]] = {
    "strongroom_storage_connections_total": ("counter", "Connections that were accepted."),
    "strongroom_storage_refused_total": ("counter", "Connections refused, by cause."),
    "strongroom_storage_handshakes": ("gauge", "Connections that are not authenticated yet."),
    "strongroom_storage_connections": ("gauge", "Open connections."),
    "strongroom_storage_uploads": ("gauge", "Uploads under way."),
    "strongroom_storage_requests_total": ("counter", "Requests done."),
    "strongroom_storage_failures_total": ("counter", "Requests that failed, by error."),
    "strongroom_storage_refused_deletes_total": (
        "counter",
        "Deletions that were refused, by the role of the peer.",
    ),
    "strongroom_storage_received_bytes_total": ("counter", "Bytes of objects received."),
    "strongroom_storage_sent_bytes_total": ("counter", "Bytes of objects sent."),
    "strongroom_storage_objects": ("gauge", "Objects stored, by owner."),
    "strongroom_storage_stored_bytes": ("gauge", "Bytes stored, by owner."),
    "strongroom_storage_quota_bytes": ("gauge", "Quota of an owner in bytes."),
    "strongroom_storage_doubted_objects": ("gauge", "Objects that are not verified yet."),
    "strongroom_storage_false_objects": ("gauge", "Objects that were found false and are hidden."),
    "strongroom_storage_clock_ahead_seconds": (
        "gauge",
        "How far the clock is ahead of the trusted clock of Minimum Retention; 0 if plausible.",
    ),
    "strongroom_storage_kernel_tls_opened_total": (
        "counter",
        "Directions of sockets for which the kernel has done TLS (kTLS).",
    ),
    "strongroom_storage_kernel_tls_open": (
        "gauge",
        "Directions of sockets for which the kernel does TLS (kTLS) now.",
    ),
    "strongroom_storage_kernel_tls_errors_total": (
        "counter",
        "TLS records that the kernel could not decrypt.",
    ),
    "strongroom_storage_restart_needed": (
        "gauge",
        "Whether changed directives are in force only after a restart; the log names them.",
    ),
    "strongroom_storage_free_bytes": ("gauge", "Free bytes of the repository's file system."),
    "strongroom_storage_size_bytes": ("gauge", "Size of the repository's file system."),
}

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters by name and labels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = defaultdict(float)
        # Present from the start, so that monitoring sees the first increment.
        for role in ("agent", "director", "local"):
            self.count("refused_deletes", 0, role=role)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter of `strongroom_storage_NAME_total`."""
        with self._lock:
            self._counts[f"strongroom_storage_{name}_total", tuple(labels.items())] += amount

    def exposition(self, gauges: Iterable[tuple[str, Labels, float]]) -> bytes:
        """All counters; `gauges`, and counters kept elsewhere: end of the name, labels, value."""
        with self._lock:
            rows = [(name, labels, value) for (name, labels), value in self._counts.items()]
        rows += [(f"strongroom_storage_{name}", labels, value) for name, labels, value in gauges]
        samples: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in _HELP}
        for name, labels, value in rows:
            samples[name].append((dict(labels), value))
        return exposition(
            Metric(name, text, kind, tuple(samples[name]))
            for name, (kind, text) in _HELP.items()
            if samples[name]
        )


def kernel_tls() -> Iterator[tuple[str, Labels, float]]:
    """The kernel's TLS counters, for all processes of the machine; empty without kTLS."""
    found = read_statistics()
    if found is None:
        return
    for direction, stem in (("send", "Tx"), ("receive", "Rx")):
        labels = (("direction", direction),)
        for name, begin in (("kernel_tls_opened_total", "Tls"), ("kernel_tls_open", "TlsCurr")):
            yield name, labels, float(found[f"{begin}{stem}Sw"] + found[f"{begin}{stem}Device"])
    yield "kernel_tls_errors_total", (), float(found["TlsDecryptError"])
