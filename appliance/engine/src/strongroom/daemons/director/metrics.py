"""The director's metrics, for Prometheus: base units, unix times, stable names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.clients import load_clients
from strongroom.daemons.director.catalog.runs import counts_by_state, last_ends
from strongroom.daemons.director.catalog.snapshots import bytes_by_storage, totals_by_client
from strongroom.daemons.director.runs.plan import tls_mode_of
from strongroom.daemons.director.schedule.expectations import (
    longest_gap_seconds,
    schedule_of,
    zone_of,
)
from strongroom.daemons.exposition import Metric, MetricKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strongroom.config.settings.client import ClientSettings
    from strongroom.config.settings.permissions import PermissionKind
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.results import Permits, Run

Samples = list[tuple[dict[str, str], float]]


def catalog_metrics(context: DirectorContext, permits: Permits) -> list[Metric]:
    """Metrics from the catalog and the configuration. Blocks.

    permits: which runs are counted where a sample counts those of several jobs.
    """
    found: list[Metric] = []

    def add(name: str, text: str, samples: Samples, kind: MetricKind = "gauge") -> None:
        found.append(Metric(f"strongroom_{name}", text, kind, tuple(samples)))

    ends = last_ends(context.catalog)
    good = _newest(one for one in ends if one.went_well)
    last = _newest(ends)

    def of_runs(runs: Iterable[RunRecord], value: Callable[[RunRecord], float]) -> Samples:
        return [({"job": one.job, "client": one.client}, value(one)) for one in runs]

    add(
        "backup_last_success_timestamp_seconds",
        "When the last successful backup began.",
        of_runs(good, lambda one: one.started_ns / SECOND_NS),
    )
    add(
        "backup_last_run_status",
        "How the last backup ended: 0 done, 1 incomplete, 2 failed, 3 cancelled.",
        of_runs(last, lambda one: _STATUS[one.state]),
    )
    add(
        "backup_last_run_timestamp_seconds",
        "When the last backup ended.",
        of_runs(last, lambda one: one.ended_ns / SECOND_NS),
    )
    add(
        "backup_duration_seconds",
        "How long the last successful backup took.",
        of_runs(good, lambda one: (one.ended_ns - one.started_ns) / SECOND_NS),
    )
    for column, name, text in (
        ("files", "backup_files", "Files in the last successful backup."),
        ("bytes", "backup_bytes_read", "Bytes of files in the last successful backup."),
        ("stored_bytes", "backup_bytes_stored", "Bytes that it added to the repository."),
        ("errors", "backup_errors", "Files that it could not read."),
    ):
        add(name, text, of_runs(good, lambda one, column=column: getattr(one, column)))  # type: ignore[misc]
    add(
        "backup_errors_total",
        "Files that backups could not read, since the director was started.",
        [
            ({"job": job, "client": client}, float(count))
            for (job, client), count in _backup_errors(context).items()
        ],
        "counter",
    )
    for direction in ("send", "receive"):
        add(
            f"backup_ktls_{direction}",
            f"Whether the kernel encrypted what the agent was to {direction} in the last backup.",
            # A value from the agent, of any type.
            of_runs(good, lambda one, of=direction: float(one.security.get(f"ktls_{of}") is True)),  # type: ignore[misc]
        )
    for stem, what, kind, level in (
        ("backup_last_verify", "verify", "verify", ""),
        ("backup_last_restore_test", "restore test", "verify", _RESTORE_TEST_LEVEL),
        ("last_restore", "restore", "restore", ""),
    ):
        newest = _newest(last_ends(context.catalog, kind, level))
        add(
            f"{stem}_timestamp_seconds",
            f"When the last {what} ended.",
            of_runs(newest, lambda one: one.ended_ns / SECOND_NS),
        )
        add(
            f"{stem}_success",
            f"Whether the last {what} succeeded.",
            of_runs(newest, lambda one: float(one.state == "done")),
        )
    add("backup_expected_interval_seconds", *_intervals(context))
    add(
        "agent_clock_ahead_seconds",
        "How far the clock of an agent was ahead of the director's when it last connected.",
        [
            ({"client": name}, one.clock_ahead_ns / SECOND_NS)
            for name, one in load_clients(context.catalog).items()
        ],
    )
    totals = totals_by_client(context.catalog)
    add(
        "snapshots",
        "Existing snapshots.",
        [({"client": name}, count) for name, (count, _) in totals.items()],
    )
    add(
        "snapshots_stored_bytes",
        "Bytes that the existing snapshots added when they were made.",
        [({"client": name}, size) for name, (_, size) in totals.items()],
    )
    _add_repositories(context, add)
    add(
        "runs",
        "Runs in the catalog by how they ended.",
        [
            ({"kind": kind, "state": state}, count)
            for (kind, state), count in sorted(_counts(context, permits).items())
        ],
    )
    return found


def live_metrics(
    context: DirectorContext, active: Iterable[Run], retention_held: bool, permits: Permits
) -> list[Metric]:
    """Metrics that need no access to the catalog; for the event loop. permits: as above."""
    clients = context.configuration.clients.values()
    counts: dict[str, int] = dict.fromkeys(("queued", "waiting", "running"), 0)
    running: Samples = []
    for run in active:
        if not (permits("job", run.job) and permits("client", run.client)):
            continue
        counts[run.state] = counts.get(run.state, 0) + 1
        if run.state == "running":
            labels = {"job": run.job, "client": run.client, "kind": run.kind}
            running.append((labels, float(run.bytes)))
    return [
        Metric(
            "strongroom_director_active_runs",
            "Runs that have not ended, by state.",
            "gauge",
            tuple(({"state": state}, float(count)) for state, count in counts.items()),
        ),
        Metric(
            "strongroom_director_run_bytes",
            "Bytes that active runs have processed so far.",
            "gauge",
            tuple(running),
        ),
        Metric(
            "strongroom_agent_connected",
            "Whether the agent of a client is connected.",
            "gauge",
            tuple(
                ({"client": one.name}, float(context.link.is_connected(one.name)))
                for one in clients
            ),
        ),
        Metric(
            "strongroom_agent_info",
            "Settings of a client, as labels; always 1.",
            "gauge",
            tuple((_settings(context, one), 1.0) for one in clients),
        ),
        Metric(
            "strongroom_director_retention_held",
            "Whether retention is suspended because the clock jumped.",
            "gauge",
            (({}, float(retention_held)),),
        ),
    ]


def permitted(metric: Metric, permits: Permits) -> Metric:
    """The metric with the samples of those jobs, clients and storages that are permitted."""
    samples = tuple(
        (labels, value)
        for labels, value in metric.samples
        if all(permits(kind, labels.get(kind, "")) for kind in _JUDGED_LABELS)
    )
    return replace(metric, samples=samples)


# Labels that are names which permissions can name.
_JUDGED_LABELS: Final[tuple[PermissionKind, ...]] = ("job", "client", "storage")
# A Verify job of this level restores a sample and compares it.
_RESTORE_TEST_LEVEL: Final = "data"
_STATUS: Final = {"done": 0.0, "incomplete": 1.0, "failed": 2.0, "cancelled": 3.0}


def _counts(context: DirectorContext, permits: Permits) -> Counter[tuple[str, str]]:
    """How many runs there are by kind and state, of jobs and clients that are permitted."""
    found: Counter[tuple[str, str]] = Counter()
    for (job, client, kind, state), count in counts_by_state(context.catalog).items():
        if permits("job", job) and permits("client", client):
            found[kind, state] += count
    return found


def _newest(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The newest of each job and client; `records` come oldest first."""
    return list({(one.job, one.client): one for one in records}.values())


def _backup_errors(context: DirectorContext) -> dict[tuple[str, str], int]:
    """By job and client; 0 before the first, so that monitoring sees the first increment."""
    found = {
        (job.name, job.client): 0
        for job in context.configuration.jobs.values()
        if job.kind == "backup" and job.client
    }
    return found | context.backup_errors


def _add_repositories(context: DirectorContext, add: Callable[[str, str, Samples], None]) -> None:
    snapshots = bytes_by_storage(context.catalog)
    stored = dict(context.repository_bytes)
    add(
        "repository_snapshot_bytes",
        "Bytes of all files of all existing snapshots, by Storage.",
        [({"storage": name}, size) for name, size in snapshots.items()],
    )
    add(
        "repository_stored_bytes",
        "Bytes that the packs of a repository use, as last measured, by Storage.",
        [({"storage": name}, size) for name, size in stored.items()],
    )
    add(
        "repository_dedup_ratio",
        "Ratio of bytes in snapshots to bytes stored; includes compression.",
        [
            ({"storage": name}, snapshots.get(name, 0) / size)
            for name, size in stored.items()
            if size
        ],
    )


def _settings(context: DirectorContext, client: ClientSettings) -> dict[str, str]:
    hello = context.hellos.get(client.name)
    return {
        "client": client.name,
        "version": hello.version if hello is not None else "",
        "tls_mode": tls_mode_of(client, context.features(client.name)),
        "workers": str(hello.workers or "") if hello is not None else "",
        "maximum_concurrent_jobs": str(client.maximum_concurrent_jobs),
    }


def _intervals(context: DirectorContext) -> tuple[str, Samples]:
    """For each scheduled backup the longest time between two of its next due times."""
    samples: Samples = []
    now_ns = clock.now_ns()
    configuration = context.configuration
    for job in configuration.jobs.values():
        schedule = schedule_of(configuration, job)
        if job.kind != "backup" or schedule is None:
            continue
        zone = zone_of(configuration, schedule)
        if gap := longest_gap_seconds(schedule, now_ns, zone):
            samples.append(({"job": job.name, "client": job.client}, gap))
    return "The longest time between two scheduled runs of a job.", samples
