"""Models and accelerators of a tenant's own, and the version of each tenant's."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# A revision holds its own types: what it makes does not change when the code does.
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables; code that does not know them is not disturbed."""
    op.create_table(
        "catalog_versions",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("changed_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_catalog_versions"),
    )
    op.create_table(
        "catalog_entries",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("names", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "kind", "key", name="pk_catalog_entries"),
    )


def downgrade() -> None:
    """Drop the tables, with what they hold."""
    for table in ("catalog_entries", "catalog_versions"):
        op.drop_table(table)
