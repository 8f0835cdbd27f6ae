"""The appliance: its daemons, disk, network, TLS and repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders.dashboard import Row

from dashboards.parts import (
    YES,
    Column,
    Query,
    above,
    below,
    curves,
    filled,
    new_dashboard,
    number,
    plain,
    rows,
    with_nodes,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard

DISKS = 'device!~"loop.*|ram.*|sr.*"'
NETWORK = 'device!~"lo|veth.*"'


def appliance() -> Dashboard:
    """The dashboard."""
    board = with_nodes(
        new_dashboard("strongroom-appliance", "Strongroom / Appliance", "Daemons, disk, network, TLS and repository."),
        "label_values(strongroom_storage_size_bytes, job)",
        'label_values(strongroom_storage_size_bytes{job=~"$node_job"}, instance)',
    )
    panels = (
        Row("Daemons"),
        number(
            "Director up",
            "Whether Prometheus reaches the director.",
            "short",
            below(1, 1),
            # Known by its metrics of a day: "All" of the variables is every target of that Prometheus.
            Query("up and on (job, instance) last_over_time(strongroom_director_info[1d])", "{{instance}}"),
            texts=YES,
        ),
        number(
            "Director runs for",
            "Time since the director was started.",
            "dtdurations",
            plain(),
            Query("time() - strongroom_director_start_time_seconds", "{{instance}}"),
        ),
        number(
            "Storage metrics are old",
            "Age of the file with the storage daemon's metrics.",
            "s",
            above(180, 600),
            Query('time() - node_textfile_mtime_seconds{file=~".*strongroom-storage.prom"}', "{{instance}}"),
        ),
        number(
            "Retention held",
            "Whether retention waits because the director's clock jumped.",
            "short",
            above(1, 1),
            Query("strongroom_director_retention_held", "{{instance}}"),
            texts=YES,
        ),
        number(
            "Restart needed",
            "Whether changed directives of the storage daemon wait for a restart.",
            "short",
            above(1, 1),
            Query("strongroom_storage_restart_needed", "{{instance}}"),
            texts=YES,
        ),
        number(
            "Undelivered notices",
            "Messages that were given up.",
            "short",
            above(1, 1),
            Query("strongroom_notices_dead", "{{instance}}"),
        ),
        rows(
            "Certificates and tokens",
            "What ends first comes first; in red with less than five days.",
            ("kind", "name", "client", "storage"),
            (
                Column(
                    "Ends",
                    Query("strongroom_expiry_timestamp_seconds - time()"),
                    "dtdurations",
                    (14 * 86400, 5 * 86400),
                ),
            ),
            first=("Ends",),
            width=12,
            is_ascending=True,
        ),
        rows(
            "Versions",
            "What the agents run.",
            ("version", "tls_mode"),
            (Column("Clients", Query("count by (version, tls_mode) (strongroom_agent_info)"), "short"),),
            first=("Clients",),
            width=12,
        ),
        Row("Repository"),
        curves(
            "Disk",
            "The file system of the repository.",
            "bytes",
            Query("strongroom_storage_size_bytes", "{{repository}} size"),
            Query("strongroom_storage_free_bytes", "{{repository}} free"),
        ),
        curves(
            "Largest owners",
            "Ten clients that have most; what two of them stored counts for both.",
            "bytes",
            Query("topk(10, strongroom_storage_stored_bytes)", "{{owner}}"),
        ),
        curves(
            "Maintenance",
            "Time since the last run of each Admin job ended.",
            "dtdurations",
            Query("time() - strongroom_maintenance_last_run_timestamp_seconds", "{{backup_job}}"),
        ),
        curves("Freed", "What the last prune freed.", "bytes", Query("strongroom_prune_freed_bytes", "{{backup_job}}")),
        number(
            "False objects",
            "Objects that are not what they claim to be; hidden from everybody.",
            "short",
            above(1, 1),
            Query("sum(strongroom_storage_false_objects)", "false"),
            width=6,
        ),
        number(
            "Unverified objects",
            "Objects that no one has verified yet.",
            "short",
            plain(),
            Query("sum(strongroom_storage_unverified_objects)", "unverified"),
            width=6,
        ),
        number(
            "Refused deletes",
            "Deletions that were refused in the last day.",
            "short",
            above(1, 10),
            Query("sum by (role) (increase(strongroom_storage_refused_deletes_total[1d]))", "{{role}}"),
            width=6,
        ),
        number(
            "Clock ahead",
            "How far the clock is ahead of the tamper-resistant one.",
            "s",
            above(1, 60),
            Query("strongroom_storage_clock_ahead_seconds", "{{repository}}"),
            width=6,
        ),
        Row("Storage daemon"),
        curves(
            "Objects",
            "Bytes of objects each second.",
            "Bps",
            Query("sum(rate(strongroom_storage_received_bytes_total[$__rate_interval]))", "received"),
            Query("sum(rate(strongroom_storage_sent_bytes_total[$__rate_interval]))", "sent"),
        ),
        curves(
            "Requests",
            "Requests each second, by type.",
            "reqps",
            Query("sum by (type) (rate(strongroom_storage_requests_total[$__rate_interval]))", "{{type}}"),
            stacked=True,
        ),
        curves(
            "Connections",
            "Open connections, by role, and uploads under way.",
            "short",
            Query("sum by (role) (strongroom_storage_connections)", "{{role}}"),
            Query("sum(strongroom_storage_uploads)", "uploads"),
        ),
        curves(
            "Connections by TLS mode",
            "Connections that were accepted, each second.",
            "cps",
            Query("sum by (mode) (rate(strongroom_storage_connections_total[$__rate_interval]))", "{{mode}}"),
        ),
        Row("TLS in the kernel"),
        number(
            "kTLS in backups",
            "Part of clients' last backups whose data the kernel encrypted.",
            "percentunit",
            plain(),
            Query("avg(strongroom_backup_ktls_send)", "sent by kTLS"),
            width=6,
        ),
        number(
            "kTLS wanted",
            "Clients for which it is wanted.",
            "short",
            plain(),
            Query("sum(strongroom_agent_ktls_wanted)", "wanted"),
            width=6,
        ),
        curves(
            "kTLS sockets",
            "Directions of sockets that the kernel encrypts, of all programs.",
            "short",
            Query("strongroom_storage_kernel_tls_open", "{{direction}}"),
        ),
        Row("Machine"),
        curves(
            "Processor",
            "Part of the time that processors do each kind of work.",
            "percentunit",
            Query(
                'sum by (mode) (rate(node_cpu_seconds_total{mode!="idle"}[$__rate_interval])) / '
                'scalar(count(rate(node_cpu_seconds_total{mode="idle"}[$__rate_interval])))',
                "{{mode}}",
            ),
            stacked=True,
        ),
        curves(
            "Memory",
            "Memory of the machine.",
            "bytes",
            Query("node_memory_MemTotal_bytes", "all"),
            Query("node_memory_MemAvailable_bytes", "available"),
        ),
        curves(
            "Disk throughput",
            "Bytes each second, by device.",
            "Bps",
            Query(
                f"sum by (device) (rate(node_disk_read_bytes_total{{{DISKS}}}[$__rate_interval]))", "{{device}} read"
            ),
            Query(
                f"sum by (device) (rate(node_disk_written_bytes_total{{{DISKS}}}[$__rate_interval]))",
                "{{device}} written",
            ),
        ),
        curves(
            "Disk busy",
            "Part of the time that a device has requests.",
            "percentunit",
            Query(
                f"sum by (device) (rate(node_disk_io_time_seconds_total{{{DISKS}}}[$__rate_interval]))", "{{device}}"
            ),
        ),
        curves(
            "Network",
            "Bytes each second, by device.",
            "Bps",
            Query(
                f"sum by (device) (rate(node_network_receive_bytes_total{{{NETWORK}}}[$__rate_interval]))",
                "{{device}} received",
            ),
            Query(
                f"sum by (device) (rate(node_network_transmit_bytes_total{{{NETWORK}}}[$__rate_interval]))",
                "{{device}} sent",
            ),
        ),
    )
    return filled(board, panels)
