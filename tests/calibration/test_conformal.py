"""Split-conformal margins: the promise by simulation, and which residuals are taken for gross errors."""

import numpy as np
import pytest
from scipy.stats import beta
from scipy.stats import t as student

from vramgate.calibration import conformal
from vramgate.calibration.arrays import Numbers
from vramgate.calibration.distribution import Tabled


def _tabled(values: Numbers) -> Tabled:
    return conformal.tabled(values, np.ones_like(values), conformal.LEAST_SPREAD)


@pytest.mark.parametrize(("reports", "risk"), [(99, 0.01), (199, 0.01), (500, 0.01), (99, 0.05)])
def test_a_bound_is_exceeded_at_most_as_often_as_promised(reports: int, risk: float) -> None:
    # Whatever the distribution: here one with heavy tails. Its own exceedance is known exactly.
    random, calibrations, spread = np.random.default_rng(11), 200, 0.05
    chances = []
    for _ in range(calibrations):
        bound = _tabled(spread * random.standard_t(3, reports)).quantile(risk)
        chances.append(float(student.sf(bound / spread, 3)))
    # The k-th largest of n is exceeded by a share that is Beta(k, n + 1 - k), on average k / (n + 1) ≤ risk; the mean
    # of 200 such shares scatters by a fourteenth of their spread.
    k = int(risk * (reports + 1))
    scatter = float(beta.std(k, reports + 1 - k)) / np.sqrt(calibrations)
    assert np.mean(chances) <= k / (reports + 1) + 4 * scatter
    # And is not bought by bounds that are never exceeded: at least what one report less would promise.
    assert np.mean(chances) >= (k - 1) / (reports + 1) * 0.8
    assert np.max(chances) <= beta.ppf(1 - 1e-6, k, reports + 1 - k)


def test_fewer_than_99_reports_promise_no_percent() -> None:
    # Of 49 the largest is exceeded once in 50; 1 % lies beyond everything seen.
    values = np.random.default_rng(2).normal(0, 0.03, 49)
    assert _tabled(values).quantile(0.01) > values.max()


def test_gross_errors_are_set_aside() -> None:
    random = np.random.default_rng(3)
    values = np.concatenate([random.normal(0, 0.03, 980), np.log([0.5, 0.6, 1.6, 2.0] * 5)])
    weights = conformal.sound(values)
    assert weights[980:].max() < conformal.HALF
    assert weights[:980].sum() > 975
    # 1 % of N(0, 0.03) is exceeded at 0.0698.
    assert conformal.tabled(values, weights, 1e-3).quantile(0.01) == pytest.approx(0.07, abs=0.012)


def test_heavy_tails_are_not() -> None:
    # A tail that goes on without a gap is what reports show: it stays in the margin.
    values = 0.02 * np.random.default_rng(4).standard_t(2, 1_000)
    weights = conformal.sound(values)
    assert np.mean(weights < conformal.HALF) < 0.01
    kept = np.quantile(values, 0.98)
    assert conformal.tabled(values, weights, 1e-3).quantile(0.02) == pytest.approx(kept, rel=0.2)


def test_a_spread_widens_as_normal_spreads_add_up() -> None:
    values = np.random.default_rng(5).normal(0, 0.03, 4_000)
    wide = conformal.tabled(values, np.ones_like(values), 0.04)
    # √(0.03² + 0.04²) = 0.05; 5 % of it is exceeded at 1.645 · 0.05.
    assert wide.quantile(0.05) == pytest.approx(0.0822, abs=0.004)


def test_points_rise_and_exceedances_fall() -> None:
    table = _tabled(np.random.default_rng(6).normal(0, 0.03, 150))
    assert list(table.points) == sorted(table.points)
    assert list(table.exceedances) == sorted(table.exceedances, reverse=True)
    assert table.exceedances[-1] == pytest.approx(1 / 151, abs=1e-6)
