"""Published launches become the jobs they are, field by field."""

import pytest

from tests.launch.goldens import Golden, flat, goldens
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.jobs.resolve import resolve
from vramgate.launch.launch import Launch
from vramgate.wire.job import JobIn, JobOut
from vramgate.workflows.load_catalogs import load_catalogs
from vramgate.workflows.read_launch import completed, launched_job

ALL = list(goldens())
RESOLVED = [golden for golden in ALL if golden.resolved]


@pytest.mark.parametrize("golden", ALL, ids=lambda golden: golden.name)
def test_a_launch_is_the_job_it_says(golden: Golden) -> None:
    parsed = golden.parsed()

    assert flat(parsed.job) == dict(golden.job)
    assert {one.field for one in parsed.unknown} == set(golden.unknown)
    assert {one.rule for one in parsed.problems} == set(golden.problems)


@pytest.mark.parametrize("golden", ALL, ids=lambda golden: golden.name)
def test_every_field_has_its_place(golden: Golden) -> None:
    parsed = golden.parsed()

    assert set(parsed.provenance) == set(flat(parsed.job))
    assert all(found.source for found in parsed.provenance.values())
    for field, place in golden.provenance.items():
        assert parsed.provenance[field].source == place


@pytest.mark.parametrize("golden", RESOLVED, ids=lambda golden: golden.name)
def test_defaults_are_those_of_the_version(golden: Golden) -> None:
    description = JobIn.model_validate(golden.parsed().job).to_domain()
    result = resolve(description, models=builtin_models(), accelerators=builtin_accelerators())
    job = flat(JobOut.from_domain(result.description).model_dump(mode="json"))

    assert {field: job[field] for field in golden.resolved} == dict(golden.resolved)


@pytest.mark.parametrize(
    "golden", [golden for golden in ALL if not golden.problems], ids=lambda golden: golden.name
)
def test_a_launch_without_problems_is_a_job_that_runs(golden: Golden) -> None:
    launched, _ = completed(launched_job(Launch(**golden.launch)), load_catalogs())
    assert [one.rule for one in launched.launch.problems] == list(golden.job_problems)
