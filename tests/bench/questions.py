"""Questions as schedulers ask them: a job that was asked about before, and one that nobody knows."""

import json
from typing import Any

from tests.factories import a_job

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.2-3B",
    "mistralai/Mistral-7B-v0.1",
    "Qwen/Qwen2.5-7B",
    "Qwen/Qwen3-8B",
    "google/gemma-2-9b",
    "meta-llama/Llama-3.1-70B",
)
"""LoRA on one A100 of 80 GB: all but the last fit it."""
BATCHES = 4
SHORTEST, LENGTHS = 256, 3_841
DISTINCT = len(MODELS) * BATCHES * LENGTHS
"""Jobs that ``new_job`` tells apart."""


def _question(**fields: Any) -> bytes:  # noqa: ANN401 whatever JSON holds
    place = {"cluster": "hpc-1", "queue": "gpu", "submitter": "ada", "channel": "slurm"}
    return json.dumps({**place, **fields}).encode()


_SAME = _question(job=a_job())
_UNDER_AN_ID = _question(job=a_job(), external_id="EXTERNAL")
_NEW = _question(
    job=a_job(model={"name": "MODEL"}, micro_batch_size=987_654, sequence_length=123_456)
)


def same_bytes(_number: int) -> bytes:
    """Return the one question without an id of the scheduler's own."""
    return _SAME


def same_job(number: int) -> bytes:
    """Return a question about the same job under an id of its own."""
    return _UNDER_AN_ID.replace(b"EXTERNAL", b"job-%d" % number)


def new_job(number: int) -> bytes:
    """Return a question about a job of its own, up to ``DISTINCT`` of them."""
    rest, model = divmod(number, len(MODELS))
    length, batch = divmod(rest, BATCHES)
    return (
        _NEW.replace(b"MODEL", MODELS[model].encode())
        .replace(b"987654", b"%d" % (1 + batch))
        .replace(b"123456", b"%d" % (SHORTEST + length % LENGTHS))
    )
