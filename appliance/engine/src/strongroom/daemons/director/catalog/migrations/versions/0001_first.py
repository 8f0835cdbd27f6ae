"""The tables as they were first."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        _number("time_ns"),
        _text("who"),
        _text("role"),
        _text("action"),
        _text("object"),
        _text("result"),
        _text("address"),
        _data("jobs"),
        _data("clients"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_table(
        "clients",
        sa.Column("name", sa.Text(), nullable=False),
        _text("address"),
        _text("certificate_serial"),
        _number("enrolled_ns"),
        _number("generation"),
        _number("last_seen_ns"),
        _number("clock_ahead_ns"),
        _text("version"),
        _text("platform"),
        _data("features"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_clients")),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=32), nullable=False),
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
        _number("sequence"),
        _number("log_lines"),
        _number("given_up_ns"),
        _text("source_client"),
        _data("request"),
        _data("summary"),
        _data("security"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index("ix_runs_job_client", "runs", ["job", "client", "scheduled_ns"], unique=False)
    op.create_index("ix_runs_scheduled", "runs", ["scheduled_ns"], unique=False)
    op.create_index("ix_runs_client", "runs", ["client", "scheduled_ns"], unique=False)
    ends = ["kind", "job", "client", "state", "ended_ns"]
    op.create_index("ix_runs_ends", "runs", ends, unique=False)
    starts = ["kind", "client", "state", "started_ns"]
    op.create_index("ix_runs_starts", "runs", starts, unique=False)
    op.create_index("ix_runs_state", "runs", ["state"], unique=False)
    op.create_table(
        "schedule_state",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("entry", sa.String(length=32), nullable=False),
        _number("last_due_ns"),
        sa.PrimaryKeyConstraint("job", "entry", name=op.f("pk_schedule_state")),
    )
    op.create_table(
        "snapshots",
        sa.Column("id", sa.String(length=64), nullable=False),
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
        _data("tags"),
        _number("removed_ns"),
        _text("removed_reason"),
        _text("false_reason"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshots")),
    )
    op.create_index(
        "ix_snapshots_client_job", "snapshots", ["client", "job", "server_ns"], unique=False
    )
    added = ["server_ns", "storage", "stored_bytes"]
    op.create_index("ix_snapshots_server", "snapshots", added, unique=False)
    for name, rows in (
        ("ix_snapshots_false", sa.text("false_reason != ''")),
        ("ix_snapshots_gone", sa.text("removed_reason = 'gone from the repository'")),
    ):
        op.create_index(
            name,
            "snapshots",
            ["server_ns"],
            unique=False,
            sqlite_where=rows,
            postgresql_where=rows,
        )
    op.create_table(
        "state",
        sa.Column("name", sa.Text(), nullable=False),
        _data("value"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_state")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        _text("name"),
        _text("profile"),
        _text("bound_to"),
        _number("created_ns"),
        _number("expires_ns"),
        _number("last_used_ns"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_table(
        "run_log",
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        _number("time_ns"),
        _text("level"),
        _text("text"),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_run_log_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "sequence", name=op.f("pk_run_log")),
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default="", nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)


def _data(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.JSON(), nullable=False)
