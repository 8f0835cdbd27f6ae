"""Metrics from the catalog and the configuration, and what a caller may see of all metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.clients import load_clients
from strongroom.daemons.director.catalog.runs import counts_by_state
from strongroom.daemons.director.catalog.snapshots import bytes_by_storage, totals_by_client
from strongroom.daemons.director.metrics.of_jobs import job_metrics
from strongroom.daemons.exposition import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strongroom.config.settings.permissions import PermissionKind
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.results.access import Permits

# Labels that are names which permissions can name.
_JUDGED_LABELS: Final[dict[str, PermissionKind]] = {
    "backup_job": "job",
    "client": "client",
    "storage": "storage",
}


def catalog_metrics(context: DirectorContext, permits: Permits) -> list[Metric]:
    """Blocks. permits: which runs are counted where a sample counts those of several jobs."""
    return [
        *job_metrics(context),
        *_clients(context),
        *_repositories(context),
        Metric(
            "strongroom_runs",
            tuple(
                ({"kind": kind, "state": state}, float(count))
                for (kind, state), count in sorted(_counts(context, permits).items())
            ),
        ),
    ]


def permitted(metric: Metric, permits: Permits) -> Metric:
    """The metric with the samples of those jobs, clients and storages that are permitted."""
    samples = tuple(
        (labels, value)
        for labels, value in metric.samples
        if all(permits(kind, labels.get(label, "")) for label, kind in _JUDGED_LABELS.items())
    )
    return replace(metric, samples=samples)


def _clients(context: DirectorContext) -> Iterator[Metric]:
    known = load_clients(context.catalog)
    totals = totals_by_client(context.catalog)
    yield _of(
        "agent_clock_ahead_seconds",
        "client",
        {name: one.clock_ahead_ns / SECOND_NS for name, one in known.items()},
    )
    yield _of("snapshots", "client", {name: count for name, (count, _) in totals.items()})
    yield _of(
        "snapshots_stored_bytes", "client", {name: size for name, (_, size) in totals.items()}
    )


def _repositories(context: DirectorContext) -> Iterator[Metric]:
    snapshots = bytes_by_storage(context.catalog)
    stored, spaces = dict(context.repository_bytes), dict(context.repository_spaces)
    yield _of("repository_snapshot_bytes", "storage", snapshots)
    yield _of("repository_stored_bytes", "storage", stored)
    ratios = {name: snapshots.get(name, 0) / size for name, size in stored.items() if size}
    yield _of("repository_dedup_ratio", "storage", ratios)
    sizes = {name: space.size_bytes for name, space in spaces.items()}
    yield _of("repository_size_bytes", "storage", sizes)
    free = {name: space.free_bytes for name, space in spaces.items()}
    yield _of("repository_free_bytes", "storage", free)


def _of(name: str, label: str, values: Mapping[str, float]) -> Metric:
    samples = (({label: key}, float(value)) for key, value in values.items())
    return Metric(f"strongroom_{name}", tuple(samples))


def _counts(context: DirectorContext, permits: Permits) -> Counter[tuple[str, str]]:
    """How many runs there are by kind and state, of jobs and clients that are permitted."""
    found: Counter[tuple[str, str]] = Counter()
    for (job, client, kind, state), count in counts_by_state(context.catalog).items():
        if permits("job", job) and permits("client", client):
            found[kind, state] += count
    return found
