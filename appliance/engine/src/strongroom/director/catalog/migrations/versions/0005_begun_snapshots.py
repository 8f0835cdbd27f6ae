"""Indexes of snapshots by when they began, so that the newest are found without sorting all."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of what is a part of each row; no row changes."""
    begun_ns = (
        "(\nCASE\n    WHEN server_ns <> 0 AND server_ns < start_ns THEN server_ns\n"
        "    ELSE start_ns\nEND)"
    )
    op.create_index("ix_snapshots_begun", "snapshots", [sa.text(begun_ns)])
    op.create_index("ix_snapshots_job_begun", "snapshots", ["job", sa.text(begun_ns)])
