"""The rows we keep. Bytes are 64-bit integers, times are UTC, documents are text.

A document that was digested stays text: what a database makes of JSON (key order, spacing, number
formats) would no longer have the digest.
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

KEPT_ONCE = "kept_once"
"""In a table's ``info``: a row whose primary key is taken is the same row again."""

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UtcTime(sa.TypeDecorator[datetime]):
    """A moment in UTC: ``timestamptz`` on PostgreSQL, text of fixed width on SQLite."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the moment as the database takes it.

        Raises:
            ValueError: it has no time zone.
        """
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ANN401 as the driver gives it
        """Return the moment with its time zone."""
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if dialect.name == "sqlite" else moment.astimezone(UTC)


commit_clock = sa.Table(
    "commit_clock",
    metadata,
    # One row. Whoever writes reports holds it until the commit, so positions and times of receipt
    # become visible in their own order, and a reader that goes on from the last one misses none.
    sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1", name="one_row"), primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("received_at", UtcTime, nullable=False),
)

jobs = sa.Table(
    "jobs",
    metadata,
    # Many reports of few jobs: a job is kept once a tenant.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("job_digest", sa.Text, primary_key=True),
    sa.Column("format_version", sa.Integer, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    info={KEPT_ONCE: True},
)

report_keys = sa.Table(
    "report_keys",
    metadata,
    # What a unique key on the partitioned table could not hold: one report per tenant, run and
    # rank, where it lies, and all that decides about the next one under the key.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("rank", sa.Integer, primary_key=True),
    sa.Column("report_id", sa.Text, nullable=False),
    sa.Column("received_at", UtcTime, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("subject_digest", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("max_allocated_bytes", sa.BigInteger),
    sa.Column("max_reserved_bytes", sa.BigInteger),
    sa.Column("device_used_bytes", sa.BigInteger),
    sa.Column("context_bytes", sa.BigInteger),
    sa.UniqueConstraint("report_id"),
)

reports = sa.Table(
    "reports",
    metadata,
    sa.Column("received_at", UtcTime, primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("report_id", sa.Text, nullable=False),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("rank", sa.Integer, nullable=False),
    sa.Column("submitter", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reasons", sa.Text, nullable=False),
    sa.Column("first_received_at", UtcTime, nullable=False),
    sa.Column("measured_at", UtcTime),
    sa.Column("job_digest", sa.Text),
    sa.Column("model", sa.Text),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("accelerator", sa.Text),
    sa.Column("accelerator_total_bytes", sa.BigInteger),
    sa.Column("max_allocated_bytes", sa.BigInteger),
    sa.Column("max_reserved_bytes", sa.BigInteger),
    sa.Column("device_used_bytes", sa.BigInteger),
    sa.Column("context_bytes", sa.BigInteger),
    sa.Column("estimated_allocated_bytes", sa.BigInteger),
    sa.Column("estimated_required_bytes", sa.BigInteger),
    sa.Column("estimated_reserved_bytes", sa.BigInteger),
    sa.Column("estimated_device_bytes", sa.BigInteger),
    sa.Column("model_version", sa.Text),
    sa.Column("step_seconds", sa.Double),
    sa.Column("tokens_per_second", sa.Double),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Index(None, "tenant", "received_at", "position"),
    # Few among many: without their own index a list of them would read everything.
    sa.Index(
        "ix_reports_quarantined",
        "tenant",
        "received_at",
        "position",
        postgresql_where=sa.text("status = 'quarantined'"),
        sqlite_where=sa.text("status = 'quarantined'"),
    ),
    postgresql_partition_by="RANGE (received_at)",
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("route", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("answer", sa.Text, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False, index=True),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("token_id", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("secret_hash", sa.Text, nullable=False, unique=True),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime),
    sa.Column("revoked_at", UtcTime),
)

audit = sa.Table(
    "audit",
    metadata,
    # Only ever added to.
    sa.Column("audit_id", sa.Text, primary_key=True),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Index(None, "tenant", "audit_id"),
)

catalog_versions = sa.Table(
    "catalog_versions",
    metadata,
    # One row a tenant that ever had entries of its own. Whoever changes them holds it until the
    # commit; a version that differs tells the other replicas that there is something to read.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("changed_at", UtcTime, nullable=False),
)

catalog_entries = sa.Table(
    "catalog_entries",
    metadata,
    # The models and accelerators of each tenant's own; ``key`` is the name in lower case.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    # Every name it claims, so that no two entries claim one.
    sa.Column("names", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
)

launch_files = sa.Table(
    "launch_files",
    metadata,
    # Configurations that launches name by their digest, each kept once a tenant.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("sha256", sa.Text, primary_key=True),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("sent_at", UtcTime, nullable=False, index=True),
)

policies = sa.Table(
    "policies",
    metadata,
    # Immutable documents; what changes is which one of a tenant is active.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, primary_key=True),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("activated_at", UtcTime),
    sa.Column("activated_by", sa.Text),
    sa.Column("retired_at", UtcTime),
    # At most one is active, whatever two administrators do at once.
    sa.Index(
        "uq_policies_active",
        "tenant",
        unique=True,
        postgresql_where=sa.text("status = 'active'"),
        sqlite_where=sa.text("status = 'active'"),
    ),
)

admission_subjects = sa.Table(
    "admission_subjects",
    metadata,
    # What was asked about: many decisions are about few jobs, and a job is kept once a tenant.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("subject_digest", sa.Text, primary_key=True),
    sa.Column("format_version", sa.Integer, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    info={KEPT_ONCE: True},
)

admission_answers = sa.Table(
    "admission_answers",
    metadata,
    # What was answered: the same for the same job under the same policy, and kept once as well.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("answer_digest", sa.Text, primary_key=True),
    sa.Column("format_version", sa.Integer, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    info={KEPT_ONCE: True},
)

decision_keys = sa.Table(
    "decision_keys",
    metadata,
    # What a unique key on the partitioned table could not hold: each decision once, and where it is.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("decision_id", sa.Text, primary_key=True),
    sa.Column("decided_at", UtcTime, nullable=False),
)

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("decided_at", UtcTime, primary_key=True),
    sa.Column("decision_id", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("recorded_at", UtcTime, nullable=False),
    sa.Column("caller", sa.Text, nullable=False),
    sa.Column("cluster", sa.Text),
    sa.Column("queue", sa.Text),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("submitter", sa.Text),
    sa.Column("external_id", sa.Text),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("decision", sa.Text, nullable=False),
    sa.Column("reason_code", sa.Text, nullable=False),
    sa.Column("oom_probability", sa.Double),
    sa.Column("required_bytes", sa.BigInteger),
    sa.Column("usable_bytes", sa.BigInteger),
    sa.Column("model", sa.Text),
    sa.Column("accelerator", sa.Text),
    sa.Column("policy_version", sa.Text, nullable=False),
    sa.Column("calibration_version", sa.Text, nullable=False),
    sa.Column("model_version", sa.Text, nullable=False),
    sa.Column("inputs_digest", sa.Text, nullable=False),
    sa.Column("subject_digest", sa.Text, nullable=False),
    sa.Column("answer_digest", sa.Text, nullable=False),
    sa.Index(None, "tenant", "decided_at", "decision_id"),
    # "Why was job 4711 refused?" is asked by the scheduler's own id.
    sa.Index(
        "ix_decisions_external_id",
        "tenant",
        "external_id",
        postgresql_where=sa.text("external_id IS NOT NULL"),
        sqlite_where=sa.text("external_id IS NOT NULL"),
    ),
    postgresql_partition_by="RANGE (decided_at)",
)

decision_runs = sa.Table(
    "decision_runs",
    metadata,
    # The one run that reports under a decision: the first that did.
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("decision_id", sa.Text, primary_key=True),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("bound_at", UtcTime, nullable=False),
    sa.Index(None, "tenant", "run_id"),
)

signing_keys = sa.Table(
    "signing_keys",
    metadata,
    # Signs what the service itself hands out where the site gives it no keys of its own.
    sa.Column("key_id", sa.Text, primary_key=True),
    sa.Column("key", sa.LargeBinary, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
)
