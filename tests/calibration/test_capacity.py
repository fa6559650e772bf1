"""Whether a job fits its card under the folk margin: median at the estimate, 99 % point at 1.2 times it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.calibration.capacity import CapacityCheck, check_capacity
from vramgate.costmodel.job import Device, Hardware

risks = st.floats(1e-12, 1 - 1e-12)
sizes = st.integers(1, 2**50)


def folk_margin(required: int, usable: int | None, risk: float) -> CapacityCheck:
    device = None if usable is None else Device(name="card", usable_bytes=usable)
    return check_capacity(required, Hardware(device=device), risk)


def test_one_percent_is_the_folk_rules_twenty_percent() -> None:
    assert folk_margin(10**10, None, 0.01).upper_bytes == 12 * 10**9


def test_the_median_is_the_estimate() -> None:
    margin = folk_margin(10**10, 10**10, 0.5)

    assert margin.upper_bytes == 10**10
    assert margin.oom_probability == 0.5


@pytest.mark.parametrize(
    ("room", "probability"),
    [  # standard normal tail at ln(room) / (ln 1.2 / 2.326348): tables
        (1.2, 0.01),
        (1.1, 0.11196),
        (0.9, 0.91059),
        (1.44, 1.6365e-6),
        (0.5, 1.0),
    ],
)
def test_probabilities_follow_the_lognormal(room: float, probability: float) -> None:
    margin = folk_margin(10**12, int(room * 10**12), 0.01)

    assert margin.oom_probability == pytest.approx(probability, rel=2e-3, abs=1e-9)


@given(sizes, sizes, risks, risks)
def test_a_tighter_risk_never_lowers_the_bound(
    required: int, usable: int, one: float, other: float
) -> None:
    tight, loose = sorted((one, other))

    assert (
        folk_margin(required, usable, tight).upper_bytes
        >= folk_margin(required, usable, loose).upper_bytes
    )


@given(sizes, sizes, sizes)
def test_more_memory_never_raises_the_probability(required: int, one: int, other: int) -> None:
    small, large = sorted((one, other))
    less, more = (folk_margin(required, usable, 0.01).oom_probability for usable in (small, large))

    assert less is not None
    assert more is not None
    assert 0 <= more <= less <= 1


@given(sizes, risks)
def test_the_bound_is_exceeded_with_the_asked_probability(required: int, risk: float) -> None:
    bound = folk_margin(required, None, risk).upper_bytes
    probability = folk_margin(required, bound, risk).oom_probability

    assert probability is not None
    assert probability <= risk + 1e-9


@pytest.mark.parametrize("risk", [5e-324, 1e-300, 1 - 2**-53])
def test_extreme_risks_are_answered(risk: float) -> None:
    assert math.isfinite(folk_margin(2**50, 2**50, risk).upper_bytes)


def test_nothing_required_always_fits() -> None:
    assert folk_margin(0, 10, 0.01).oom_probability == 0.0
    assert folk_margin(10, 0, 0.01).oom_probability == 1.0


def _hardware(usable: int, occupied: int) -> Hardware:
    return Hardware(device=Device(name="card", usable_bytes=usable), occupied_bytes=occupied)


def test_what_others_hold_is_not_there() -> None:
    check = check_capacity(700, _hardware(1_000, 400), 0.01)

    assert (check.usable_bytes, check.fits, check.headroom_bytes) == (600, False, -100)


def test_required_bytes_that_are_just_there_fit() -> None:
    assert check_capacity(600, _hardware(1_000, 400), 0.01).fits


def test_no_card_no_verdict() -> None:
    check = check_capacity(600, Hardware(device=None), 0.01)

    assert (check.fits, check.headroom_bytes, check.oom_probability) == (None, None, None)
    assert check.upper_bytes == 720
