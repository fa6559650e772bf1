"""Every published job, measured or traced, is in shape and resolves."""

import json
from importlib.resources import files
from typing import Any

import pytest

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.jobs.resolve import resolve
from vramgate.wire.job import JobIn


def _rows(name: str) -> list[dict[str, Any]]:
    text = files("vramgate.accuracy").joinpath(name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("name", "count"), [("oracle_rows.jsonl", 2586), ("measured_cases.jsonl", 756)]
)
def test_every_row_resolves_and_its_normalised_job_resolves_alike(name: str, count: int) -> None:
    models, accelerators = builtin_models(), builtin_accelerators()
    rows = _rows(name)
    assert len(rows) == count

    for row in rows:
        said = JobIn.model_validate(row["job"]).to_domain()
        first = resolve(said, models=models, accelerators=accelerators)
        second = resolve(first.description, models=models, accelerators=accelerators)
        assert second.job == first.job, row["id"]
