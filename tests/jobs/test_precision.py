"""Number formats: presets, and what half a precision implies."""

import pytest

from tests.jobs.describing import assumed, resolved
from vramgate.costmodel.job import Dtype, Precision

FP32, BF16, FP16 = Dtype.FP32, Dtype.BF16, Dtype.FP16


def _bytes(precision: Precision) -> tuple[int, int, int, int]:
    master = 4 if precision.master_weights else 0
    states = 2 * precision.optimizer_states.bytes
    return precision.weights.bytes, precision.gradients.bytes, master, states


@pytest.mark.parametrize(
    ("preset", "expected"),
    [  # DESIGN.md section 2: bytes a parameter of weights/gradients/master/Adam states
        ("fp32", (4, 4, 0, 8)),
        ("bf16-mixed", (4, 4, 0, 8)),
        ("fp16-mixed", (4, 4, 0, 8)),
        ("bf16-master", (2, 2, 4, 8)),
        ("fp16-master", (2, 2, 4, 8)),
        ("bf16-true", (2, 2, 0, 4)),
        ("fp16-true", (2, 2, 0, 4)),
    ],
)
def test_presets_hold_the_bytes_of_the_design(
    preset: str, expected: tuple[int, int, int, int]
) -> None:
    assert _bytes(resolved(precision=preset).job.precision) == expected


def test_megatron_accumulates_bf16_gradients_in_fp32() -> None:
    # Megatron-LM docs/user-guide/features/dist_optimizer.md: 18 bytes with bf16 and fp32 gradients.
    result = resolved(precision="bf16-master", software={"framework": "megatron"})

    assert sum(_bytes(result.job.precision)) == 18
    assert assumed(result, "precision.gradients")[1].startswith("Megatron-LM default")


def test_megatron_keeps_fp16_gradients_in_fp16() -> None:
    # The same page: fp16 parameters and fp16 gradients make 20 bytes with their fp32 copies; the
    # gradients themselves are 2.
    result = resolved(precision="fp16-master", software={"framework": "megatron"})

    assert result.job.precision.gradients is FP16


@pytest.mark.parametrize(
    ("stack", "stage", "gradients"),
    [  # DeepSpeed runtime/engine.py get_data_types, before and after commit 889f0ead (2025-08-27)
        ("torch 2.6, deepspeed 0.16", 0, FP32),
        ("torch 2.6, deepspeed 0.16", 2, BF16),
        ("torch 2.13, deepspeed 0.19", 0, BF16),
        ("torch 2.6", 0, FP32),
        ("torch 2.13", 0, BF16),
    ],
)
def test_deepspeed_gradients_follow_stage_and_version(
    stack: str, stage: int, gradients: Dtype
) -> None:
    result = resolved(
        precision="bf16-master",
        sharding={"implementation": "deepspeed", "zero_stage": stage},
        software={"framework": "deepspeed", "stack": stack},
    )

    assert result.job.precision.gradients is gradients


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"weights": "bf16"}, (BF16, BF16, False, False)),
        ({"compute": "bf16"}, (BF16, BF16, False, False)),
        ({"compute": "bf16", "autocast": True}, (FP32, BF16, True, False)),
        ({"weights": "fp32"}, (FP32, FP32, False, False)),
        ({"weights": "fp32", "autocast": True}, (FP32, BF16, True, False)),
        ({"weights": "fp32", "compute": "fp16"}, (FP32, FP16, True, False)),
        ({"master_weights": True, "compute": "fp16"}, (FP16, FP16, False, True)),
        ({"linear": "fp8-rowwise"}, (BF16, BF16, False, False)),
    ],
)
def test_half_a_precision_implies_the_rest(
    said: dict[str, object], expected: tuple[Dtype, Dtype, bool, bool]
) -> None:
    precision = resolved(precision=said).job.precision

    assert (
        precision.weights,
        precision.compute,
        precision.autocast,
        precision.master_weights,
    ) == expected


def test_sixteen_bit_weights_keep_a_master_copy_under_deepspeed() -> None:
    result = resolved(
        precision={"weights": "bf16", "compute": "bf16"},
        sharding={"implementation": "deepspeed", "zero_stage": 2},
    )

    assert result.job.precision.master_weights
    assert result.job.precision.optimizer_states is FP32


def test_trl_runs_sixteen_bit_weights_under_autocast() -> None:
    # trl trainer/base_config.py: bf16 is True unless fp16.
    assert resolved(
        precision={"weights": "bf16"}, software={"framework": "trl"}
    ).job.precision.autocast


def test_gradients_and_states_of_adapters_take_the_adapters_dtype() -> None:
    precision = resolved(
        method="lora", precision={"weights": "bf16", "compute": "bf16"}
    ).job.precision

    assert (precision.gradients, precision.optimizer_states) == (FP32, FP32)


def test_bitsandbytes_states_are_fp32_where_they_are_not_eight_bit() -> None:
    # bitsandbytes optim/optimizer.py get_state_buffer: fp32, or uint8 from 4096 elements on.
    result = resolved(precision="bf16-true", optimizer="adamw_8bit")
    assert result.job.precision.optimizer_states is BF16  # the preset said so

    result = resolved(precision={"weights": "bf16"}, optimizer="paged_adamw")
    assert result.job.precision.optimizer_states is FP32


def test_unsloth_takes_fp16_on_a_card_without_bf16() -> None:
    # unsloth models/loader.py: dtype None is bf16 where supported, else fp16.
    result = resolved(software={"framework": "unsloth"}, hardware={"accelerator": "t4"})

    assert result.job.precision.weights is FP16
    assert "lacks bf16" in assumed(result, "precision")[1]


def test_mixed_precision_under_deepspeed_becomes_a_master_copy() -> None:
    # transformers integrations/deepspeed.py fills bf16.enabled from TrainingArguments.bf16; the
    # engine then casts the module (runtime/engine.py _configure_distributed_model).
    result = resolved(
        software={"framework": "trl"}, sharding={"implementation": "deepspeed", "zero_stage": 2}
    )

    assert assumed(result, "precision")[0] == "bf16-master"
