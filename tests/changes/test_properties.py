"""Laws of what is offered, over jobs that do not fit."""

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.changes.changing import Asked, Json, changes_of, jobs_too_large
from tests.strategies import jobs
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.changes.batch import MOST_ACCUMULATION
from vramgate.changes.change import ChangeKind, FittingChange
from vramgate.changes.fields import assigned, differences
from vramgate.changes.hardware import MOST_DEVICES
from vramgate.changes.trials import MOST_ESTIMATES
from vramgate.costmodel.estimate import estimate_memory
from vramgate.jobs.resolve import resolve
from vramgate.wire.job import JobIn, JobOut
from vramgate.wire.numbers import MAX_DEVICES, MAX_STEPS

ORDER = list(ChangeKind)
slow = settings(
    max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def sent_again(change: FittingChange) -> int:
    """Return what the changed job requires after a way over the wire."""
    text = JobOut.from_domain(change.description).model_dump_json()
    description = JobIn.model_validate_json(text).to_domain()
    resolved = resolve(description, models=builtin_models(), accelerators=builtin_accelerators())
    return int(estimate_memory(resolved.job).peak.required_bytes)


def check_each(changes: tuple[FittingChange, ...], risk: float) -> None:
    """Check what holds of every change."""
    for change in changes:
        assert change.check.oom_probability is not None
        assert change.check.oom_probability <= risk
        assert sent_again(change) == int(change.memory.peak.required_bytes)
        assert change.fields
        assert change.text.startswith("Set ")
        assert change.text.endswith(".")
        assert change.cost
        assert change.slowdown is None or 1 <= change.slowdown <= 1.5


@slow
@given(jobs_too_large())
def test_every_change_fits_and_can_be_sent_again(job: Json) -> None:
    check_each(changes_of(job, risk=0.01), 0.01)


@slow
@given(jobs(), st.sampled_from([0.001, 0.01, 0.2]))
def test_jobs_of_strangers_get_changes_that_fit_or_none(job: Json, risk: float) -> None:
    check_each(changes_of(job, risk=risk, most=3), risk)


@slow
@given(jobs_too_large())
def test_changes_come_in_order_and_each_kind_once(job: Json) -> None:
    """What a change asks for most decides its place."""
    changes = changes_of(job)
    places = [max(map(ORDER.index, change.kinds)) for change in changes]
    assert places == sorted(set(places))
    for change in changes:
        assert list(change.kinds) == sorted(set(change.kinds), key=ORDER.index)


@slow
@given(jobs_too_large())
def test_a_step_sees_as_many_rows_as_before(job: Json) -> None:
    """Unless devices were added that the steps could not be divided by, which the cost says."""
    before = job["micro_batch_size"] * job["gradient_accumulation_steps"]
    for change in changes_of(job):
        rows, steps = (
            change.description.micro_batch_size,
            change.description.gradient_accumulation_steps,
        )
        assert rows is not None
        assert steps is not None
        assert change.description.hardware.devices is not None
        factor = change.description.hardware.devices // job["hardware"]["devices"]
        grown = f"a step sees {factor} times as many rows" in change.cost
        assert rows * steps * factor == before * (factor if grown else 1)


@slow
@given(jobs_too_large())
def test_fields_say_all_that_differs(job: Json) -> None:
    described = JobIn.model_validate(job).to_domain()
    before = resolve(
        described, models=builtin_models(), accelerators=builtin_accelerators()
    ).description
    for change in changes_of(job):
        sets = [(one.field, _value(change, one.field)) for one in change.fields]
        assert assigned(before, sets) == change.description
        assert differences(before, change.description) == change.fields


def _value(change: FittingChange, path: str) -> object:
    part: object = change.description
    for name in path.split("."):
        part = getattr(part, name)
    return part


@slow
@given(jobs_too_large(), st.sampled_from([(0.001, 0.01), (0.01, 0.1), (0.1, 0.5)]))
def test_less_risk_brings_no_kind_that_more_risk_does_not(
    job: Json, risks: tuple[float, float]
) -> None:
    low, high = (changes_of(job, risk=risk) for risk in risks)
    assume(high)
    careful = {change.kinds for change in low if len(change.kinds) == 1}
    assert careful <= {change.kinds for change in high}


@slow
@given(jobs_too_large())
def test_estimates_are_bounded(job: Json) -> None:
    asked = Asked()
    changes_of(job, may_go_on=asked)
    assert 1 <= asked.times <= MOST_ESTIMATES


def test_bounds_are_those_of_the_interface() -> None:
    assert (MOST_ACCUMULATION, MOST_DEVICES) == (MAX_STEPS, MAX_DEVICES)
