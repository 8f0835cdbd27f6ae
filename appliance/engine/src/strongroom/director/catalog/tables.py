"""The tables of the catalog. A change here needs a migration beside it; a test compares the two.

Times are unix nanoseconds, 0 where something has not happened. Texts are "" where there is none.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)

# The newest of the migrations, which make these tables.
REVISION: Final = "0005"
# Names of constraints have to be the same on every database for migrations to find them.
METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _text(name: str, **options: Any) -> Column[str]:
    return Column(name, Text, nullable=False, server_default="", **options)


def _number(name: str, **options: Any) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0", **options)


def _data(name: str) -> Column[Any]:
    return Column(name, JSON, nullable=False)


def _partial_index(name: str, column: str, rows: str) -> Index:
    """An index of some rows; SQLite uses it for a query with the very same condition."""
    return Index(name, column, sqlite_where=text(rows), postgresql_where=text(rows))


# Why a snapshot is marked as removed that somebody else has removed, and conditions in SQL.
GONE: Final = "gone from the repository"
IS_GONE: Final = f"removed_reason = '{GONE}'"
IS_FALSE: Final = "false_reason != ''"
# What Snapshot.begun_ns is, as PostgreSQL writes it, so that a test can compare. An index of an
# expression serves queries with the very same one.
BEGUN_NS: Final = (
    "(\nCASE\n    WHEN server_ns <> 0 AND server_ns < start_ns THEN server_ns\n"
    "    ELSE start_ns\nEND)"
)

CLIENTS = Table(
    "clients",
    METADATA,
    Column("name", Text, primary_key=True),
    _text("address"),
    _text("certificate_serial"),
    _number("enrolled_ns"),
    _number("generation"),
    _number("last_seen_ns"),
    _number("clock_ahead_ns"),
    _text("version"),
    _text("platform"),
    _data("features"),
)

RUNS = Table(
    "runs",
    METADATA,
    Column("id", String(32), primary_key=True),
    _text("job"),
    _text("client"),
    _text("fileset"),
    _text("storage"),
    _text("pool"),
    _text("level"),
    _text("kind"),
    _text("state"),
    _number("priority"),
    _number("scheduled_ns"),
    _number("queued_ns"),
    _number("not_before_ns"),
    _number("deadline_ns"),
    _number("started_ns"),
    _number("ended_ns"),
    _number("files"),
    _number("bytes"),
    _number("stored_bytes"),
    _number("errors"),
    _text("snapshot"),
    _text("parent"),
    _text("fileset_digest"),
    _text("error_id"),
    _text("error"),
    _text("reason"),
    _text("requested_by"),
    _number("attempt"),
    _text("rescheduled_from"),
    # The number of the agent's last report that is stored, and the lines in the log.
    _number("sequence"),
    _number("log_lines"),
    # What still has to be done after its end: a step of AFTERMATH, "" for nothing.
    _text("aftermath"),
    # When the director ended it without its agent, which may still report a snapshot; else 0.
    _number("given_up_ns"),
    # Of a restore: the client whose snapshot it reads.
    _text("source_client"),
    _data("request"),
    _data("summary"),
    _data("security"),
    Index("ix_runs_state", "state"),
    Index("ix_runs_job_client", "job", "client", "scheduled_ns"),
    Index("ix_runs_scheduled", "scheduled_ns"),
    Index("ix_runs_client", "client", "scheduled_ns"),
    # The newest end or start of each job or client is found in these alone.
    Index("ix_runs_ends", "kind", "job", "client", "state", "ended_ns"),
    Index("ix_runs_starts", "kind", "client", "state", "started_ns"),
)

RUN_LOG = Table(
    "run_log",
    METADATA,
    Column("run_id", String(32), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    _number("time_ns"),
    _text("level"),
    _text("text"),
)

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("id", String(64), primary_key=True),
    _text("client"),
    _text("job"),
    _text("fileset"),
    _text("fileset_digest"),
    _text("storage"),
    _text("pool"),
    _text("level"),
    _text("run"),
    _text("original"),
    _number("start_ns"),
    _number("server_ns"),
    _number("files"),
    _number("bytes"),
    _number("stored_bytes"),
    _number("errors"),
    # Of the paths that were named; such a snapshot displaces no other.
    _number("missing_paths"),
    _data("tags"),
    _number("removed_ns"),
    _text("removed_reason"),
    # Why it counts for nothing: it lacks something, or its totals are not true.
    _text("false_reason"),
    Index("ix_snapshots_client_job", "client", "job", "server_ns"),
    Index("ix_snapshots_server", "server_ns", "storage", "stored_bytes"),
    Index("ix_snapshots_begun", text(BEGUN_NS)),
    # Without it the newest of a job that seldom runs are found by going through those of all.
    Index("ix_snapshots_job_begun", "job", text(BEGUN_NS)),
    # Of the few rows that are false or gone; the reasons themselves may be too long for an index.
    _partial_index("ix_snapshots_false", "server_ns", IS_FALSE),
    _partial_index("ix_snapshots_gone", "server_ns", IS_GONE),
)

AUDIT = Table(
    "audit",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    _number("time_ns"),
    _text("who"),
    _text("role"),
    _text("action"),
    _text("object"),
    _text("result"),
    _text("address"),
    # The names of the jobs and clients that it was about.
    _data("jobs"),
    _data("clients"),
)

TOKENS = Table(
    "tokens",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    _text("name"),
    _text("profile"),
    # The type of the resource of its name that it dies with: Console, User, "" for none.
    _text("bound_to"),
    _number("created_ns"),
    _number("expires_ns"),
    _number("last_used_ns"),
)

# `entry`: a digest of the Run of the schedule, so that the order of Runs does not matter.
SCHEDULE_STATE = Table(
    "schedule_state",
    METADATA,
    Column("job", Text, primary_key=True),
    Column("entry", String(32), primary_key=True),
    _number("last_due_ns"),
)

# What is wrong, or was. `topic`: what it is about; one of a topic is open at a time. `told`: the
# destinations that got a notice of it. `ended_ns`: 0 while it lasts.
INCIDENTS = Table(
    "incidents",
    METADATA,
    Column("id", String(32), primary_key=True),
    _text("topic"),
    _text("event"),
    _text("severity"),
    _text("job"),
    _text("client"),
    _text("storage"),
    _text("title"),
    _text("detail"),
    _text("remedy"),
    _number("since_ns"),
    _number("opened_ns"),
    _number("ended_ns"),
    _data("told"),
    Index("ix_incidents_topic", "topic"),
    Index("ix_incidents_ended", "ended_ns"),
)

# What waits to be sent; `form`: notice, report, digest or ping. `failed_ns`: when it was given up,
# 0 while it is tried. `expires_ns`: when it is useless any more, 0 for never.
OUTBOX = Table(
    "outbox",
    METADATA,
    Column("id", String(64), primary_key=True),
    _text("destination"),
    _text("form"),
    _text("subject"),
    _number("created_ns"),
    _number("not_before_ns"),
    _number("expires_ns"),
    _number("failed_ns"),
    _number("attempts"),
    _text("error"),
    _data("content"),
    Index("ix_outbox_destination", "destination", "created_ns"),
    Index("ix_outbox_failed", "failed_ns"),
)


STATE = Table(
    "state",
    METADATA,
    Column("name", Text, primary_key=True),
    _data("value"),
)
