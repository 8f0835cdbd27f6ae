"""The fleet: who is late or failed, how old backups are, what ran today, how long the disk lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders.dashboard import Row

from dashboards.parts import (
    CLIENT_LINK,
    Column,
    Query,
    above,
    below,
    curves,
    filled,
    heat,
    new_dashboard,
    number,
    plain,
    rows,
    variable,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard

STATUS = (("0", "done"), ("1", "incomplete"), ("2", "failed"), ("3", "cancelled"))
AGE = "(time() - strongroom_backup_last_success_timestamp_seconds)"
INTERVAL = "strongroom_backup_expected_interval_seconds"
ON = "on (instance, backup_job, client)"
# Of the clients that are chosen.
CHOSEN = '{client=~"$client"}'
CHOSEN_AGE = f"(time() - strongroom_backup_last_success_timestamp_seconds{CHOSEN})"
TODAY = "(time() - strongroom_backup_last_run_timestamp_seconds < 86400)"


def fleet() -> Dashboard:
    """The dashboard."""
    board = new_dashboard(
        "strongroom-fleet", "Strongroom / Fleet", "All clients: what is late or failed comes first."
    ).with_variable(
        variable(
            "client", "Client", 'label_values(strongroom_agent_connected{job=~"$job", instance=~"$instance"}, client)'
        )
    )
    panels = (
        Row("Now"),
        number(
            "Late",
            "Jobs whose last success is older than one and a half intervals of their schedule.",
            "short",
            above(1, 3),
            Query(f"count({AGE} > {ON} 1.5 * {INTERVAL}) or vector(0)", "late"),
        ),
        number(
            "Failed",
            "Jobs whose last backup failed.",
            "short",
            above(1, 3),
            Query("count(strongroom_backup_last_run_status == 2) or vector(0)", "failed"),
        ),
        number(
            "Never done",
            "Scheduled jobs without any successful backup.",
            "short",
            above(1, 3),
            Query(
                f"count({INTERVAL} unless {ON} strongroom_backup_last_success_timestamp_seconds) or vector(0)",
                "never done",
            ),
        ),
        number(
            "Restore tests failed",
            "Jobs whose last restore test failed.",
            "short",
            above(1, 2),
            Query("count(strongroom_backup_last_restore_test_success == 0) or vector(0)", "failed"),
        ),
        number(
            "Agents away",
            "Clients whose agent is not connected now.",
            "short",
            above(1, 10),
            Query("count(strongroom_agent_connected == 0) or vector(0)", "offline"),
        ),
        number(
            "Running",
            "Runs that are under way.",
            "short",
            plain(),
            Query('sum(strongroom_director_active_runs{state="running"})', "running"),
        ),
        Row("Jobs"),
        rows(
            "Jobs, failed and late first",
            "Late is how much of its interval has gone by; above 1.5 is too much.",
            ("client", "backup_job"),
            (
                Column(
                    "Last run", Query('strongroom_backup_last_run_status{client=~"$client"}'), "short", (1, 2), STATUS
                ),
                Column("Late", Query(f"{CHOSEN_AGE} / {ON} {INTERVAL}"), "percentunit", (1.1, 1.5)),
                Column("Age", Query(CHOSEN_AGE), "dtdurations"),
                Column("Took", Query('strongroom_backup_duration_seconds{client=~"$client"}'), "s"),
                Column("Size", Query('strongroom_backup_size_bytes{client=~"$client"}'), "bytes"),
                Column("Stored", Query('strongroom_backup_stored_bytes{client=~"$client"}'), "bytes"),
                Column("Files not read", Query('strongroom_backup_errors{client=~"$client"}'), "short"),
            ),
            first=("Last run", "Late"),
            link=CLIENT_LINK,
        ),
        rows(
            "What is wrong",
            "Incidents as the director sees them; its notices tell what to do.",
            ("severity", "event", "client", "backup_job", "storage"),
            (Column("Open", Query('strongroom_incidents{client=~"$client|"}'), "short"),),
            first=("severity",),
            link=CLIENT_LINK,
        ),
        Row("Over time"),
        heat(
            "Age of the last good backup",
            "How many jobs have a last success of which age.",
            "dtdurations",
            Query('time() - strongroom_backup_last_success_timestamp_seconds{client=~"$client"}', "age"),
        ),
        curves(
            "Runs of the last day",
            "Jobs whose last backup ended within a day, by how it ended.",
            "short",
            Query(_named(f'count_values("status", strongroom_backup_last_run_status and {ON} {TODAY})'), "{{status}}"),
            stacked=True,
            bars=True,
        ),
        curves(
            "Stored by the last backups",
            "What the last backup of every job added to the repository.",
            "bytes",
            Query("sum(strongroom_backup_stored_bytes)", "stored"),
            Query("sum(strongroom_backup_read_bytes)", "read"),
        ),
        curves(
            "Throughput now",
            "What backups that are under way read, each second.",
            "Bps",
            Query(
                "sum by (client) (clamp_min(deriv(strongroom_director_run_bytes[$__rate_interval]), 0))", "{{client}}"
            ),
            stacked=True,
        ),
        Row("Capacity"),
        number(
            "Free",
            "Free part of the file system of each repository.",
            "percentunit",
            below(0.2, 0.1),
            Query("strongroom_repository_free_bytes / strongroom_repository_size_bytes", "{{storage}}"),
            width=6,
        ),
        number(
            "Full in",
            "When the file system is full, if it continues as in the last week; ten years at most.",
            "dtdurations",
            below(30 * 86400, 7 * 86400),
            Query(
                "clamp_max(strongroom_repository_free_bytes / "
                "clamp_min(-deriv(strongroom_repository_free_bytes[7d]), 1e-9), 315360000)",
                "{{storage}}",
            ),
            width=6,
        ),
        number(
            "Saved",
            "Bytes of all files of all snapshots, divided by what is stored.",
            "short",
            plain(),
            Query("strongroom_repository_dedup_ratio", "{{storage}}"),
            width=6,
        ),
        number(
            "Snapshots",
            "Snapshots of all clients.",
            "short",
            plain(),
            Query("sum(strongroom_snapshots)", "snapshots"),
            width=6,
        ),
        curves(
            "Capacity, and in two weeks",
            "Free space, and what is left in two weeks if it continues as in the last week.",
            "bytes",
            Query("strongroom_repository_free_bytes", "{{storage}} free"),
            Query(
                "clamp_min(predict_linear(strongroom_repository_free_bytes[7d], 14 * 86400), 0) "
                "< strongroom_repository_size_bytes or strongroom_repository_size_bytes",
                "{{storage}} in two weeks",
            ),
            Query("strongroom_repository_size_bytes", "{{storage}} size"),
        ),
        curves(
            "Repository", "What all packs take.", "bytes", Query("strongroom_repository_stored_bytes", "{{storage}}")
        ),
    )
    return filled(board, panels)


def _named(expression: str) -> str:
    """With the words of STATUS in place of the numbers in the label `status`."""
    for value, word in STATUS:
        expression = f'label_replace({expression}, "status", "{word}", "status", "{value}")'
    return expression
