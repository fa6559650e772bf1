"""Margins as distributions: exceedance and quantile undo each other, and the folk rule's known numbers."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vramgate.calibration.distribution import FOLK, Distribution, Tabled, Wider

risks = st.floats(1e-9, 1 - 1e-9)
logs = st.floats(-1.0, 1.0)


@st.composite
def tables(draw: st.DrawFn) -> Tabled:
    """Draw a table with points apart, as reports make them."""
    steps = draw(st.lists(st.floats(1e-3, 0.2), min_size=2, max_size=12))
    start = draw(st.floats(-0.5, 0.0))
    falls = draw(st.lists(st.floats(0.05, 1.0), min_size=len(steps), max_size=len(steps)))
    points, exceedances, left = [start], [0.999], 0.999 - 0.001
    for step, fall in zip(steps, falls, strict=True):
        points.append(points[-1] + step)
        exceedances.append(exceedances[-1] - left * fall / (sum(falls) + 0.05))
    return Tabled(points=tuple(points), exceedances=tuple(exceedances))


distributions = st.one_of(
    st.just(FOLK),
    tables(),
    st.builds(Wider, tables(), st.just(FOLK)),
    st.builds(Wider, tables(), tables()),
)


@given(distributions, risks)
def test_a_quantile_is_exceeded_with_its_risk(distribution: Distribution, risk: float) -> None:
    assert distribution.exceedance(distribution.quantile(risk)) == pytest.approx(risk, rel=1e-4)


@given(st.one_of(st.just(FOLK), tables()), logs)
def test_an_exceedance_has_its_quantile(distribution: Distribution, log: float) -> None:
    exceedance = distribution.exceedance(log)
    # Nearer to 0 and 1 floating point has no room for the way back.
    assume(1e-9 < exceedance < 1 - 1e-9)
    assert distribution.quantile(exceedance) == pytest.approx(log, abs=1e-5)


@given(distributions, logs, logs)
def test_more_room_never_raises_the_exceedance(
    distribution: Distribution, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    assert 0 <= distribution.exceedance(more) <= distribution.exceedance(less) <= 1


@given(distributions, risks, risks)
def test_a_tighter_risk_never_lowers_the_quantile(
    distribution: Distribution, one: float, other: float
) -> None:
    tight, loose = sorted((one, other))
    assert distribution.quantile(tight) >= distribution.quantile(loose)


@pytest.mark.parametrize(
    ("room", "probability"),
    [  # standard normal tail at ln(room) / (ln 1.2 / 2.326348): tables
        (1.2, 0.01),
        (1.0, 0.5),
        (1.1, 0.11196),
        (0.9, 0.91059),
        (1.44, 1.6365e-6),
    ],
)
def test_the_folk_rule_is_lognormal_with_a_fifth_at_one_percent(
    room: float, probability: float
) -> None:
    assert FOLK.exceedance(math.log(room)) == pytest.approx(probability, rel=2e-3)


def test_a_table_is_read_between_its_points() -> None:
    table = Tabled(points=(-0.1, 0.0, 0.1), exceedances=(0.9, 0.5, 0.1))
    assert table.exceedance(0.05) == pytest.approx(0.3)
    assert table.quantile(0.3) == pytest.approx(0.05)
    # A tenth of what the last point is exceeded by: ln 10 of the folk rule's spread farther out.
    spread = math.log(1.2) / 2.3263478740
    assert table.quantile(0.01) == pytest.approx(0.1 + spread * math.log(10))


def test_the_wider_is_the_more_careful_one() -> None:
    table = Tabled(points=(-0.1, 0.1), exceedances=(0.9, 0.1))
    both = Wider(table, FOLK)
    assert both.quantile(0.01) == max(table.quantile(0.01), FOLK.quantile(0.01))
    assert both.exceedance(0.05) == max(table.exceedance(0.05), FOLK.exceedance(0.05))
