"""Metrics of the last runs of each job and client: one series, however many runs there are."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.runs import last_ends
from strongroom.daemons.director.results.runs import RESTORE_TEST_LEVEL
from strongroom.daemons.director.schedule.expectations import (
    longest_gap_seconds,
    schedule_of,
    zone_of,
)
from strongroom.daemons.exposition import Metric
from strongroom.jobs.writing.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext

_STATUS: Final = {"done": 0.0, "incomplete": 1.0, "failed": 2.0, "cancelled": 3.0}
# A value from an agent that is larger is none.
_GREATEST: Final = 2.0**63
# A text from an agent becomes a label only if it looks like one.
_CIPHER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MODES: Final = ("off", "tls", "ktls")


def job_metrics(context: DirectorContext) -> Iterator[Metric]:
    """Of backups, verify runs, restore tests, restores and maintenance. Blocks."""
    yield from _backups(context)
    for stem, kind, level in (
        ("backup_last_verify", "verify", ""),
        ("backup_last_restore_test", "verify", RESTORE_TEST_LEVEL),
        ("last_restore", "restore", ""),
        ("maintenance_last_run", "admin", ""),
    ):
        ends = newest(_configured(context, last_ends(context.catalog, kind, level)))
        yield _of_runs(f"{stem}_timestamp_seconds", ends, lambda one: one.ended_ns / SECOND_NS)
        yield _of_runs(f"{stem}_success", ends, lambda one: one.state == "done")
        if kind == "admin":
            yield _of_runs("prune_freed_bytes", ends, lambda one: _number(one, "freed_bytes"))
    yield _intervals(context, "backup_expected_interval_seconds", "backup")
    yield _intervals(context, "backup_verify_expected_interval_seconds", "verify")
    yield _intervals(
        context, "backup_restore_test_expected_interval_seconds", "verify", RESTORE_TEST_LEVEL
    )


def newest(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The newest of each job and client; `records` come oldest first."""
    return list({(one.job, one.client): one for one in records}.values())


def stage_seconds(given: Any) -> dict[str, float]:
    """The stages that an agent reported, without anything else that it wrote there."""
    if not isinstance(given, dict):
        return {}
    found = {stage: _checked(given.get(stage)) for stage in STAGES}
    return {stage: value for stage, value in found.items() if value is not None}


def _backups(context: DirectorContext) -> Iterator[Metric]:
    ends = _configured(context, last_ends(context.catalog))
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
    yield Metric(
        "strongroom_backup_errors_total",
        tuple(
            ({"backup_job": job, "client": client}, float(count))
            for (job, client), count in _backup_errors(context).items()
        ),
    )
    yield Metric(
        "strongroom_backup_stage_seconds",
        tuple(
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
    yield Metric(
        "strongroom_backup_connection_info",
        tuple((_connection(one), 1.0) for one in good if one.security),
    )


def _configured(context: DirectorContext, runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Without those of jobs and clients that are gone, which nobody is to be told of for ever."""
    jobs, clients = context.configuration.jobs, context.configuration.clients
    return [
        one
        for one in runs
        if (one.job in jobs or one.kind == "restore") and (not one.client or one.client in clients)
    ]


def _of_runs(
    name: str, runs: Iterable[RunRecord], value: Callable[[RunRecord], float | None]
) -> Metric:
    found = ((one, value(one)) for one in runs)
    return Metric(
        f"strongroom_{name}",
        tuple(
            ({"backup_job": one.job, "client": one.client}, float(number))
            for one, number in found
            if number is not None
        ),
    )


def _number(run: RunRecord, field: str) -> float | None:
    return _checked(run.summary.get(field))


def _checked(value: Any) -> float | None:
    """A number that an agent reported; None for anything else that it wrote there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_one = isfinite(value) and 0 <= value < _GREATEST
    return float(value) if is_one else None


def _compression_ratio(run: RunRecord) -> float | None:
    new_bytes = _number(run, "new_bytes")
    return new_bytes / run.stored_bytes if new_bytes and run.stored_bytes else None


def _connection(run: RunRecord) -> dict[str, str]:
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
    now_ns = clock.now_ns()
    configuration = context.configuration
    for job in configuration.jobs.values():
        schedule = schedule_of(configuration, job)
        if job.kind != kind or schedule is None or (level and job.level.lower() != level):
            continue
        zone = zone_of(configuration, schedule)
        if gap := longest_gap_seconds(schedule, now_ns, zone):
            samples.append(({"backup_job": job.name, "client": job.client}, gap))
    return Metric(f"strongroom_{name}", tuple(samples))
