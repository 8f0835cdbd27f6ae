"""What is wrong, and what people are notified of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default="", nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)


def upgrade() -> None:
    """Two new tables."""
    op.create_table(
        "incidents",
        sa.Column("id", sa.String(32), nullable=False),
        *(_text(name) for name in ("topic", "event", "severity", "job", "client", "storage")),
        *(_text(name) for name in ("title", "detail", "remedy")),
        *(_number(name) for name in ("since_ns", "opened_ns", "ended_ns")),
        sa.Column("told", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_incidents"),
    )
    op.create_index("ix_incidents_topic", "incidents", ["topic"])
    op.create_index("ix_incidents_ended", "incidents", ["ended_ns"])
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(64), nullable=False),
        *(_text(name) for name in ("destination", "form", "subject")),
        *(_number(name) for name in ("created_ns", "not_before_ns", "expires_ns", "failed_ns")),
        _number("attempts"),
        _text("error"),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index("ix_outbox_destination", "outbox", ["destination", "created_ns"])
    op.create_index("ix_outbox_failed", "outbox", ["failed_ns"])
