"""The cost of factors: against hand arithmetic, and its gradient against finite differences."""

import math

import numpy as np
import pytest
from scipy.optimize import check_grad

from tests.calibration.cluster import all_jobs, reports
from vramgate.calibration.arrays import Numbers
from vramgate.calibration.calibration import Effect
from vramgate.calibration.evidence import Configuration, Layer, Observation, Run, aggregated
from vramgate.calibration.fit import fit_effects
from vramgate.calibration.labels import Label
from vramgate.calibration.objective import Scales, curvature, objective
from vramgate.calibration.problem import Problem, problem_of
from vramgate.costmodel.terms import MemoryTerms, PhaseTerms, Term, UpperTerms

LABELS = dict.fromkeys(Label, "any")


def a_configuration(key: str = "one", *, activations: int = 500, exact: int = 500) -> Configuration:
    """Return a job of which half are activations, and nothing lies above allocated."""
    upper = UpperTerms(
        fragmentation=0.0,
        workspaces=0,
        context=0,
        communicators=0,
        cache=0,
        varying_cache=0,
        side_pools=0,
        usable=None,
    )
    phase = PhaseTerms(exact=exact, terms={Term.ACTIVATIONS: activations})
    return Configuration(
        key=key, labels=LABELS, terms=MemoryTerms(phases=(phase,), upper=upper), group=key
    )


def an_observation(**fields: object) -> Observation:
    """Return one run of ``a_configuration`` that measured what the model says."""
    given = {
        "configuration": a_configuration(),
        "tenant": "t",
        "measured": {Layer.ALLOCATED: 1000.0},
        "runs": 1,
        "required_above": None,
        "required_within": None,
        "ran_out": int("required_above" in fields),
        "lived": int("required_within" in fields),
        **fields,
    }
    return Observation(**given)  # type: ignore[arg-type]


def _scales(problem: Problem, *, effects: float = 0.03, errors: float = 0.05) -> Scales:
    return Scales(
        effects=np.full(len(problem.keys), effects), errors=dict.fromkeys(problem.readings, errors)
    )


def test_a_reading_that_agrees_costs_nothing() -> None:
    problem = problem_of([an_observation()])
    value, slope = objective(problem, _scales(problem), np.zeros(len(problem.keys)))
    assert value == 0
    assert slope == pytest.approx(0)


def test_a_reading_costs_what_students_t_says() -> None:
    # 10 % above at a spread of 5 %: z = ln 1.1 / 0.05 = 1.9062; 3/2 · ln(1 + z² / 2) = 1.5534.
    problem = problem_of([an_observation(measured={Layer.ALLOCATED: 1100.0})])
    value, slope = objective(problem, _scales(problem), np.zeros(len(problem.keys)))
    assert value == pytest.approx(1.5534, abs=1e-4)
    # d/dθ = -3 z / (2 + z²) / σ · ½, as activations are half of the peak: -10.151 for each of the effects.
    activations = [i for i, key in enumerate(problem.keys) if key.term is Term.ACTIVATIONS]
    assert slope[activations] == pytest.approx(-10.151, abs=1e-3)


def test_an_effect_costs_its_square() -> None:
    # One effect at two of its spreads: 2² / 2; the reading follows it.
    peak = 500 + 500 * math.exp(0.06)
    problem = problem_of([an_observation(measured={Layer.ALLOCATED: peak})])
    at = np.zeros(len(problem.keys))
    at[0] = 0.06
    assert problem.keys[0].term is Term.ACTIVATIONS
    assert objective(problem, _scales(problem), at)[0] == pytest.approx(2.0)


@pytest.mark.parametrize("side", ["required_above", "required_within"])
def test_a_bound_costs_the_probability_of_its_side(side: str) -> None:
    # Required is 1000 and the bound 1050: z = ±ln 1.05 / 0.05 = ±0.97580. Student's distribution with two
    # degrees of freedom is 1/2 + z / (2 √(2 + z²)): 0.78397 within, 0.21603 above.
    bound = an_observation(measured={}, **{side: 1050})
    problem = problem_of([bound])
    value, slope = objective(problem, _scales(problem), np.zeros(len(problem.keys)))
    chance = {"required_within": 0.78397, "required_above": 0.21603}[side]
    assert value == pytest.approx(-math.log(chance), abs=1e-4)
    # Who ran out at 1050 needs more: less cost with larger activations.
    assert bool(slope[0] < 0) is (side == "required_above")


def test_repeated_runs_count_little_more_than_one() -> None:
    # 1 000 runs that share half of their error: 1000 / (1 + 999 / 2) = 1.998.
    once = problem_of([an_observation(measured={Layer.ALLOCATED: 1100.0})])
    often = problem_of([an_observation(measured={Layer.ALLOCATED: 1100.0}, runs=1_000)])
    at = np.zeros(len(once.keys))
    values = [objective(one, _scales(one), at)[0] for one in (once, often)]
    assert values[1] / values[0] == pytest.approx(1.998, abs=1e-3)


def test_no_tenant_weighs_more_than_all_others() -> None:
    many = [an_observation(configuration=a_configuration(f"{i}"), tenant="big") for i in range(9)]
    few = [an_observation(configuration=a_configuration(f"x{i}"), tenant="s") for i in range(3)]
    weights = problem_of(many + few).readings[Layer.ALLOCATED].weights
    assert weights[:9].sum() == pytest.approx(3)
    assert weights[9:] == pytest.approx(1)


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_is_that_of_finite_differences(seed: int) -> None:
    problem = problem_of(aggregated(reports(60, np.random.default_rng(seed))))
    assert problem.bounds.rows.size
    assert len(problem.tenants) == 3
    random = np.random.default_rng(seed)
    scales = Scales(
        effects=random.uniform(0.02, 0.3, len(problem.keys)),
        errors={layer: float(random.uniform(0.01, 0.1)) for layer in Layer},
    )
    size = len(problem.keys) + len(problem.tenants)
    at = random.normal(0, 0.05, size)
    regime = problem.arrays.regime(problem.factors(at[: len(problem.keys)]))

    def value(x: Numbers) -> float:
        return objective(problem, scales, x, regime)[0]

    def gradient(x: Numbers) -> Numbers:
        return objective(problem, scales, x, regime)[1]

    off = check_grad(value, gradient, at, epsilon=1e-7)
    slope = objective(problem, scales, at)[1]
    assert off <= 1e-5 * np.linalg.norm(slope)


def test_the_curvature_is_that_of_the_objective_where_readings_agree() -> None:
    # Where residuals are none, the Gauss-Newton Hessian is the Hessian itself.
    problem = problem_of([an_observation(), an_observation(tenant="u")])
    scales, size = _scales(problem), len(problem.keys) + len(problem.tenants)
    step, rows = 1e-5, []
    for place in range(size):
        to = np.zeros(size)
        to[place] = step
        slopes = [objective(problem, scales, sign * to)[1] for sign in (1, -1)]
        rows.append((slopes[0] - slopes[1]) / (2 * step))
    found = curvature(problem, scales, np.zeros(size))
    assert found == pytest.approx(np.array(rows), rel=1e-4, abs=1e-3)


def test_one_tenant_has_nobody_to_differ_from() -> None:
    # All readings a twentieth above: with one tenant that is the activations' doing alone.
    def runs(tenants: int) -> list[Run]:
        return [
            Run(
                configuration=a_configuration(f"{i}"),
                tenant=f"t{i % tenants}",
                measured={Layer.ALLOCATED: 1050},
            )
            for i in range(200)
        ]

    fitted = fit_effects(aggregated(runs(1)))
    assert fitted.offsets == {}
    assert _activations(fitted.effects) == pytest.approx(1.1, rel=2e-3)


def _activations(effects: tuple[Effect, ...]) -> float:
    return math.exp(sum(one.log for one in effects if one.key.term is Term.ACTIVATIONS))


def test_every_simulated_job_is_of_use() -> None:
    assert len(all_jobs()) > 2_000
