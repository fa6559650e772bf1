"""What becomes of a report, and which are doubted."""

from dataclasses import replace

import pytest

from vramgate.calibration.plausibility import (
    ImpossibleMeasurementError,
    check_possible,
    estimate_doubts,
    rank_doubts,
)
from vramgate.calibration.report import (
    EstimatedBytes,
    KeptReport,
    MeasuredBytes,
    Outcome,
    Receipt,
    Report,
    ReportKey,
    Standing,
    conflict_of,
    receipt_of,
)

GIB = 2**30
ESTIMATED = EstimatedBytes(
    allocated_bytes=20 * GIB,
    required_bytes=22 * GIB,
    reserved_bytes=24 * GIB,
    device_bytes=25 * GIB,
    model_version="2026.11",
)
REPORT = Report(
    key=ReportKey(tenant="t", run_id="r", rank=0),
    submitter="ci",
    outcome=Outcome.COMPLETED,
    measured=MeasuredBytes(max_allocated_bytes=20 * GIB, max_reserved_bytes=24 * GIB),
    estimated=ESTIMATED,
    ranks_hold_equal_shares=True,
    doubts=(),
    measured_at=None,
    job_digest="job",
    job_document="{}",
    decision_id=None,
    subject_digest="job",
    model=None,
    accelerator=None,
    accelerator_total_bytes=None,
    step_seconds=None,
    tokens_per_second=None,
    digest="new",
    document="{}",
)
KEPT = KeptReport(
    report_id="1",
    digest="old",
    subject_digest="job",
    standing=Standing.ACCEPTED,
    outcome=Outcome.RUNNING,
    measured=MeasuredBytes(max_allocated_bytes=19 * GIB),
)

# DESIGN.md section 5, sentence by sentence: the report that comes, the one that is kept.
RULE = [
    (REPORT, None, Receipt.ACCEPTED),
    (REPORT, KEPT, Receipt.RAISED),
    (replace(REPORT, outcome=Outcome.RUNNING), KEPT, Receipt.RAISED),
    (replace(REPORT, digest="old"), KEPT, Receipt.DUPLICATE),
    (replace(REPORT, digest="old"), replace(KEPT, outcome=Outcome.OOM), Receipt.DUPLICATE),
    (REPORT, replace(KEPT, outcome=Outcome.COMPLETED), Receipt.CONFLICT),
    (REPORT, replace(KEPT, subject_digest="other"), Receipt.CONFLICT),
    (REPORT, replace(KEPT, measured=MeasuredBytes(max_allocated_bytes=21 * GIB)), Receipt.CONFLICT),
    (REPORT, replace(KEPT, measured=MeasuredBytes(device_used_bytes=GIB)), Receipt.CONFLICT),
    (REPORT, replace(KEPT, measured=REPORT.measured), Receipt.RAISED),
]


@pytest.mark.parametrize(("new", "kept", "receipt"), RULE)
def test_the_rule_of_a_key(new: Report, kept: KeptReport | None, receipt: Receipt) -> None:
    assert receipt_of(new, kept, is_doubted=False) is receipt
    if receipt is Receipt.CONFLICT and kept is not None:
        assert "Nothing was changed" in conflict_of(new, kept).message


def test_a_doubted_report_of_a_free_key_is_quarantined() -> None:
    assert receipt_of(REPORT, None, is_doubted=True) is Receipt.QUARANTINED


@pytest.mark.parametrize(
    ("measured", "codes"),
    [
        (MeasuredBytes(max_allocated_bytes=80 * GIB), []),
        (MeasuredBytes(max_allocated_bytes=80 * GIB + 1), ["above_the_card"]),
        (
            MeasuredBytes(max_allocated_bytes=81 * GIB, max_reserved_bytes=81 * GIB),
            ["above_the_card", "above_the_card"],
        ),
        (MeasuredBytes(max_allocated_bytes=3, max_reserved_bytes=2), ["above_reserved"]),
        (MeasuredBytes(device_used_bytes=2**49), ["above_the_card"]),
    ],
)
def test_impossible_figures_are_refused(measured: MeasuredBytes, codes: list[str]) -> None:
    if not codes:
        check_possible(measured, 80 * GIB)
        return
    with pytest.raises(ImpossibleMeasurementError) as refusal:
        check_possible(measured, 80 * GIB)
    assert [one.code for one in refusal.value.fields] == codes


def test_without_a_card_only_the_figures_are_held_against_each_other() -> None:
    check_possible(MeasuredBytes(device_used_bytes=2**49), None)


@pytest.mark.parametrize(
    ("allocated", "outcome", "doubted"),
    [
        (60 * GIB, Outcome.COMPLETED, False),
        (60 * GIB + 1, Outcome.COMPLETED, True),
        (60 * GIB + 1, Outcome.RUNNING, True),
        (6 * GIB, Outcome.COMPLETED, True),
        (7 * GIB, Outcome.COMPLETED, False),
        # May not have met its peak.
        (6 * GIB, Outcome.RUNNING, False),
        (6 * GIB, Outcome.OOM, False),
        (6 * GIB, Outcome.KILLED, False),
    ],
)
def test_three_times_off_is_doubted(allocated: int, outcome: Outcome, doubted: bool) -> None:
    measured = MeasuredBytes(max_allocated_bytes=allocated)
    assert bool(list(estimate_doubts(measured, ESTIMATED, outcome))) is doubted


@pytest.mark.parametrize(
    ("allocated", "others", "doubted"),
    [
        (40 * GIB, (20 * GIB, 21 * GIB), False),
        (43 * GIB, (20 * GIB, 21 * GIB), True),
        (10 * GIB, (20 * GIB, 21 * GIB), False),
        (9 * GIB, (20 * GIB, 21 * GIB), True),
        (9 * GIB, None, False),
        (None, (20 * GIB, 21 * GIB), False),
    ],
)
def test_ranks_half_or_double_the_others_are_doubted(
    allocated: int | None, others: tuple[int, int] | None, doubted: bool
) -> None:
    assert bool(list(rank_doubts(allocated, others, "r"))) is doubted
