"""One estimate, and a hundred thousand of one shape."""

from dataclasses import replace

import numpy as np

from tests.bench.harness import Comparison, timing
from tests.factories import a_job
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.estimate import estimate_memory, peak_bytes
from vramgate.costmodel.job import TrainingJob
from vramgate.jobs.resolve import resolve
from vramgate.wire.estimates import EstimateRequest
from vramgate.wire.job import JobIn
from vramgate.workflows.estimate_job import answer_request
from vramgate.workflows.load_catalogs import load_catalogs

ONE_SECONDS = 1e-3
"""Budget of one estimate in process, of a job no cache has seen."""
NEW_JOBS = 3000
MANY = 100_000
MANY_SECONDS = 1.0
"""Budget of an array of ``MANY`` jobs of one shape."""
LOOP = 200
"""Jobs the scalar loop does; its time for ``MANY`` follows."""


def one_estimate() -> Comparison:
    """Compare the cost model alone with all of what an answer takes; every repeat is a new job."""
    catalogs = load_catalogs()
    jobs = [_resolved(catalogs, repeat) for repeat in range(NEW_JOBS)]
    return Comparison(
        title="One estimate of a job not seen before: LoRA on Llama-3.1-8B",
        unit="job",
        timings=[
            timing(
                "estimate_memory",
                lambda repeat: estimate_memory(jobs[repeat % NEW_JOBS]),
                budget_seconds=ONE_SECONDS,
            ),
            timing("resolve", lambda repeat: _resolved(catalogs, repeat)),
            timing("request to answer", lambda repeat: _answer(catalogs, repeat)),
        ],
    )


def many_estimates() -> Comparison:
    """Compare a loop over jobs with one call for arrays of them."""
    job = _resolved(load_catalogs(), 0)
    lengths = np.arange(1, MANY + 1, dtype=np.int64) % 4096 + 1
    batches = np.arange(1, MANY + 1, dtype=np.int64) // 4096 + 2

    def loop(repeat: int) -> None:
        for index in range(LOOP):
            at = (repeat * LOOP + index) % MANY
            one = replace(job, micro_batch_size=int(batches[at]), sequence_length=int(lengths[at]))
            peak_bytes(one)

    def array(_repeat: int) -> None:
        peak_bytes(replace(job, micro_batch_size=batches, sequence_length=lengths))

    return Comparison(
        title=f"{MANY:,} jobs of one shape, batch and length varied",
        unit="job",
        timings=[
            timing("scalar loop", loop, units=LOOP),
            timing("one array", array, units=MANY, budget_seconds=MANY_SECONDS / MANY),
        ],
    )


def _resolved(catalogs: Catalogs, repeat: int) -> TrainingJob:
    description = JobIn.model_validate(a_job(sequence_length=1024 + repeat)).to_domain()
    return resolve(description, models=catalogs.models, accelerators=catalogs.accelerators).job


def _answer(catalogs: Catalogs, repeat: int) -> str:
    job = a_job(sequence_length=1024 + repeat)
    request = EstimateRequest.model_validate({"job": job})
    return answer_request(request, catalogs).model_dump_json()
