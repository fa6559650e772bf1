"""Files that launches name by their digest."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# A revision holds its own types: what it makes does not change when the code does.
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table; code that does not know it is not disturbed."""
    op.create_table(
        "launch_files",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("sent_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "sha256", name="pk_launch_files"),
    )
    op.create_index("ix_launch_files_sent_at", "launch_files", ["sent_at"])


def downgrade() -> None:
    """Drop the table, with what it holds."""
    op.drop_index("ix_launch_files_sent_at", "launch_files")
    op.drop_table("launch_files")
