"""The metrics of the agent."""

from __future__ import annotations

from typing import Final

from strongroom.service.metric_table.specification import Specification


def _one(
    name: str, unit: str, labels: tuple[str, ...], meaning: str, query: str = ""
) -> Specification:
    return Specification(f"strongroom_agent_{name}", "gauge", unit, labels, meaning, query)


_DIRECTOR: Final = ("director",)
_RUN: Final = ("director", "backup_job", "kind")

AGENT: Final = (
    _one("build_info", "", ("client", "version"), "Always 1."),
    _one("up", "bool", (), "1; 0 after an orderly stop.",
         'time() - node_textfile_mtime_seconds{file=~".*strongroom-agent.prom"} > 300'),
    _one("start_time_seconds", "time", (), "When it was started."),
    _one("active_runs", "", (), "Active runs."),
    _one("director_connected", "bool", _DIRECTOR, "Whether that director is connected."),
    _one("director_last_connected_timestamp_seconds", "time", _DIRECTOR,
         "When it was last connected; absent if never since the start."),
    _one("certificate_expiry_timestamp_seconds", "time", (), "When the certificate expires."),
    _one("parent_cache_listings", "", (), "Cached listings of earlier backups."),
    _one("parent_cache_bytes", "bytes", (), "Bytes of these listings."),
)  # fmt: skip

LAST_RUNS: Final = (
    _one("last_run_timestamp_seconds", "time", _RUN, "When the last run ended."),
    _one("last_run_duration_seconds", "seconds", _RUN, "How long it took."),
    _one("last_run_status", "", _RUN,
         "How it ended: 0 done, 1 incomplete, 2 failed, 3 cancelled."),
    _one("last_success_timestamp_seconds", "time", _RUN,
         "When the last run that was done or incomplete ended.",
         "time() - strongroom_agent_last_success_timestamp_seconds > 2 * 86400"),
    _one("last_run_files", "", _RUN, "Files of the last run."),
    _one("last_run_bytes", "bytes", _RUN, "Bytes of these files."),
    _one("last_run_read_bytes", "bytes", _RUN, "Bytes that a backup had to read."),
    _one("last_run_stored_bytes", "bytes", _RUN, "Bytes that a backup added to the repository."),
    _one("last_run_problems", "", _RUN, "Files and attributes that could not be processed."),
    _one("last_run_used_parent", "bool", _RUN,
         "Whether a backup was compared with an earlier one."),
)  # fmt: skip

SECTIONS: Final = {"The agent itself": AGENT, "Last runs": LAST_RUNS}
