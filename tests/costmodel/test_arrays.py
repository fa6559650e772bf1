"""``peak_bytes`` of an array of jobs is, element by element, the peak of each job alone.

One formula for one number and for arrays (DESIGN.md 4): batch, length and devices vary, everything else is the same.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.costmodel.engine_jobs import a_job, cards, llama
from vramgate.costmodel.estimate import estimate_memory, peak_bytes
from vramgate.costmodel.job import TrainingJob
from vramgate.errors import DomainError
from vramgate.units import Count

MODELS = [
    llama(),
    llama(tie_word_embeddings=True, vocab_size=32_000),
    *(
        {"name": name}
        for name in (
            "meta-llama/Llama-3.1-8B",
            "Qwen/Qwen2.5-0.5B",
            "mistralai/Mixtral-8x7B-v0.1",
            "openai-community/gpt2",
            "google-t5/t5-small",
            "google-bert/bert-base-uncased",
            "google/gemma-2-9b",
            "tiiuae/falcon-7b",
            "deepseek-ai/DeepSeek-V2-Lite",
        )
    ),
]
_JOBS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "method": st.sampled_from(
            [
                "full",
                {"kind": "lora", "rank": 8, "target_modules": "all-linear", "dropout": 0.05},
                {"kind": "qlora", "rank": 8, "target_modules": "all-linear"},
                {"kind": "freeze", "trainable_layers": 2},
            ]
        ),
        "precision": st.sampled_from(["fp32", "bf16-mixed", "bf16-master", "bf16-true"]),
        "optimizer": st.sampled_from(["adamw", "adamw_8bit", "adafactor", "muon", "sgd"]),
        "activation_checkpointing": st.sampled_from(
            ["none", "selective", "full", {"mode": "full", "every_n_layers": 2}]
        ),
        "attention": st.sampled_from(["eager", "sdpa"]),
        "loss": st.sampled_from(["standard", "fused", "chunked", "fused_linear"]),
        "packing": st.sampled_from(["packed", "padded"]),
        "gradient_accumulation_steps": st.sampled_from([1, 4]),
        "software": st.sampled_from(
            [
                {"framework": "transformers"},
                {"framework": "transformers", "stack": "transformers 4.45"},
                {"framework": "torchtitan"},
                {"framework": "litgpt"},
            ]
        ),
    }
)
_LENGTHS = st.lists(st.integers(1, 512), min_size=1, max_size=4)


def _resolved(fields: dict[str, Any]) -> TrainingJob | None:
    try:
        return a_job(**fields)
    except DomainError:
        return None


def _assert_equal(job: TrainingJob, batches: list[int], lengths: list[int]) -> None:
    pairs = list(product(batches, lengths))
    batch, length = np.array(pairs, dtype=np.int64).T
    together = peak_bytes(replace(job, micro_batch_size=batch, sequence_length=length))
    alone = [peak_bytes(replace(job, micro_batch_size=b, sequence_length=s)) for b, s in pairs]
    assert np.broadcast_to(together, len(alone)).tolist() == alone


@given(_JOBS, st.lists(st.integers(2, 33), min_size=1, max_size=3), _LENGTHS)
@settings(max_examples=120, suppress_health_check=list(HealthCheck))
def test_batches_and_lengths(
    fields: dict[str, Any], batches: list[int], lengths: list[int]
) -> None:
    note(str(fields))
    job = _resolved({**fields, "sequence_length": 512, "micro_batch_size": 2})
    if job is not None:
        _assert_equal(job, batches, lengths)


@given(_JOBS, _LENGTHS)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_lengths_of_single_rows(fields: dict[str, Any], lengths: list[int]) -> None:
    note(str(fields))
    job = _resolved({**fields, "sequence_length": 512, "micro_batch_size": 1})
    if job is not None:
        _assert_equal(job, [1], lengths)


@pytest.mark.parametrize(
    "sharding",
    [
        {"implementation": "ddp"},
        {"implementation": "deepspeed", "zero_stage": 1},
        {"implementation": "deepspeed", "zero_stage": 2},
        {"implementation": "deepspeed", "zero_stage": 3},
        {"implementation": "fsdp"},
        {"implementation": "fsdp2"},
        {"implementation": "megatron", "zero_stage": 1},
    ],
)
@given(st.lists(st.integers(2, 1000), min_size=1, max_size=6), st.sampled_from(["full", "qlora"]))
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
def test_devices(sharding: dict[str, Any], devices: list[int], method: str) -> None:
    fields = {"hardware": cards(8), "precision": "bf16-master", "method": method}
    job = _resolved({**fields, "sharding": sharding})
    if job is None:
        return

    def on(count: Count) -> Count:
        return peak_bytes(replace(job, hardware=replace(job.hardware, devices=count)))

    together = on(np.array(devices, dtype=np.int64))
    alone = [on(count) for count in devices]
    assert np.broadcast_to(together, len(alone)).tolist() == alone


def test_a_scalar_peak_is_the_estimates() -> None:
    for fields in ({}, {"micro_batch_size": 4, "activation_checkpointing": "full"}):
        job = a_job(**fields)
        assert peak_bytes(job) == estimate_memory(job).peak.allocated_bytes


def test_a_pipelines_peak_is_that_of_its_worst_stage() -> None:
    job = a_job(
        parallelism={"pipeline_parallel_size": 2},
        hardware=cards(2),
        gradient_accumulation_steps=4,
    )
    _assert_equal(job, [2, 5], [64, 128])
    assert peak_bytes(job) == estimate_memory(job).peak.allocated_bytes


def test_more_tokens_never_take_less() -> None:
    job = a_job(model={"name": "meta-llama/Llama-3.1-8B"})
    lengths = np.arange(64, 8192, 64, dtype=np.int64)
    peaks = peak_bytes(replace(job, sequence_length=lengths))
    assert np.all(np.diff(peaks) >= 0)


def test_more_devices_never_take_more() -> None:
    job = a_job(sharding={"implementation": "fsdp2"}, hardware=cards(8))
    devices = np.arange(2, 512, dtype=np.int64)
    peaks = peak_bytes(replace(job, hardware=replace(job.hardware, devices=devices)))
    assert np.all(np.diff(peaks) <= 0)
