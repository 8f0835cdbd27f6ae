"""What is still to be done after a run has ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs that ended before this were followed by all there was to do."""
    op.add_column("runs", sa.Column("aftermath", sa.Text(), server_default="", nullable=False))
