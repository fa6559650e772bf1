"""What comes in wrong: it is refused, left out or outweighed, and said."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.calibration.cluster import HONEST, NOISE, all_jobs, reports, runs_of
from vramgate.calibration.arrays import TermArrays
from vramgate.calibration.calibrate import (
    LEAST_CONFIGURATIONS,
    TooFewReportsError,
    calibrate,
)
from vramgate.calibration.calibration import FOLK_MARGIN, Calibration
from vramgate.calibration.evidence import Layer, Run, aggregated
from vramgate.calibration.fit import fit_effects
from vramgate.calibration.problem import weights_of
from vramgate.costmodel.terms import Term
from vramgate.units import MIB


def _honest(count: int = 200, seed: int = 3) -> list[Run]:
    return reports(count, np.random.default_rng(seed), liar=False, gross=0.0)


def _lived(count: int, seed: int = 3) -> list[Run]:
    """Return runs of different jobs that all reported a peak."""
    random, pool = np.random.default_rng(seed), all_jobs()
    jobs = [pool[index] for index in random.permutation(len(pool))]
    lived = [one for one in runs_of(jobs, ["north"] * len(jobs), random) if one.measured]
    return lived[:count]


def _remarks(calibration: Calibration) -> dict[str, str]:
    return {one.code: one.message for one in calibration.remarks}


def _allocated(calibration: Calibration) -> NDArray[np.float64]:
    """Return what a calibration says of every job of the cluster."""
    pool = [one.configuration for one in all_jobs()]
    stated = [calibration.factors_for(one.labels) for one in pool]
    factors = {term: np.array([one.get(term, 1.0) for one in stated], dtype=float) for term in Term}
    return TermArrays(pool).layers(factors)[Layer.ALLOCATED].size


def _largest_move(one: Calibration, other: Calibration) -> float:
    """Return by what part the answer on any job differs."""
    return float(np.max(np.abs(_allocated(one) / _allocated(other) - 1)))


# ---------------------------------------------------------------- refused


def test_nothing_is_refused() -> None:
    with pytest.raises(TooFewReportsError) as caught:
        calibrate([], version="v")
    assert caught.value.message.startswith("0 runs measured 0 different configurations")


def test_one_report_is_refused() -> None:
    with pytest.raises(TooFewReportsError) as caught:
        calibrate(_lived(1), version="v")
    assert caught.value.data == {"configurations": 1, "least": 19}
    assert "needs 19 measured configurations" in caught.value.message
    assert caught.value.hint


def test_nineteen_configurations_are_enough_and_have_no_margin_yet() -> None:
    # Of 19 exchangeable residuals the largest is exceeded once in 20: the first promise of 5 %.
    assert LEAST_CONFIGURATIONS == 19
    with pytest.raises(TooFewReportsError):
        calibrate(_lived(18), version="v")
    calibration = calibrate(_lived(19), version="v")
    assert calibration.margins == ()
    assert calibration.margin_for(all_jobs()[0].configuration.labels) is FOLK_MARGIN
    assert "99" in _remarks(calibration)["no_margin"]


def test_one_configuration_a_thousand_times_is_one() -> None:
    (run,) = _lived(1)
    with pytest.raises(TooFewReportsError):
        calibrate([run] * 1_000, version="v")


def test_all_out_of_memory_is_refused() -> None:
    died = [replace(one, measured={}, required_above=10**9) for one in _lived(60)]
    with pytest.raises(TooFewReportsError) as caught:
        calibrate(died, version="v")
    assert "nobody measured a peak" in caught.value.message


# ---------------------------------------------------------------- left out, and said


def _as_mib(runs: Sequence[Run]) -> list[Run]:
    return [
        replace(one, measured={layer: size // MIB for layer, size in one.measured.items()})
        for one in runs
    ]


def test_mib_sent_as_bytes_by_one_tenant_change_nothing() -> None:
    honest = _honest()
    random, pool = np.random.default_rng(5), all_jobs()[:300]
    confused = _as_mib(runs_of(pool, ["confused"] * len(pool), random))
    # The outcomes stand: whatever its meters said, the run lived.
    kept = [replace(one, measured={}) for one in confused]
    found, without = (
        calibrate(honest + confused, version="v"),
        calibrate(honest + kept, version="v"),
    )
    assert _largest_move(found, without) == 0
    said = _remarks(found)["far_from_model"]
    assert "'confused'" in said
    assert "as if MiB had been sent as bytes" in said
    assert "far_from_model" not in _remarks(without)


def test_mib_sent_as_bytes_by_everybody_are_refused_with_the_reason() -> None:
    with pytest.raises(TooFewReportsError) as caught:
        calibrate(_as_mib(_honest()), version="v")
    assert "as if MiB had been sent as bytes" in caught.value.message


def test_a_wild_report_moves_nothing() -> None:
    runs = _honest()
    row = next(i for i, one in enumerate(runs) if one.measured)
    wild = replace(
        runs[row], measured={layer: 3 * size for layer, size in runs[row].measured.items()}
    )
    found = calibrate([*runs[:row], wild, *runs[row + 1 :]], version="v")
    # No job by more than an honest run scatters.
    assert _largest_move(found, calibrate(runs, version="v")) < NOISE


# ---------------------------------------------------------------- outweighed


def test_a_flood_of_one_configuration_weighs_two() -> None:
    honest = _honest()
    flood = [replace(_lived(1, seed=9)[0], tenant=HONEST[0])] * 10_000
    observations = aggregated(honest + flood)
    weights = weights_of([replace(one, tenant="one") for one in observations])
    flooded = max(range(len(observations)), key=lambda row: observations[row].runs)
    assert observations[flooded].runs == 10_000
    assert weights[flooded] < 2
    assert weights[flooded] / weights.sum() < 0.02
    calibration = calibrate(honest + flood, version="v")
    assert calibration.runs == 10_200
    assert _remarks(calibration)["repeated_runs"].startswith("10,000 runs of one configuration")
    assert _remarks(calibration)["repeated_runs"].endswith("count as 2.00.")
    assert _largest_move(calibration, calibrate(honest + flood[:1], version="v")) < NOISE


def test_a_tenant_that_reads_high_is_named() -> None:
    calibration = calibrate(reports(300, np.random.default_rng(7)), version="v")
    # ln 1.4 is 0.336.
    assert "'liar' lie +0.3" in _remarks(calibration)["tenant_apart"]


def test_one_tenant_alone_is_believed() -> None:
    runs = [replace(one, tenant="only") for one in _honest()]
    calibration = calibrate(runs, version="v")
    assert fit_effects(aggregated(runs)).offsets == {}
    assert "tenant_apart" not in _remarks(calibration)
    assert calibration.margins


def test_runs_that_measured_nothing_do_no_harm() -> None:
    runs = _lived(120)
    silent = [replace(one, measured={}, required_within=None) for one in _lived(60, seed=11)]
    assert calibrate(runs + silent, version="v").frameworks == {
        one.configuration.labels["framework"]  # type: ignore[index]
        for one in runs
        if Layer.ALLOCATED in one.measured
    }
