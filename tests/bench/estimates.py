"""One estimate, and a hundred thousand of one shape."""

from dataclasses import replace
from typing import Any

import numpy as np

from tests.bench.harness import Comparison, Timing, timing
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
NEW_JOBS_OF_A_KIND = 1500
MANY = 100_000
MANY_SECONDS = 1.0
"""Budget of an array of ``MANY`` jobs of one shape."""
LOOP = 200
"""Jobs the scalar loop does; its time for ``MANY`` follows."""


PIPELINE: dict[str, Any] = {
    "hardware": {"devices": 16, "accelerator": "a100-sxm4-80gb"},
    "parallelism": {"pipeline_parallel_size": 4, "tensor_parallel_size": 2},
    "sharding": {"implementation": "megatron"},
}


def _full(name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
    """Return what full training of a model by name changes in the bench's job."""
    return {"model": {"name": name}, "method": "full", "precision": "bf16-mixed", **fields}


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


KINDS: dict[str, dict[str, Any]] = {
    "LoRA, Llama 3.1 8B": {},
    "alternating layers, Gemma 2 9B": _full("google/gemma-2-9b"),
    "alternating layers, Gemma 3 27B": _full("google/gemma-3-27b-it"),
    "alternating layers, gpt-oss 120B": _full("openai/gpt-oss-120b"),
    "mixers and experts, Qwen3-Next 80B": _full("Qwen/Qwen3-Next-80B-A3B-Instruct"),
    "mixers and experts, Jamba": _full("ai21labs/Jamba-v0.1"),
    "experts, Mixtral 8x7B": _full("mistralai/Mixtral-8x7B-v0.1"),
    "experts, DeepSeek V3": _full("deepseek-ai/DeepSeek-V3"),
    "pipeline, Llama 3.1 8B": _full("meta-llama/Llama-3.1-8B", **PIPELINE),
    "pipeline, Gemma 2 9B": _full("google/gemma-2-9b", **PIPELINE),
}
"""What makes an ordinary job slow: layers of several kinds, and a second stage."""


def kinds_of_estimates() -> Comparison:
    """Compare ordinary jobs of the slowest kinds with the bench's own; every repeat is a new job."""
    catalogs = load_catalogs()
    return Comparison(
        title="One estimate of a job not seen before, by what makes it slow",
        unit="job",
        timings=[_kind(name, fields, catalogs) for name, fields in KINDS.items()],
    )


def _kind(name: str, fields: dict[str, Any], catalogs: Catalogs) -> Timing:
    jobs = [_resolved(catalogs, repeat, **fields) for repeat in range(NEW_JOBS_OF_A_KIND)]
    return timing(
        name,
        lambda repeat: estimate_memory(jobs[repeat % NEW_JOBS_OF_A_KIND]),
        budget_seconds=ONE_SECONDS,
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


def _resolved(
    catalogs: Catalogs,
    repeat: int,
    **fields: Any,  # noqa: ANN401 whatever JSON holds
) -> TrainingJob:
    job = a_job(sequence_length=1024 + repeat, **fields)
    description = JobIn.model_validate(job).to_domain()
    return resolve(description, models=catalogs.models, accelerators=catalogs.accelerators).job


def _answer(catalogs: Catalogs, repeat: int) -> str:
    job = a_job(sequence_length=1024 + repeat)
    request = EstimateRequest.model_validate({"job": job})
    return answer_request(request, catalogs).model_dump_json()
