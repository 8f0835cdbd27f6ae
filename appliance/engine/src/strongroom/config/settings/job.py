"""Job resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.settings.keep_rules import KeepRules
from strongroom.config.settings.levels import JOB_KINDS
from strongroom.config.settings.run_scripts import run_scripts

if TYPE_CHECKING:
    from strongroom.config.model import Resource
    from strongroom.config.settings.levels import JobKind
    from strongroom.config.settings.run_scripts import RunScript


@dataclass(frozen=True, slots=True)
class DuplicateRules:
    """What becomes of a second run of a job while the first has not ended."""

    allow: bool = True
    cancel_lower_level: bool = False
    cancel_queued: bool = False
    cancel_running: bool = False


@dataclass(frozen=True, slots=True)
class JobSettings:
    """A job, JobDefs and defaults applied.

    level: the word of the configuration, "" without one; `levels.level_of` knows what it stands
    for. storages: in the order in which they are taken, empty where the Pool says them. keep: None
    without Keep directives of its own. companions: values of `Run`, see `companions`.
    selection_type, selection_pattern: of copy jobs, "" where nothing is said.
    overdue_after_seconds, slow_after_seconds: 0 for what schedule and history say.
    """

    name: str
    kind: JobKind
    type: str
    speaks_ndmp: bool
    enabled: bool
    level: str
    client: str
    fileset: str
    schedule: str
    messages: str
    storages: tuple[str, ...]
    pool: str
    full_backup_pool: str
    differential_backup_pool: str
    incremental_backup_pool: str
    next_pool: str
    keep: KeepRules | None
    priority: int
    allow_mixed_priority: bool
    maximum_concurrent_jobs: int
    duplicates: DuplicateRules
    maximum_bandwidth_bytes_per_second: int
    max_run_time_seconds: int
    full_max_runtime_seconds: int
    differential_max_runtime_seconds: int
    incremental_max_runtime_seconds: int
    max_wait_time_seconds: int
    max_run_sched_time_seconds: int
    max_start_delay_seconds: int
    max_full_interval_seconds: int
    max_diff_interval_seconds: int
    rerun_failed_levels: bool
    reschedule_on_error: bool
    reschedule_times: int
    reschedule_interval_seconds: int
    run_on_incoming_connect_interval_seconds: int
    companions: tuple[str, ...]
    run_scripts: tuple[RunScript, ...]
    where: str
    replace: str
    keep_privileges: bool
    job_to_verify: str
    restore_test_files: int
    restore_test_bytes: int
    selection_type: str
    selection_pattern: str
    ping_file: str
    overdue_after_seconds: int
    late_after_seconds: int
    slow_after_seconds: int

    @classmethod
    def of(cls, job: Resource) -> JobSettings:
        """Those of a Job resource."""
        job_type = job.job_type or "Backup"
        return cls(
            name=job.name,
            kind=JOB_KINDS[job_type],
            type=job_type,
            speaks_ndmp=job.text("protocol").upper().startswith("NDMP"),
            enabled=job.switch("enabled"),
            level=job.text("level"),
            client=job.name_of("client"),
            fileset=job.name_of("fileset"),
            schedule=job.name_of("schedule"),
            messages=job.name_of("messages"),
            storages=job.names_of("storage"),
            pool=job.name_of("pool"),
            full_backup_pool=job.name_of("full_backup_pool"),
            differential_backup_pool=job.name_of("differential_backup_pool"),
            incremental_backup_pool=job.name_of("incremental_backup_pool"),
            next_pool=job.name_of("next_pool"),
            keep=KeepRules.of(job),
            priority=job.number("priority"),
            allow_mixed_priority=job.switch("allow_mixed_priority"),
            maximum_concurrent_jobs=job.number("maximum_concurrent_jobs"),
            duplicates=DuplicateRules(
                allow=job.switch("allow_duplicate_jobs"),
                cancel_lower_level=job.switch("cancel_lower_level_duplicates"),
                cancel_queued=job.switch("cancel_queued_duplicates"),
                cancel_running=job.switch("cancel_running_duplicates"),
            ),
            maximum_bandwidth_bytes_per_second=job.number("maximum_bandwidth_bytes_per_second"),
            max_run_time_seconds=job.number("max_run_time_seconds"),
            full_max_runtime_seconds=job.number("full_max_runtime_seconds"),
            differential_max_runtime_seconds=job.number("differential_max_runtime_seconds"),
            incremental_max_runtime_seconds=job.number("incremental_max_runtime_seconds"),
            max_wait_time_seconds=job.number("max_wait_time_seconds"),
            max_run_sched_time_seconds=job.number("max_run_sched_time_seconds"),
            max_start_delay_seconds=job.number("max_start_delay_seconds"),
            max_full_interval_seconds=job.number("max_full_interval_seconds"),
            max_diff_interval_seconds=job.number("max_diff_interval_seconds"),
            rerun_failed_levels=job.switch("rerun_failed_levels"),
            reschedule_on_error=job.switch("reschedule_on_error"),
            reschedule_times=job.number("reschedule_times"),
            reschedule_interval_seconds=job.number("reschedule_interval_seconds"),
            run_on_incoming_connect_interval_seconds=job.number(
                "run_on_incoming_connect_interval_seconds"
            ),
            companions=job.texts("run"),
            run_scripts=run_scripts(job),
            where=job.text("where"),
            replace=job.text("replace"),
            keep_privileges=job.switch("keep_privileges"),
            job_to_verify=job.name_of("job_to_verify"),
            restore_test_files=job.number("restore_test_files"),
            restore_test_bytes=job.number("restore_test_bytes"),
            selection_type=job.text("selection_type"),
            selection_pattern=job.text("selection_pattern"),
            ping_file=job.text("ping_file"),
            overdue_after_seconds=job.number("overdue_after_seconds"),
            late_after_seconds=job.number("late_after_seconds"),
            slow_after_seconds=job.number("slow_after_seconds"),
        )

    def pool_of_level(self, level: str) -> str:
        """The pool of a backup of this level: `full`, `differential` or `incremental`."""
        own = {
            "full": self.full_backup_pool,
            "differential": self.differential_backup_pool,
            "incremental": self.incremental_backup_pool,
        }
        return own.get(level, "") or self.pool

    def longest_run_seconds(self, level: str) -> int:
        """How long a run of this level may take; 0 for no limit."""
        own = {
            "full": self.full_max_runtime_seconds,
            "differential": self.differential_max_runtime_seconds,
            "incremental": self.incremental_max_runtime_seconds,
        }
        return own.get(level, 0) or self.max_run_time_seconds

    def scripts(self, moments: tuple[str, ...], *, on_client: bool) -> tuple[RunScript, ...]:
        """Those with commands that run at one of these moments, there or on the director."""
        return tuple(
            script
            for script in self.run_scripts
            if script.on_client is on_client and script.when in moments and script.commands
        )
