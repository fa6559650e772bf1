"""Reports with their jobs and keys, idempotency keys, tokens, audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# A revision holds its own types: what it makes does not change when the code does.
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables."""
    _reports()
    _callers()


def _reports() -> None:
    op.create_table(
        "commit_clock",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("received_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_commit_clock"),
        sa.CheckConstraint("id = 1", name="ck_commit_clock_one_row"),
    )
    op.execute(
        "INSERT INTO commit_clock (id, position, received_at) "
        "VALUES (1, 0, '2026-01-01 00:00:00.000000')"
    )
    op.create_table(
        "jobs",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("job_digest", sa.Text, nullable=False),
        sa.Column("format_version", sa.Integer, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "job_digest", name="pk_jobs"),
    )
    op.create_table(
        "report_keys",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("report_id", sa.Text, nullable=False),
        sa.Column("received_at", MOMENT, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("subject_digest", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        *_measured(),
        sa.PrimaryKeyConstraint("tenant", "run_id", "rank", name="pk_report_keys"),
        sa.UniqueConstraint("report_id", name="uq_report_keys_report_id"),
    )
    op.create_table(
        "reports",
        sa.Column("received_at", MOMENT, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("report_id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("submitter", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reasons", sa.Text, nullable=False),
        sa.Column("first_received_at", MOMENT, nullable=False),
        sa.Column("measured_at", MOMENT),
        sa.Column("job_digest", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("accelerator", sa.Text),
        sa.Column("accelerator_total_bytes", sa.BigInteger),
        *_measured(),
        sa.Column("estimated_allocated_bytes", sa.BigInteger),
        sa.Column("estimated_required_bytes", sa.BigInteger),
        sa.Column("estimated_reserved_bytes", sa.BigInteger),
        sa.Column("estimated_device_bytes", sa.BigInteger),
        sa.Column("model_version", sa.Text),
        sa.Column("step_seconds", sa.Double),
        sa.Column("tokens_per_second", sa.Double),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("received_at", "position", name="pk_reports"),
        postgresql_partition_by="RANGE (received_at)",
    )
    if op.get_context().dialect.name == "postgresql":
        # The months get theirs from `vramgate migrate` and from the running service.
        op.execute("CREATE TABLE reports_default PARTITION OF reports DEFAULT")
    op.create_index(
        "ix_reports_tenant_received_at_position", "reports", ["tenant", "received_at", "position"]
    )
    op.create_index(
        "ix_reports_quarantined",
        "reports",
        ["tenant", "received_at", "position"],
        postgresql_where=sa.text("status = 'quarantined'"),
        sqlite_where=sa.text("status = 'quarantined'"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "route", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])


def _measured() -> list[sa.Column[int]]:
    names = ("max_allocated_bytes", "max_reserved_bytes", "device_used_bytes", "context_bytes")
    return [sa.Column(name, sa.BigInteger) for name in names]


def _callers() -> None:
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("secret_hash", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT),
        sa.Column("revoked_at", MOMENT),
        sa.PrimaryKeyConstraint("token_id", name="pk_tokens"),
        sa.UniqueConstraint("secret_hash", name="uq_tokens_secret_hash"),
    )
    op.create_index("ix_tokens_tenant", "tokens", ["tenant"])
    op.create_table(
        "audit",
        sa.Column("audit_id", sa.Text, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name="pk_audit"),
    )
    op.create_index("ix_audit_tenant_audit_id", "audit", ["tenant", "audit_id"])


def downgrade() -> None:
    """Drop the tables, with what they hold."""
    for table in (
        "audit", "tokens", "idempotency_keys", "reports", "report_keys", "jobs", "commit_clock",
    ):  # fmt: skip
        op.drop_table(table)
