"""One client: its history, what its backups spend their time on, what changes, whether it can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders.dashboard import Row

from dashboards.fleet import STATUS
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
    variable,
    with_nodes,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard

OF = '{client="$client", backup_job=~"$backup_job"}'
MY_NODE = '* on (instance) group_left () (strongroom_agent_build_info{client="$client"})'


def client() -> Dashboard:
    """The dashboard."""
    board = new_dashboard(
        "strongroom-client", "Strongroom / Client", "History of one client, and what bounds its backups."
    )
    of = 'job=~"$job", instance=~"$instance"'
    board = board.with_variable(
        variable("client", "Client", f"label_values(strongroom_agent_connected{{{of}}}, client)", is_multi=False)
    ).with_variable(
        variable(
            "backup_job",
            "Backup job",
            f'label_values(strongroom_backup_last_run_status{{{of}, client="$client"}}, backup_job)',
        )
    )
    board = with_nodes(
        board,
        'label_values(strongroom_agent_build_info{client="$client"}, job)',
        'label_values(strongroom_agent_build_info{client="$client", job=~"$node_job"}, instance)',
    )
    panels = (
        Row("Now"),
        number(
            "Age",
            "Time since the last successful backup began.",
            "dtdurations",
            above(129600, 259200),
            Query(f"time() - strongroom_backup_last_success_timestamp_seconds{OF}", "{{backup_job}}"),
        ),
        number(
            "Last run",
            "How the last backup ended.",
            "short",
            above(1, 2),
            Query(f"strongroom_backup_last_run_status{OF}", "{{backup_job}}"),
            texts=dict(STATUS),
        ),
        number(
            "Agent connected",
            "Whether the director has a connection to the agent.",
            "short",
            below(1, 1),
            Query('strongroom_agent_connected{client="$client"}', "connected"),
            texts=YES,
        ),
        number(
            "Restore test",
            "Whether the last restore test succeeded.",
            "short",
            below(1, 1),
            Query('strongroom_backup_last_restore_test_success{client="$client"}', "{{backup_job}}"),
            texts=YES,
        ),
        number(
            "Since the last restore test",
            "Time since the last restore test ended.",
            "dtdurations",
            above(8 * 86400, 32 * 86400),
            Query('time() - strongroom_backup_last_restore_test_timestamp_seconds{client="$client"}', "{{backup_job}}"),
        ),
        number(
            "Snapshots",
            "Snapshots of the client.",
            "short",
            plain(),
            Query('strongroom_snapshots{client="$client"}', "snapshots"),
        ),
        Row("History"),
        curves(
            "Duration",
            "How long the last successful backup took.",
            "s",
            Query(f"strongroom_backup_duration_seconds{OF}", "{{backup_job}}"),
        ),
        curves(
            "What backups spend their time on",
            "Time of all threads of the last backup, by stage.",
            "s",
            Query(f"strongroom_backup_stage_seconds{OF}", "{{backup_job}} {{stage}}"),
            stacked=True,
        ),
        curves(
            "Size",
            "What the last snapshot holds.",
            "bytes",
            Query(f"strongroom_backup_size_bytes{OF}", "{{backup_job}}"),
        ),
        curves(
            "Read, new and stored",
            "What was changed, what of it was new, and what that takes.",
            "bytes",
            Query(f"strongroom_backup_read_bytes{OF}", "{{backup_job}} read"),
            Query(f"strongroom_backup_new_bytes{OF}", "{{backup_job}} new"),
            Query(f"strongroom_backup_stored_bytes{OF}", "{{backup_job}} stored"),
        ),
        curves(
            "Rate",
            "Bytes that were read, by how long the backup took.",
            "Bps",
            Query(f"strongroom_backup_read_bytes{OF} / (strongroom_backup_duration_seconds{OF} > 0)", "{{backup_job}}"),
        ),
        curves(
            "Files that could not be read",
            "Of the last successful backup.",
            "short",
            Query(f"strongroom_backup_errors{OF}", "{{backup_job}}"),
            thresholds=above(1, 100),
        ),
        Row("Change"),
        curves(
            "Change rate",
            "Part of all bytes that had changed. Much more than usual may be ransomware.",
            "percentunit",
            Query(f"strongroom_backup_read_bytes{OF} / (strongroom_backup_size_bytes{OF} > 0)", "{{backup_job}}"),
        ),
        curves(
            "Compression ratio of new data",
            "What was new, by what is stored of it. Near 1 where it was 2 before: it is encrypted now.",
            "short",
            Query(f"strongroom_backup_compression_ratio{OF}", "{{backup_job}}"),
        ),
        Row("A backup that is under way"),
        curves(
            "What bounds it",
            "Threads in each stage. The largest is what bounds the backup.",
            "short",
            Query(
                'sum by (stage) (rate(strongroom_director_run_stage_seconds_total{client="$client"}'
                "[$__rate_interval]))",
                "{{stage}}",
            ),
            stacked=True,
        ),
        curves(
            "Throughput",
            "Bytes each second: processed, and stored.",
            "Bps",
            Query(
                'sum(clamp_min(deriv(strongroom_director_run_bytes{client="$client"}[$__rate_interval]), 0))',
                "processed",
            ),
            Query(
                'sum(clamp_min(deriv(strongroom_director_run_stored_bytes{client="$client"}[$__rate_interval]), 0))',
                "stored",
            ),
        ),
        curves(
            "Queue",
            "Blocks that wait for a worker.",
            "short",
            Query('strongroom_director_run_queued_blocks{client="$client"}', "{{backup_job}}"),
        ),
        curves(
            "Processed",
            "Files that the run has processed.",
            "short",
            Query('strongroom_director_run_files{client="$client"}', "{{backup_job}}"),
        ),
        Row("Connection, and what the agent says itself"),
        rows(
            "Connection",
            "What protected the connection of the last backup to the storage daemon.",
            ("backup_job", "mode", "cipher"),
            (Column("In use", Query(f"strongroom_backup_connection_info{OF}"), "short"),),
            first=("In use",),
            width=12,
        ),
        rows(
            "Last runs, from the agent's own file",
            "Also while the director is unreachable, or the agent asleep.",
            ("backup_job", "kind"),
            (
                Column("Status", Query(f"strongroom_agent_last_run_status {MY_NODE}"), "short", (1, 2), STATUS),
                Column(
                    "Age", Query(f"time() - (strongroom_agent_last_run_timestamp_seconds {MY_NODE})"), "dtdurations"
                ),
            ),
            first=("Status",),
            width=12,
        ),
    )
    return filled(board, panels)
