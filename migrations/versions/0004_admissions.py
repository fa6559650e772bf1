"""Policies, decisions with what they were made from, the runs that report under them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# A revision holds its own types: what it makes does not change when the code does.
MOMENT = sa.DateTime(timezone=True)

_DOCUMENTS = {"admission_subjects": "subject_digest", "admission_answers": "answer_digest"}


def upgrade() -> None:
    """Make the tables; code that does not know them is not disturbed."""
    _policies()
    for table, digest in _DOCUMENTS.items():
        op.create_table(
            table,
            sa.Column("tenant", sa.Text, nullable=False),
            sa.Column(digest, sa.Text, nullable=False),
            sa.Column("format_version", sa.Integer, nullable=False),
            sa.Column("document", sa.Text, nullable=False),
            sa.PrimaryKeyConstraint("tenant", digest, name=f"pk_{table}"),
        )
    _decisions()
    op.create_table(
        "decision_runs",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("decision_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("bound_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "decision_id", name="pk_decision_runs"),
    )
    op.create_index("ix_decision_runs_tenant_run_id", "decision_runs", ["tenant", "run_id"])
    op.create_table(
        "signing_keys",
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("key_id", name="pk_signing_keys"),
    )


def downgrade() -> None:
    """Drop the tables, with what they hold."""
    for table in (
        "signing_keys",
        "decision_runs",
        "decisions",
        "decision_keys",
        *_DOCUMENTS,
        "policies",
    ):
        op.drop_table(table)


def _policies() -> None:
    op.create_table(
        "policies",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("activated_at", MOMENT),
        sa.Column("activated_by", sa.Text),
        sa.Column("retired_at", MOMENT),
        sa.PrimaryKeyConstraint("tenant", "version", name="pk_policies"),
    )
    op.create_index(
        "uq_policies_active",
        "policies",
        ["tenant"],
        unique=True,
        postgresql_where=sa.text("status = 'active'"),
        sqlite_where=sa.text("status = 'active'"),
    )


def _decisions() -> None:
    op.create_table(
        "decision_keys",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("decision_id", sa.Text, nullable=False),
        sa.Column("decided_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "decision_id", name="pk_decision_keys"),
    )
    op.create_table(
        "decisions",
        sa.Column("decided_at", MOMENT, nullable=False),
        sa.Column("decision_id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("recorded_at", MOMENT, nullable=False),
        sa.Column("caller", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("cluster", "queue")),
        sa.Column("channel", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("submitter", "external_id")),
        *(_text(name) for name in ("mode", "verdict", "decision", "reason_code")),
        sa.Column("oom_probability", sa.Double),
        sa.Column("required_bytes", sa.BigInteger),
        sa.Column("usable_bytes", sa.BigInteger),
        *(sa.Column(name, sa.Text) for name in ("model", "accelerator")),
        *(_text(name) for name in ("policy_version", "calibration_version", "model_version")),
        *(_text(name) for name in ("inputs_digest", "subject_digest", "answer_digest")),
        sa.PrimaryKeyConstraint("decided_at", "decision_id", "tenant", name="pk_decisions"),
        postgresql_partition_by="RANGE (decided_at)",
    )
    if op.get_context().dialect.name == "postgresql":
        # The months get theirs from `vramgate migrate` and from the running service.
        op.execute("CREATE TABLE decisions_default PARTITION OF decisions DEFAULT")
    op.create_index(
        "ix_decisions_tenant_decided_at_decision_id",
        "decisions",
        ["tenant", "decided_at", "decision_id"],
    )
    op.create_index(
        "ix_decisions_external_id",
        "decisions",
        ["tenant", "external_id"],
        postgresql_where=sa.text("external_id IS NOT NULL"),
        sqlite_where=sa.text("external_id IS NOT NULL"),
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)
