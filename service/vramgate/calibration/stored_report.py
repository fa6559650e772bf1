"""StoredReport: a report as it is kept, with everything its readers are shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vramgate.calibration.report import Doubt, EstimatedBytes, MeasuredBytes, Outcome, Standing
from vramgate.calibration.residuals import Residual, residuals_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """One kept report of one rank of one run."""

    report_id: str
    run_id: str
    rank: int
    status: Standing
    reasons: tuple[Doubt, ...]
    """Why it was doubted; they stay when it is released."""
    received_at: datetime
    """When it last changed: came in, was raised, or was released."""
    position: int
    """Its place among all changes, which become visible in this order."""
    first_received_at: datetime
    measured_at: datetime | None
    submitter: str
    outcome: Outcome
    model: str | None
    job_digest: str | None
    accelerator: str | None
    accelerator_total_bytes: int | None
    measured: MeasuredBytes
    estimate: EstimatedBytes | None
    step_seconds: float | None
    tokens_per_second: float | None
    labels: Mapping[str, str]

    @property
    def residuals(self) -> dict[str, Residual]:
        """Return the residual of every layer that was measured and estimated."""
        return residuals_of(self.measured, self.estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeReport(StoredReport):
    """A report with what was sent."""

    document: Mapping[str, Any]
    """As it was sent; of its job only the digest."""
    job: Mapping[str, Any] | None
