"""Metrics of what is under way and who is connected; they need no access to the catalog."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import strongroom
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.metrics.of_jobs import stage_seconds
from strongroom.daemons.director.runs.plan import tls_mode_of
from strongroom.daemons.exposition import Metric
from strongroom.net.control.messages import RunProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strongroom.config.settings.client import ClientSettings
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.results.access import Permits
    from strongroom.daemons.director.runs.active_run import ActiveRun

_COUNTED = ("files", "bytes", "stored_bytes", "queued_blocks")


def live_metrics(
    context: DirectorContext,
    active: Iterable[ActiveRun],
    retention_held: bool,
    started_ns: int,
    permits: Permits,
) -> list[Metric]:
    """For the event loop. permits: which runs are counted where a sample counts several."""
    clients = context.configuration.clients.values()
    own = {"name": context.configuration.director.name, "version": strongroom.__version__}
    return [
        *_active_runs(active, permits),
        Metric(
            "strongroom_agent_connected",
            tuple(
                ({"client": one.name}, float(context.link.is_connected(one.name)))
                for one in clients
            ),
        ),
        Metric(
            "strongroom_agent_ktls_wanted",
            tuple(
                ({"client": one.name}, float(one.tls_enable and one.ktls in ("yes", "require")))
                for one in clients
            ),
        ),
        Metric("strongroom_agent_info", tuple((_settings(context, one), 1.0) for one in clients)),
        Metric("strongroom_director_retention_held", (({}, float(retention_held)),)),
        Metric("strongroom_director_info", ((own, 1.0),)),
        Metric("strongroom_director_start_time_seconds", (({}, started_ns / SECOND_NS),)),
    ]


def _active_runs(active: Iterable[ActiveRun], permits: Permits) -> Iterator[Metric]:
    """Runs of the same job and client at once are added up: they would be the same series."""
    counts: dict[str, int] = dict.fromkeys(("queued", "waiting", "running"), 0)
    totals: Counter[tuple[str, tuple[str, str, str]]] = Counter()
    stages: dict[tuple[str, str, str, str], float] = {}
    for run in active:
        record, progress = run.record, run.progress or RunProgress(run_id=run.record.id)
        if not (permits("job", record.job) and permits("client", record.client)):
            continue
        counts[record.state] = counts.get(record.state, 0) + 1
        if record.state != "running":
            continue
        of = (record.job, record.client, record.kind)
        for name in _COUNTED:
            totals[name, of] += max(0, getattr(progress, name))
        for stage, seconds in stage_seconds(progress.stage_seconds).items():
            stages[*of, stage] = stages.get((*of, stage), 0.0) + seconds
    yield Metric(
        "strongroom_director_active_runs",
        tuple(({"state": state}, float(count)) for state, count in counts.items()),
    )
    labels = ("backup_job", "client", "kind")
    for name in _COUNTED:
        yield Metric(
            f"strongroom_director_run_{name}",
            tuple(
                (dict(zip(labels, of, strict=True)), float(value))
                for (counted, of), value in totals.items()
                if counted == name and (name != "queued_blocks" or of[2] == "backup")
            ),
        )
    yield Metric(
        "strongroom_director_run_stage_seconds_total",
        tuple(
            (dict(zip((*labels, "stage"), of, strict=True)), seconds)
            for of, seconds in stages.items()
        ),
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
