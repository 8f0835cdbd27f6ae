"""Metrics of a storage daemon, in Prometheus' text format.

Counters are incremented by many threads under one lock, once per request.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator

from strongroom.net.channels.ktls import read_statistics
from strongroom.service.exposition import Metric, exposition
from strongroom.service.metric_table.storage import SECTIONS

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
        names = [one.name for section in SECTIONS.values() for one in section]
        samples: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in names}
        for name, labels, value in rows:
            samples[name].append((dict(labels), float(value)))
        return exposition(Metric(name, tuple(samples[name])) for name in names if samples[name])


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
