"""The director's metrics: of what is under way, of the last runs of each job, of the catalog.

What a caller may see of them is decided here too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, Final

import strongroom
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.config.settings.client import ClientSettings
from strongroom.config.settings.permissions import PermissionKind
from strongroom.director.catalog.clients import load_clients
from strongroom.director.catalog.incidents import open_incidents
from strongroom.director.catalog.outbox import dead_letters, waiting_counts
from strongroom.director.catalog.runs import counts_by_state, last_ends
from strongroom.director.catalog.snapshots import bytes_by_storage, totals_by_client
from strongroom.director.context import DirectorContext
from strongroom.director.notices.delivery import Delivery
from strongroom.director.results.access import Permits
from strongroom.director.results.runs import RESTORE_TEST_LEVEL, Run
from strongroom.director.runs.active_run import ActiveRun
from strongroom.director.runs.start_messages import tls_mode_of
from strongroom.director.schedule.due_times import (
    longest_gap_seconds,
    schedule_of,
    zone_of,
)
from strongroom.engine.writing.stages import STAGES
from strongroom.net.control.messages import RunProgress
from strongroom.service.exposition import Metric, metric

# Label -> field. Prometheus has a label `job` of its own.
_OF_INCIDENTS = {
    "event": "event",
    "severity": "severity",
    "backup_job": "job",
    "client": "client",
    "storage": "storage",
}
_COUNTED = ("files", "bytes", "stored_bytes", "queued_blocks")


def live_metrics(
    context: DirectorContext,
    active: Iterable[ActiveRun],
    retention_held: bool,
    started_ns: int,
    permits: Permits,
) -> list[Metric]:
    """For the event loop. permits: which runs are counted where a sample counts several."""
    own = {"name": context.configuration.director.name, "version": strongroom.__version__}
    return [
        *_active_runs(active, permits),
        metric("director_retention_held", retention_held),
        metric("director_info", [(own, 1)]),
        metric("director_start_time_seconds", started_ns / SECOND_NS),
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
    yield _labelled("director_active_runs", "state", counts)
    labels = ("backup_job", "client", "kind")
    for name in _COUNTED:
        yield metric(
            f"director_run_{name}",
            (
                (dict(zip(labels, of, strict=True)), value)
                for (counted, of), value in totals.items()
                if counted == name and (name != "queued_blocks" or of[2] == "backup")
            ),
        )
    with_stage = (*labels, "stage")
    yield metric(
        "director_run_stage_seconds_total",
        ((dict(zip(with_stage, of, strict=True)), seconds) for of, seconds in stages.items()),
    )


def _client_settings(context: DirectorContext, client: ClientSettings) -> dict[str, str]:
    hello = context.hellos.get(client.name)
    return {
        "client": client.name,
        "version": hello.version if hello is not None else "",
        "tls_mode": tls_mode_of(client, context.features(client.name)),
        "workers": str(hello.workers or "") if hello is not None else "",
        "maximum_concurrent_jobs": str(client.maximum_concurrent_jobs),
    }


_STATUS: Final = {"done": 0.0, "incomplete": 1.0, "failed": 2.0, "cancelled": 3.0}
# A value from an agent that is larger is none.
_GREATEST: Final = 2.0**63
# A text from an agent becomes a label only if it looks like one.
_CIPHER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MODES: Final = ("off", "tls", "ktls")


def job_metrics(context: DirectorContext, jobs: Collection[str] | None = None) -> Iterator[Metric]:
    """Of backups, verify runs, restore tests, restores and maintenance; of some only. Blocks."""
    yield from _backups(context, jobs)
    for stem, kind, level in (
        ("backup_last_verify", "verify", ""),
        ("backup_last_restore_test", "verify", RESTORE_TEST_LEVEL),
        ("last_restore", "restore", ""),
        ("maintenance_last_run", "admin", ""),
    ):
        ends = newest(_configured(context, last_ends(context.catalog, kind, level, jobs)))
        yield _of_runs(f"{stem}_timestamp_seconds", ends, lambda one: one.ended_ns / SECOND_NS)
        yield _of_runs(f"{stem}_success", ends, lambda one: one.state == "done")
        if kind == "admin":
            yield _of_runs("prune_freed_bytes", ends, lambda one: _number(one, "freed_bytes"))


def interval_metrics(context: DirectorContext) -> Iterator[Metric]:
    """How often the schedule of each job makes it run."""
    yield _intervals(context, "backup_expected_interval_seconds", "backup")
    yield _intervals(context, "backup_verify_expected_interval_seconds", "verify")
    yield _intervals(
        context, "backup_restore_test_expected_interval_seconds", "verify", RESTORE_TEST_LEVEL
    )


def newest(records: Iterable[Run]) -> list[Run]:
    """The newest of each job and client; `records` come oldest first."""
    return list({(one.job, one.client): one for one in records}.values())


def stage_seconds(given: Any) -> dict[str, float]:
    """The stages that an agent reported, without anything else that it wrote there."""
    if not isinstance(given, dict):
        return {}
    found = {stage: _checked(given.get(stage)) for stage in STAGES}
    return {stage: value for stage, value in found.items() if value is not None}


def _backups(context: DirectorContext, jobs: Collection[str] | None) -> Iterator[Metric]:
    ends = _configured(context, last_ends(context.catalog, jobs=jobs))
    good = newest(one for one in ends if one.went_well)
    last = newest(ends)
    yield _of_runs(
        "backup_last_success_timestamp_seconds", good, lambda one: one.started_ns / SECOND_NS
    )
    yield _of_runs("backup_last_run_status", last, lambda one: _STATUS[one.state])
    yield _of_runs("backup_last_run_timestamp_seconds", last, lambda one: one.ended_ns / SECOND_NS)
    yield _of_runs(
        "backup_duration_seconds", good, lambda one: (one.ended_ns - one.started_ns) / SECOND_NS
    )
    yield _of_runs("backup_files", good, lambda one: one.files)
    yield _of_runs("backup_size_bytes", good, lambda one: one.bytes)
    yield _of_runs("backup_read_files", good, lambda one: _number(one, "files_read"))
    yield _of_runs("backup_read_bytes", good, lambda one: _number(one, "bytes_read"))
    yield _of_runs("backup_new_bytes", good, lambda one: _number(one, "new_bytes"))
    yield _of_runs("backup_stored_bytes", good, lambda one: one.stored_bytes)
    yield _of_runs("backup_compression_ratio", good, _compression_ratio)
    yield _of_runs("backup_errors", good, lambda one: one.errors)
    yield metric(
        "backup_errors_total",
        (
            ({"backup_job": job, "client": client}, count)
            for (job, client), count in _backup_errors(context).items()
            if jobs is None or job in jobs
        ),
    )
    yield metric(
        "backup_stage_seconds",
        (
            ({"backup_job": one.job, "client": one.client, "stage": stage}, seconds)
            for one in good
            for stage, seconds in stage_seconds(one.summary.get("stage_seconds")).items()
        ),
    )
    # Values from the agent, of any type.
    yield _of_runs("backup_ktls_send", good, lambda one: one.security.get("ktls_send") is True)
    yield _of_runs(
        "backup_ktls_receive", good, lambda one: one.security.get("ktls_receive") is True
    )
    yield metric("backup_connection_info", ((_connection(one), 1) for one in good if one.security))


def _configured(context: DirectorContext, runs: Iterable[Run]) -> list[Run]:
    """Without those of jobs and clients that no longer exist: they would be reported forever."""
    jobs, clients = context.configuration.jobs, context.configuration.clients
    return [
        one
        for one in runs
        if (one.job in jobs or one.kind == "restore") and (not one.client or one.client in clients)
    ]


def _of_runs(name: str, runs: Iterable[Run], value: Callable[[Run], float | None]) -> Metric:
    found = (({"backup_job": one.job, "client": one.client}, value(one)) for one in runs)
    return metric(name, ((labels, number) for labels, number in found if number is not None))


def _number(run: Run, field: str) -> float | None:
    return _checked(run.summary.get(field))


def _checked(value: Any) -> float | None:
    """A number that an agent reported; None for anything else that it wrote there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_one = isfinite(value) and 0 <= value < _GREATEST
    return float(value) if is_one else None


def _compression_ratio(run: Run) -> float | None:
    new_bytes = _number(run, "new_bytes")
    return new_bytes / run.stored_bytes if new_bytes and run.stored_bytes else None


def _connection(run: Run) -> dict[str, str]:
    mode, cipher = (str(run.security.get(name, "")) for name in ("mode", "cipher"))
    return {
        "backup_job": run.job,
        "client": run.client,
        "mode": mode if mode in _MODES else "",
        "cipher": cipher if _CIPHER.fullmatch(cipher) else "",
    }


def _backup_errors(context: DirectorContext) -> dict[tuple[str, str], int]:
    """By job and client; 0 before the first, so that monitoring sees the first increment."""
    found = {
        (job.name, job.client): 0
        for job in context.configuration.jobs.values()
        if job.kind == "backup" and job.client
    }
    return found | context.backup_errors


def _intervals(context: DirectorContext, name: str, kind: str, level: str = "") -> Metric:
    """For each scheduled job of a kind the longest time between two of its next due times."""
    samples = []
    # Jobs have few schedules.
    known: dict[str, float] = {}
    now_ns = clock.now_ns()
    configuration = context.configuration
    for job in configuration.jobs.values():
        schedule = schedule_of(configuration, job)
        if job.kind != kind or schedule is None or (level and job.level.lower() != level):
            continue
        if schedule.name not in known:
            zone = zone_of(configuration, schedule)
            known[schedule.name] = longest_gap_seconds(schedule, now_ns, zone)
        if gap := known[schedule.name]:
            samples.append(({"backup_job": job.name, "client": job.client}, gap))
    return metric(name, samples)


# Labels that are names which permissions can name.
JUDGED_LABELS: Final[dict[str, PermissionKind]] = {
    "backup_job": "job",
    "client": "client",
    "storage": "storage",
}


def catalog_metrics(context: DirectorContext, permits: Permits) -> list[Metric]:
    """Blocks. permits: which runs are counted where a sample counts those of several jobs."""
    return [
        *job_metrics(context),
        *interval_metrics(context),
        *client_metrics(context),
        *repository_metrics(context, bytes_by_storage(context.catalog)),
        run_metric(counts_by_state(context.catalog), permits),
    ]


def permitted(whole: Metric, permits: Permits) -> Metric:
    """The metric with the samples of those jobs, clients and storages that are permitted."""
    samples = tuple(
        (labels, value)
        for labels, value in whole.samples
        if all(permits(kind, labels.get(label, "")) for label, kind in JUDGED_LABELS.items())
    )
    return replace(whole, samples=samples)


def client_metrics(
    context: DirectorContext, names: Collection[str] | None = None
) -> Iterator[Metric]:
    """Of clients and their agents; of some only. Blocks."""
    known = load_clients(context.catalog, names)
    totals = totals_by_client(context.catalog, names)
    settings = context.configuration.clients
    found = [one for name, one in settings.items() if names is None or name in names]
    yield _labelled(
        "agent_connected",
        "client",
        {one.name: context.link.is_connected(one.name) for one in found},
    )
    yield _labelled(
        "agent_ktls_wanted",
        "client",
        {one.name: one.tls_enable and one.ktls in ("yes", "require") for one in found},
    )
    yield metric("agent_info", ((_client_settings(context, one), 1) for one in found))
    yield _labelled(
        "agent_clock_ahead_seconds",
        "client",
        {name: one.clock_ahead_ns / SECOND_NS for name, one in known.items()},
    )
    yield _labelled("snapshots", "client", {name: count for name, (count, _) in totals.items()})
    yield _labelled(
        "snapshots_stored_bytes", "client", {name: size for name, (_, size) in totals.items()}
    )


def repository_metrics(context: DirectorContext, snapshots: Mapping[str, int]) -> Iterator[Metric]:
    """Of repositories. snapshots: storage -> bytes of all files of its snapshots."""
    stored, spaces = dict(context.repository_bytes), dict(context.repository_spaces)
    yield _labelled("repository_snapshot_bytes", "storage", snapshots)
    yield _labelled("repository_stored_bytes", "storage", stored)
    ratios = {name: snapshots.get(name, 0) / size for name, size in stored.items() if size}
    yield _labelled("repository_dedup_ratio", "storage", ratios)
    sizes = {name: space.size_bytes for name, space in spaces.items()}
    yield _labelled("repository_size_bytes", "storage", sizes)
    free = {name: space.free_bytes for name, space in spaces.items()}
    yield _labelled("repository_free_bytes", "storage", free)
    now_ns = clock.now_ns()
    copies = [({"backup_job": one.job, "storage": one.storage}, one) for one in context.copies]
    yield metric("copy_waiting_snapshots", ((of, one.waiting) for of, one in copies))
    yield metric(
        "copy_lag_seconds",
        (
            (of, max(0, now_ns - one.behind_since_ns) / SECOND_NS if one.waiting else 0.0)
            for of, one in copies
        ),
    )


def _labelled(name: str, label: str, values: Mapping[str, float]) -> Metric:
    return metric(name, (({label: key}, value) for key, value in values.items()))


def run_metric(counts: Mapping[tuple[str, str, str, str], int], permits: Permits) -> Metric:
    """How many runs there are by kind and state, of jobs and clients that are permitted."""
    found: Counter[tuple[str, str]] = Counter()
    for (job, client, kind, state), count in counts.items():
        if permits("job", job) and permits("client", client):
            found[kind, state] += count
    labels = ("kind", "state")
    return metric("runs", ((dict(zip(labels, of, strict=True)), found[of]) for of in sorted(found)))


def notice_metrics(context: DirectorContext, delivery: Delivery) -> list[Metric]:
    """What is wrong, waits or could not be delivered: all of it, for any caller. Blocks."""
    catalog = context.catalog
    incidents = {
        tuple((label, str(getattr(one, field))) for label, field in _OF_INCIDENTS.items())
        for one in open_incidents(catalog)
    }
    counts = {"sent": delivery.sent, "failed": delivery.failed}
    return [
        metric("incidents", [(dict(labels), 1) for labels in incidents]),
        metric("notices_waiting", sum(waiting_counts(catalog).values())),
        metric("notices_dead", len(dead_letters(catalog))),
        *(
            metric(f"notices_{name}_total", [({"destination": key}, n) for key, n in by.items()])
            for name, by in counts.items()
        ),
    ]
