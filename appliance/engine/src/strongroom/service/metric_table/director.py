"""The metrics of the director."""

from __future__ import annotations

from typing import Final

from strongroom.service.metric_table.specification import Specification

_OF_JOB: Final = ("backup_job", "client")
_OF_RUN: Final = ("backup_job", "client", "kind")
_GOOD: Final = "of the last successful backup"
_STATUS: Final = "0 done, 1 incomplete, 2 failed, 3 cancelled"


def _job(name: str, unit: str, meaning: str, query: str = "") -> Specification:
    return Specification(f"strongroom_{name}", "gauge", unit, _OF_JOB, meaning, query)


BACKUPS: Final = (
    _job("backup_last_success_timestamp_seconds", "time",
         "When the last successful backup began.",
         "time() - strongroom_backup_last_success_timestamp_seconds"),
    _job("backup_last_run_timestamp_seconds", "time", "When the last backup ended."),
    _job("backup_last_run_status", "", f"How the last backup ended: {_STATUS}.",
         "strongroom_backup_last_run_status == 2"),
    _job("backup_expected_interval_seconds", "seconds",
         "The longest time between two of the next scheduled backups; of jobs with a schedule.",
         "time() - strongroom_backup_last_success_timestamp_seconds"
         " > 1.5 * strongroom_backup_expected_interval_seconds"),
    _job("backup_duration_seconds", "seconds", f"How long it took, {_GOOD}.",
         "strongroom_backup_read_bytes / strongroom_backup_duration_seconds"),
    _job("backup_files", "", f"Files in the snapshot, {_GOOD}."),
    _job("backup_size_bytes", "bytes", f"Bytes of these files, {_GOOD}."),
    _job("backup_read_files", "", f"New and changed files that were read, {_GOOD}.",
         "strongroom_backup_read_files / (strongroom_backup_files > 0)"),
    _job("backup_read_bytes", "bytes", f"Bytes of new and changed files that were read, {_GOOD}.",
         "strongroom_backup_read_bytes / (strongroom_backup_size_bytes > 0)"),
    _job("backup_new_bytes", "bytes",
         f"Bytes that the repository did not have, before compression, {_GOOD}.",
         "strongroom_backup_read_bytes / (strongroom_backup_new_bytes > 0)"),
    _job("backup_stored_bytes", "bytes",
         f"Bytes that it added to the repository, with its listing, {_GOOD}."),
    _job("backup_compression_ratio", "ratio",
         f"Bytes that were new, divided by what was stored of them, {_GOOD}; absent where nothing "
         "was new. Near 1 for data that is encrypted or compressed already."),
    _job("backup_errors", "", f"Files that could not be read, {_GOOD}."),
    Specification("strongroom_backup_errors_total", "counter", "", _OF_JOB,
                  "Files that backups could not read, of all backups.",
                  "increase(strongroom_backup_errors_total[1d])"),
    Specification("strongroom_backup_stage_seconds", "gauge", "seconds", (*_OF_JOB, "stage"),
                  f"What the shards' threads spent their time on, added up, {_GOOD}: `read` "
                  "(examine, read, digest), `wait` (for the coordinator), `queue` (for a worker), "
                  "`compress`, `store` (encrypt, write or send).",
                  "topk by (backup_job, client) (1, strongroom_backup_stage_seconds)"),
    _job("backup_ktls_send", "bool", f"Whether the kernel encrypted what the agent sent, {_GOOD}.",
         "strongroom_backup_ktls_send < on (client) group_left () strongroom_agent_ktls_wanted"),
    _job("backup_ktls_receive", "bool",
         f"Whether the kernel decrypted what the agent received, {_GOOD}."),
    Specification("strongroom_backup_connection_info", "gauge", "", (*_OF_JOB, "mode", "cipher"),
                  f"What protected the connection to the storage daemon, {_GOOD}; always 1.",
                  'strongroom_backup_connection_info{mode="off"}'),
)  # fmt: skip

TESTS: Final = (
    _job("backup_last_verify_timestamp_seconds", "time",
         "When the last run of a Verify job ended."),
    _job("backup_last_verify_success", "bool", "Whether it succeeded."),
    _job("backup_verify_expected_interval_seconds", "seconds",
         "The longest time between two scheduled runs of a Verify job."),
    _job("backup_last_restore_test_timestamp_seconds", "time",
         "When the last restore test ended: a Verify job of level `Data`."),
    _job("backup_last_restore_test_success", "bool", "Whether it succeeded."),
    _job("backup_restore_test_expected_interval_seconds", "seconds",
         "The longest time between two scheduled restore tests.",
         "time() - strongroom_backup_last_restore_test_timestamp_seconds"
         " > 1.5 * strongroom_backup_restore_test_expected_interval_seconds"),
    _job("last_restore_timestamp_seconds", "time", "When the last restore ended."),
    _job("last_restore_success", "bool", "Whether it succeeded."),
    _job("maintenance_last_run_timestamp_seconds", "time",
         "When the last run of an Admin job ended: prune, vouch and the like."),
    _job("maintenance_last_run_success", "bool", "Whether it succeeded."),
    _job("prune_freed_bytes", "bytes", "Bytes that the last prune of the Admin job freed."),
)  # fmt: skip

_STORAGE: Final = ("storage",)

REPOSITORIES: Final = (
    Specification("strongroom_repository_snapshot_bytes", "gauge", "bytes", _STORAGE,
                  "Bytes of all files of all snapshots."),
    Specification("strongroom_repository_stored_bytes", "gauge", "bytes", _STORAGE,
                  "Bytes of all packs. Determined every hour; absent before that, and where the "
                  "director has no access to the repository.",
                  "deriv(strongroom_repository_stored_bytes[7d])"),
    Specification("strongroom_repository_dedup_ratio", "gauge", "ratio", _STORAGE,
                  "The first divided by the second, so compression is included."),
    Specification("strongroom_repository_size_bytes", "gauge", "bytes", _STORAGE,
                  "Size of the repository's file system, as the director saw it last."),
    Specification("strongroom_repository_free_bytes", "gauge", "bytes", _STORAGE,
                  "Free bytes of it.",
                  "predict_linear(strongroom_repository_free_bytes[7d], 14 * 86400) < 0"),
    Specification("strongroom_copy_waiting_snapshots", "gauge", "", ("backup_job", "storage"),
                  "Snapshots of a Pool with `Copy To` that have no copy at its second storage."),
    Specification("strongroom_copy_lag_seconds", "gauge", "seconds", ("backup_job", "storage"),
                  "How long the oldest of them has waited for its copy; 0 where all have one.",
                  "strongroom_copy_lag_seconds > 2 * 86400"),
    Specification("strongroom_snapshots", "gauge", "", ("client",), "Snapshots of a client."),
    Specification("strongroom_snapshots_stored_bytes", "gauge", "bytes", ("client",),
                  "Bytes that the client's snapshots added when they were made."),
)  # fmt: skip

RUNS: Final = (
    Specification("strongroom_runs", "gauge", "", ("kind", "state"), "Runs in the catalog.",
                  'strongroom_runs{state="failed"}'),
    Specification("strongroom_director_active_runs", "gauge", "", ("state",),
                  "Runs that have not ended."),
    Specification("strongroom_director_run_files", "gauge", "", _OF_RUN,
                  "Files that active runs have processed."),
    Specification("strongroom_director_run_bytes", "gauge", "bytes", _OF_RUN,
                  "Bytes that active runs have processed.",
                  "deriv(strongroom_director_run_bytes[5m])"),
    Specification("strongroom_director_run_stored_bytes", "gauge", "bytes", _OF_RUN,
                  "Bytes that active runs have added to the repository."),
    Specification("strongroom_director_run_queued_blocks", "gauge", "", _OF_RUN,
                  "Blocks of active backups that wait for a worker; `Upload Queue Size` is the "
                  "limit."),
    Specification("strongroom_director_run_stage_seconds_total", "counter", "seconds",
                  (*_OF_RUN, "stage"),
                  "What the threads of active backups spend their time on; stages as of "
                  "`strongroom_backup_stage_seconds`. The largest rate is what bounds the backup.",
                  "topk by (backup_job, client) "
                  "(1, rate(strongroom_director_run_stage_seconds_total[5m]))"),
)  # fmt: skip

AGENTS: Final = (
    Specification("strongroom_agent_connected", "gauge", "bool", ("client",),
                  "Whether the agent is connected."),
    Specification("strongroom_agent_clock_ahead_seconds", "gauge", "seconds", ("client",),
                  "How far its clock was ahead of the director's when it last connected; negative "
                  "where it was behind.",
                  "abs(strongroom_agent_clock_ahead_seconds) > 60"),
    Specification("strongroom_agent_ktls_wanted", "gauge", "bool", ("client",),
                  "Whether kTLS is wanted: `Enable kTLS` is `yes` or `require`, with TLS."),
    Specification("strongroom_agent_info", "gauge", "",
                  ("client", "version", "tls_mode", "workers", "maximum_concurrent_jobs"),
                  "Always 1; `version` and `workers` as reported by the agent, empty while it is "
                  "not connected.",
                  "count by (version) (strongroom_agent_info)"),
)  # fmt: skip

DIRECTOR: Final = (
    Specification("strongroom_incidents", "gauge", "",
                  ("event", "severity", "backup_job", "client", "storage"),
                  "What is wrong now, see [conditions](conditions.md); 1."),
    Specification("strongroom_notices_waiting", "gauge", "", (), "Messages that wait to be sent."),
    Specification("strongroom_notices_dead", "gauge", "", (), "Messages that were given up."),
    Specification("strongroom_notices_sent_total", "counter", "", ("destination",),
                  "Messages that were taken."),
    Specification("strongroom_notices_failed_total", "counter", "", ("destination",),
                  "Attempts that failed."),
    Specification("strongroom_expiry_timestamp_seconds", "gauge", "time",
                  ("kind", "name", "id", "client", "storage"),
                  "When a certificate (`kind` is `director`, `storage`, `agent`, `operator`), an "
                  "API `token` or the `authority` ends; `id` of a token. Those of people only for "
                  "who may see all Clients, and their own.",
                  "strongroom_expiry_timestamp_seconds - time() < 5 * 86400"),
    Specification("strongroom_director_retention_held", "gauge", "bool", (),
                  "Whether retention is suspended because the clock jumped."),
    Specification("strongroom_director_info", "gauge", "", ("name", "version"), "Always 1."),
    Specification("strongroom_director_start_time_seconds", "gauge", "time", (),
                  "When the director was started."),
    Specification("strongroom_director_agent_connections", "gauge", "", (),
                  "Connections of agents."),
    Specification("strongroom_director_handshakes", "gauge", "", (),
                  "TLS handshakes that are under way."),
    Specification("strongroom_director_refused_handshakes_total", "counter", "", (),
                  "Connections that were closed at once, as too many handshakes were under way."),
)  # fmt: skip

SECTIONS: Final = {
    "Backups": BACKUPS,
    "Verify, restore, maintenance": TESTS,
    "Repositories": REPOSITORIES,
    "Runs": RUNS,
    "Clients": AGENTS,
    "The director itself": DIRECTOR,
}
