"""Job resources: what a run does, the commands around it, and the jobs started along with it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.config.model import Resource
from strongroom.config.settings.levels import JOB_KINDS, JobKind
from strongroom.config.settings.pool import KeepRules
from strongroom.config.settings.reading import settings_of
from strongroom.config.trees.tree import Block, Directive

# Short form of a RunScript -> when, on the client, on success, on failure.
_SHORT_FORMS: Final = {
    "RunBeforeJob": ("Before", False, True, False),
    "RunAfterJob": ("After", False, True, False),
    "RunAfterFailedJob": ("After", False, False, True),
    "ClientRunBeforeJob": ("Before", True, True, False),
    "ClientRunAfterJob": ("After", True, True, False),
}
LEVEL_OF_RUN: Final = "%l"
_COPY_JOB: Final = "copy-"
_COMPANION_TEXTS: Final = ("level", "client", "fileset", "storage", "pool")
_COMPANION_WORDS: Final = (*_COMPANION_TEXTS, "priority")


@dataclass(frozen=True, slots=True)
class RunScript:
    """Commands, and when they run. `when`: Before, After, AfterVSS, Always or Never."""

    commands: tuple[str, ...]
    console_commands: tuple[str, ...]
    when: str
    on_client: bool
    on_success: bool
    on_failure: bool
    fail_job_on_error: bool


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

    level: the word of the configuration, "" without one; `levels.level_of` knows what it means.
    storages: in the order in which they are taken, empty where the Pool says them. keep: None
    without Keep directives of its own. companions: values of `Run`, see `parse_companion`.
    selection_type, selection_pattern: of copy jobs, "" where nothing is set.
    overdue_after_seconds, slow_after_seconds: 0 for what schedule and history say. is_of_pool: it
    follows from the Copy To of its Pool, and has no resource of its own.
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
    is_of_pool: bool = False

    @classmethod
    def of(cls, job: Resource) -> JobSettings:
        """Those of a Job resource."""
        job_type = job.job_type or "Backup"
        return settings_of(
            cls,
            job,
            kind=JOB_KINDS[job_type],
            type=job_type,
            speaks_ndmp=job.text("protocol").upper().startswith("NDMP"),
            storages=job.names_of("storage"),
            keep=KeepRules.of(job),
            duplicates=DuplicateRules(
                allow=job.switch("allow_duplicate_jobs"),
                cancel_lower_level=job.switch("cancel_lower_level_duplicates"),
                cancel_queued=job.switch("cancel_queued_duplicates"),
                cancel_running=job.switch("cancel_running_duplicates"),
            ),
            companions=job.texts("run"),
            run_scripts=run_scripts(job),
        )

    @classmethod
    def of_pool(cls, pool: Resource, storages: tuple[str, ...]) -> JobSettings:
        """The copy job of a Pool with Copy To, whose snapshots are in these storages.

        It is tried again for as long as it fails; what people are notified of is the age of what
        has no copy yet, so it sends no report of each run.
        """
        block = Block(pool.component.spec.resources["job"], pool.block.source, pool.block.offset)
        return replace(
            cls.of(pool.within(block)),
            name=copy_job_of(pool.name),
            kind="copy",
            type="Copy",
            pool=pool.name,
            storages=storages,
            maximum_concurrent_jobs=1,
            reschedule_on_error=True,
            reschedule_times=0,
            reschedule_interval_seconds=0,
            is_of_pool=True,
        )

    def pool_of_level(self, level: str) -> str:
        """The pool of a backup of this level: `full`, `differential` or `incremental`."""
        own = {
            "full": self.full_backup_pool,
            "differential": self.differential_backup_pool,
            "incremental": self.incremental_backup_pool,
        }
        return own.get(level, "") or self.pool

    @property
    def pools(self) -> frozenset[str]:
        """All pools that its backups may be in, "" among them where a level has no own."""
        by_level = (
            self.full_backup_pool,
            self.differential_backup_pool,
            self.incremental_backup_pool,
        )
        return frozenset((self.pool, *by_level))

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


def copy_job_of(pool: str) -> str:
    """The name of the job that copies the snapshots of a Pool with Copy To."""
    return _COPY_JOB + pool


def placed_run_scripts(job: Resource) -> Iterator[tuple[RunScript, Directive]]:
    """The scripts of a Job and of its JobDefs, each with its block or short form, in order."""
    for owner in job.lineage:
        for directive in owner.block.directives:
            if directive.spec.type == "SHRTRUNSCRIPT":
                when, on_client, success, failure = _SHORT_FORMS[directive.spec.name]
                commands = (str(directive.value),)
                yield RunScript(commands, (), when, on_client, success, failure, True), directive
            elif directive.spec.type == "RUNSCRIPT":
                yield _script_of_block(owner.within(directive.value)), directive


def place_within(script: Directive, key: str, value: str = "") -> Directive:
    """The directive of this key (and value) within the block of a script, else the script."""
    inner = script.value.directives if isinstance(script.value, Block) else ()
    fitting = (one for one in inner if one.spec.key == key and value in ("", one.value))
    return next(fitting, script)


def run_scripts(job: Resource) -> tuple[RunScript, ...]:
    """The scripts of a Job and of its JobDefs, in order."""
    return tuple(script for script, _ in placed_run_scripts(job))


def _script_of_block(block: Resource) -> RunScript:
    def switch(name: str, usual: bool) -> bool:
        return block.switch(name) if block.is_set(name) else usual

    fails = switch("fail_job_on_error", True)
    return RunScript(
        commands=block.texts("command"),
        console_commands=block.texts("console"),
        when=block.text("runs_when") or "Never",
        on_client=block.value("runs_on_client") is not False,
        on_success=switch("runs_on_success", True),
        on_failure=switch("runs_on_failure", False),
        fail_job_on_error=switch("abort_job_on_error", fails),
    )


@dataclass(frozen=True, slots=True)
class Companion:
    """A job to be started along with a run, and what its run overrides.

    `Run = "other level=%l storage=main"`: the first word names the job, the others say what its
    run overrides, "" and 0: as that job says; `%l` means the level of the run that starts it.
    """

    job: str
    level: str = ""
    client: str = ""
    fileset: str = ""
    storage: str = ""
    pool: str = ""
    priority: int = 0

    def at_level(self, level: str) -> Companion:
        """The same with `%l` replaced."""
        texts = {
            name: text.replace(LEVEL_OF_RUN, level)
            for name in ("job", *_COMPANION_TEXTS)
            if LEVEL_OF_RUN in (text := getattr(self, name))
        }
        return replace(self, **texts) if texts else self


def parse_companion(text: str) -> Companion:
    """What the value of a `Run` directive says. Raises UsageError."""
    try:
        name, *words = shlex.split(text) or ("",)
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be split into words: {error}") from error
    if not name:
        raise UsageError("the first word must be the name of a job")
    texts: dict[str, str] = {}
    priority = 0
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in _COMPANION_WORDS:
            raise UsageError(f"{word!r} is none of {', '.join(_COMPANION_WORDS)} with a value")
        if key != "priority":
            texts[key] = value
        elif value.isascii() and value.isdecimal():
            priority = int(value[:9])
        else:
            raise UsageError(f"a priority is a number, not {value!r}")
    return Companion(name, priority=priority, **texts)
