"""The metrics of the storage daemon."""

from __future__ import annotations

from typing import Final

from strongroom.service.metric_table.specification import MetricKind, Specification


def _one(
    name: str,
    unit: str,
    labels: tuple[str, ...],
    meaning: str,
    query: str = "",
) -> Specification:
    kind: MetricKind = "counter" if name.endswith("_total") else "gauge"
    return Specification(f"strongroom_storage_{name}", kind, unit, labels, meaning, query)


CONNECTIONS: Final = (
    _one("connections_total", "", ("role", "mode"), "Connections that were accepted."),
    _one("connections", "", ("role",), "Open connections."),
    _one("handshakes", "", (), "Connections that are not authenticated yet."),
    _one("refused_total", "", ("cause",), "Connections that were refused."),
    _one("requests_total", "", ("type",), "Requests done.",
         "sum by (type) (rate(strongroom_storage_requests_total[5m]))"),
    _one("failures_total", "", ("error",), "Requests that failed."),
    _one("refused_deletes_total", "", ("role",),
         "Deletions without permission, or before Minimum Retention. Investigate any by `agent`.",
         'increase(strongroom_storage_refused_deletes_total{role="agent"}[1d]) > 0'),
    _one("uploads", "", (), "Uploads under way."),
    _one("received_bytes_total", "bytes", (), "Bytes of objects received.",
         "rate(strongroom_storage_received_bytes_total[5m])"),
    _one("sent_bytes_total", "bytes", (), "Bytes of objects sent."),
)  # fmt: skip

_KEPT: Final = ("repository",)

KEPT: Final = (
    _one("objects", "", (*_KEPT, "owner"),
         "Objects stored; what two agents stored counts for both."),
    _one("stored_bytes", "bytes", (*_KEPT, "owner"), "Bytes of these objects."),
    _one("quota_bytes", "bytes", (*_KEPT, "owner"), "Quota of an owner that has one."),
    _one("unverified_objects", "", (*_KEPT, "kind"), "Objects that are not verified yet."),
    _one("false_objects", "", (*_KEPT, "kind"), "Objects that were found false and are hidden.",
         "strongroom_storage_false_objects > 0"),
    _one("size_bytes", "bytes", _KEPT, "Size of the repository's file system."),
    _one("free_bytes", "bytes", _KEPT, "Free bytes of it.",
         "strongroom_storage_free_bytes / strongroom_storage_size_bytes < 0.1"),
    _one("clock_ahead_seconds", "seconds", _KEPT,
         "How far the machine's clock is ahead of the [tamper-resistant clock]"
         "(../daemons/storage-daemon.md#minimum-retention-and-the-clock); 0 if plausible."),
    _one("restart_needed", "bool", (), "Whether directives that were changed wait for a restart."),
)  # fmt: skip

_KERNEL: Final = "of all processes of this machine, from `/proc/net/tls_stat`"

KERNEL_TLS: Final = (
    _one("kernel_tls_open", "", ("direction",),
         f"Directions of sockets for which the kernel does TLS now, {_KERNEL}; absent without the "
         "kernel module."),
    _one("kernel_tls_opened_total", "", ("direction",),
         f"Directions of sockets for which it has done TLS, {_KERNEL}.",
         "increase(strongroom_storage_kernel_tls_opened_total[1d])"),
    _one("kernel_tls_errors_total", "", (),
         f"TLS records that the kernel could not decrypt, {_KERNEL}."),
)  # fmt: skip

SECTIONS: Final = {
    "Connections and requests": CONNECTIONS,
    "What is kept": KEPT,
    "TLS in the kernel": KERNEL_TLS,
}
