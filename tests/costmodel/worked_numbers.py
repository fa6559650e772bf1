"""The numbers people know, as jobs: what is said, what the service answers, why the two differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.costmodel.worked_answers import (
    as_verdict,
    device_bytes,
    in_bytes,
    kept_bytes,
    loaded_weights_bytes,
    optimizer_bytes,
    optimizer_states_per_parameter,
    per_parameter,
    required_share,
    states_bytes,
    states_per_parameter,
)
from vramgate.wire.estimates import EstimateRequest, EstimateResponse
from vramgate.wire.validation import validated
from vramgate.workflows.estimate_job import answer_request
from vramgate.workflows.load_catalogs import load_catalogs

Job = Mapping[str, Any]

SEVEN_BILLION = 7_000_000_000
ROUNDED_UP = 1 + 1e-6
"""The allocator rounds every tensor up to 512 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedNumber:
    """One number people know and the job that it is about."""

    said: str
    """As it is told, in the teller's units."""
    job: Job
    answer: Callable[[EstimateResponse], float]
    shown: Callable[[float], str]
    at_least: float
    at_most: float
    """What the answer must be by the arithmetic in ``why``, or the range people tell."""
    why: str


@cache
def answers() -> tuple[EstimateResponse, ...]:
    """Return the service's answer to each job, in order."""
    catalogs = load_catalogs()
    requests = ({"job": number.job, "calibration": "none"} for number in NUMBERS)
    return tuple(
        answer_request(validated(EstimateRequest, request), catalogs) for request in requests
    )


def _states_job(parameters: int, precision: str, optimizer: str) -> Job:
    """Return a job of which only the states matter: one short sequence."""
    return {
        "model": {"parameters": parameters},
        "precision": precision,
        "optimizer": optimizer,
        "micro_batch_size": 1,
        "sequence_length": 128,
    }


def _llama(checkpointing: str) -> Job:
    return {
        "model": {"name": "meta-llama/Llama-2-7b-hf"},
        "precision": "bf16-true",
        "micro_batch_size": 4,
        "sequence_length": 2048,
        "activation_checkpointing": checkpointing,
    }


def _on_80_gb(parameters: int) -> Job:
    return {
        "model": {"parameters": parameters},
        "precision": "bf16-master",
        "optimizer": "adamw",
        "micro_batch_size": 1,
        "sequence_length": 2048,
        "activation_checkpointing": "full",
        "hardware": {"accelerator": "a100-sxm4-80gb"},
    }


def _qlora(model: str) -> Job:
    return {
        "model": {"name": model},
        "method": {
            "kind": "qlora",
            "rank": 16,
            "target_modules": "all-linear",
            "quantization": "nf4",
            "double_quant": True,
            "prepare_for_kbit_training": True,
        },
        "precision": "bf16-mixed",
        "micro_batch_size": 1,
        "sequence_length": 2048,
        "activation_checkpointing": "full",
        "hardware": {"accelerator": "rtx-4090"},
    }


NUMBERS = (
    WorkedNumber(
        said="fp32 with plain SGD: 8 bytes a parameter",
        job=_states_job(SEVEN_BILLION, "fp32", "sgd"),
        answer=states_per_parameter,
        shown=per_parameter,
        at_least=8,
        at_most=8 * ROUNDED_UP,
        why="4 for the weight, 4 for the gradient.",
    ),
    WorkedNumber(
        said="fp32 SGD with momentum: 12",
        job=_states_job(SEVEN_BILLION, "fp32", "sgd_momentum"),
        answer=states_per_parameter,
        shown=per_parameter,
        at_least=12,
        at_most=12 * ROUNDED_UP,
        why="4 more for the momentum.",
    ),
    WorkedNumber(
        said="fp32 AdamW: 16",
        job=_states_job(SEVEN_BILLION, "fp32", "adamw"),
        answer=states_per_parameter,
        shown=per_parameter,
        at_least=16,
        at_most=16 * ROUNDED_UP,
        why="4 + 4 + 8 for the two moments. With PyTorch’s foreach step a temporary as large as the "
        "gradients stands beside them: 20 at that moment.",
    ),
    WorkedNumber(
        said="mixed-precision AdamW: 16 (autocast over fp32 weights)",
        job=_states_job(SEVEN_BILLION, "bf16-mixed", "adamw"),
        answer=states_per_parameter,
        shown=per_parameter,
        at_least=16,
        at_most=16 * ROUNDED_UP,
        why="The states are those of fp32: 4 + 4 + 8. Autocast’s 16-bit copies of the weights are "
        "freed before the step, so they raise the forward pass, not this sum.",
    ),
    WorkedNumber(
        said="7B in bf16 with AdamW: 16 bytes a parameter, 112 GB of weights, gradients and states",
        job=_states_job(SEVEN_BILLION, "bf16-master", "adamw"),
        answer=states_bytes,
        shown=in_bytes,
        at_least=16 * SEVEN_BILLION,
        at_most=16 * SEVEN_BILLION * ROUNDED_UP,
        why="2 + 2 + 4 for the fp32 master copy + 8, times 7e9. Llama-2-7B has 6.74e9 parameters: "
        "107.8e9 bytes.",
    ),
    WorkedNumber(
        said="13B: 208 GB",
        job=_states_job(13_000_000_000, "bf16-master", "adamw"),
        answer=states_bytes,
        shown=in_bytes,
        at_least=16 * 13_000_000_000,
        at_most=16 * 13_000_000_000 * ROUNDED_UP,
        why="16 × 13e9.",
    ),
    WorkedNumber(
        said="8-bit Adam keeps about a third of the states",
        job=_states_job(SEVEN_BILLION, "bf16-true", "adamw_8bit"),
        answer=optimizer_states_per_parameter,
        shown=lambda value: f"{value:.2f} of 8 bytes a parameter ({value / 8 * 100:.0f} %)",
        at_least=2 * (1 + 4 / 256),
        at_most=2 * (1 + 4 / 256) * 1.001,
        why="It differs: two moments of 1 byte and 4 bytes of scale for each block of 256 are a "
        "quarter of fp32’s 8. A third is reached where embeddings keep 32-bit states, as "
        "bitsandbytes advises; with an fp32 master copy counted in it is 6 of 12, a half.",
    ),
    WorkedNumber(
        said="ZeRO-1 over 8 devices leaves 10.5 GB of optimizer states a device for 7B",
        job={
            **_states_job(SEVEN_BILLION, "bf16-master", "adamw"),
            "sharding": {"implementation": "deepspeed", "zero_stage": 1},
            "hardware": {"accelerator": "a100-sxm4-80gb", "devices": 8},
        },
        answer=optimizer_bytes,
        shown=in_bytes,
        at_least=12 * SEVEN_BILLION // 8,
        at_most=12 * SEVEN_BILLION / 8 * ROUNDED_UP,
        why="12 × 7e9 / 8, the fp32 master copy among the states; the 2 + 2 bytes of weights and "
        "gradients stay whole.",
    ),
    WorkedNumber(
        said="QLoRA brings the weights of a 7B model to about 4 GB",
        job={
            "model": {"name": "meta-llama/Llama-2-7b-hf"},
            "method": {
                "kind": "qlora",
                "rank": 16,
                "target_modules": ["q_proj", "v_proj"],
                "quantization": "nf4",
                "double_quant": True,
                "prepare_for_kbit_training": False,
            },
            "precision": "bf16-true",
            "micro_batch_size": 1,
            "sequence_length": 2048,
            "activation_checkpointing": "full",
        },
        answer=loaded_weights_bytes,
        shown=in_bytes,
        # 6.476e9 weights of 32 blocks at 0.516 bytes, 262e6 of embedding and head at 2: 3.87e9.
        at_least=3.8e9,
        at_most=4.0e9,
        why="The blocks take 3.34e9 bytes in nf4; embedding and head stay in 16 bits (0.52e9). "
        "prepare_model_for_kbit_training raises those to fp32: 4.4e9.",
    ),
    WorkedNumber(
        said="7B, batch 4, length 2048 keeps some 50-60 GB of activations",
        job=_llama("none"),
        answer=kept_bytes,
        shown=in_bytes,
        at_least=50e9,
        at_most=60e9,
        why="186 504 bytes a token and block with flash attention × 8 192 tokens × 32 blocks = 48.9e9, "
        "and the head and its loss. Eager attention would keep 6 bytes for each score of 32 heads: "
        "103e9 more.",
    ),
    WorkedNumber(
        said="… and under 10 GB with activation checkpointing",
        job=_llama("full"),
        answer=kept_bytes,
        shown=in_bytes,
        at_least=4e9,
        at_most=10e9,
        why="Block inputs are 2 × 4 096 bytes × 8 192 tokens × 32 blocks = 2.1e9; the rest is the loss: "
        "logits over 32 000 words, in fp32, several times.",
    ),
    WorkedNumber(
        said="an 80 GB card holds full training up to about 5B (here 4.8B)",
        job=_on_80_gb(4_800_000_000),
        answer=required_share,
        shown=as_verdict,
        at_least=0.9,
        at_most=1,
        why="16 × 4.8e9 bytes and little else with checkpointing and one sequence.",
    ),
    WorkedNumber(
        said="… and not much more (here 5.5B)",
        job=_on_80_gb(5_500_000_000),
        answer=required_share,
        shown=as_verdict,
        at_least=1,
        at_most=1.2,
        why="16 × 5.5e9 is above what the card can give before the first activation.",
    ),
    WorkedNumber(
        said="LoRA on 7B in 24 GB",
        job={
            "model": {"name": "meta-llama/Llama-2-7b-hf"},
            "method": {"kind": "lora", "rank": 16, "target_modules": ["q_proj", "v_proj"]},
            "precision": "bf16-true",
            "micro_batch_size": 1,
            "sequence_length": 2048,
            "activation_checkpointing": "full",
            "hardware": {"accelerator": "rtx-4090"},
        },
        answer=required_share,
        shown=as_verdict,
        at_least=0.5,
        at_most=1,
        why="13.5e9 bytes of frozen bf16 weights and hardly any states. A base left in fp32 "
        "(autocast without casting it) would take twice that and not fit.",
    ),
    WorkedNumber(
        said="QLoRA on 7B at length 2048 in 14-18 GB",
        job=_qlora("Qwen/Qwen2.5-7B"),
        answer=device_bytes,
        shown=in_bytes,
        at_least=14e9,
        at_most=18e9,
        why="With one sequence and checkpointing the loss is the peak: 152 064 words, in fp32. Embedding "
        "and head in fp32 after k-bit preparation are more than half of the weights.",
    ),
    WorkedNumber(
        said="… but less with a small vocabulary (the same run on Llama-2-7B, 32 000 words)",
        job=_qlora("meta-llama/Llama-2-7b-hf"),
        answer=device_bytes,
        shown=in_bytes,
        at_least=6e9,
        at_most=10e9,
        why="It differs: the range people tell holds for larger vocabularies or batches; more "
        "sequences bring this model there.",
    ),
)
