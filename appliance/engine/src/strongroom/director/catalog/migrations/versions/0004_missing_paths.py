"""How many of the paths that were named a snapshot lacks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of snapshots from before, no one knows."""
    op.add_column(
        "snapshots",
        sa.Column("missing_paths", sa.BigInteger(), server_default="0", nullable=False),
    )
