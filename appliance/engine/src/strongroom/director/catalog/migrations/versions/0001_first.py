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
        *_numbers("time_ns"),
        *_texts("who", "role", "action", "object", "result", "address"),
        *_datas("jobs", "clients"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_table(
        "clients",
        sa.Column("name", sa.Text(), nullable=False),
        *_texts("address", "certificate_serial"),
        *_numbers("enrolled_ns", "generation", "last_seen_ns", "clock_ahead_ns"),
        *_texts("version", "platform"),
        *_datas("features"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_clients")),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        *_texts("job", "client", "fileset", "storage", "pool", "level", "kind", "state"),
        *_numbers(
            "priority",
            "scheduled_ns",
            "queued_ns",
            "not_before_ns",
            "deadline_ns",
            "started_ns",
            "ended_ns",
            "files",
            "bytes",
            "stored_bytes",
            "errors",
        ),
        *_texts(
            "snapshot", "parent", "fileset_digest", "error_id", "error", "reason", "requested_by"
        ),
        *_numbers("attempt"),
        *_texts("rescheduled_from"),
        *_numbers("sequence", "log_lines", "given_up_ns"),
        *_texts("source_client"),
        *_datas("request", "summary", "security"),
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
        *_numbers("last_due_ns"),
        sa.PrimaryKeyConstraint("job", "entry", name=op.f("pk_schedule_state")),
    )
    op.create_table(
        "snapshots",
        sa.Column("id", sa.String(length=64), nullable=False),
        *_texts(
            "client",
            "job",
            "fileset",
            "fileset_digest",
            "storage",
            "pool",
            "level",
            "run",
            "original",
        ),
        *_numbers("start_ns", "server_ns", "files", "bytes", "stored_bytes", "errors"),
        *_datas("tags"),
        *_numbers("removed_ns"),
        *_texts("removed_reason", "false_reason"),
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
        *_datas("value"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_state")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        *_texts("name", "profile", "bound_to"),
        *_numbers("created_ns", "expires_ns", "last_used_ns"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_table(
        "run_log",
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        *_numbers("time_ns"),
        *_texts("level", "text"),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_run_log_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "sequence", name=op.f("pk_run_log")),
    )


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), server_default="", nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), server_default="0", nullable=False) for name in names]


def _datas(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.JSON(), nullable=False) for name in names]
