"""What is known to mislead is said, and only where it applies."""

from typing import Any

import pytest

from tests.jobs.describing import resolved, warning_codes

MIXTRAL = {"name": "mistralai/Mixtral-8x7B-v0.1"}


@pytest.mark.parametrize(
    ("code", "warned", "quiet"),
    [
        # V100 and T4 have no bf16, Ampere GeForce cards have (data/accelerators.json).
        (
            "no_bf16",
            {"precision": "bf16-true", "hardware": {"accelerator": "v100-sxm2-16gb"}},
            {"precision": "bf16-true", "hardware": {"accelerator": "rtx-3090"}},
        ),
        (
            "no_bf16",
            {"precision": "bf16-mixed", "hardware": {"accelerator": "t4"}},
            {"precision": "fp16-mixed", "hardware": {"accelerator": "t4"}},
        ),
        (
            "no_low_precision",
            {"precision": {"linear": "fp8-rowwise"}, "hardware": {"accelerator": "a100-sxm4-80gb"}},
            {"precision": {"linear": "fp8-rowwise"}, "hardware": {"accelerator": "h100-sxm5-80gb"}},
        ),
        (
            "no_low_precision",
            {"precision": {"linear": "nvfp4"}, "hardware": {"accelerator": "h100-sxm5-80gb"}},
            {"precision": {"linear": "nvfp4"}, "hardware": {"accelerator": "b200-sxm-180gb"}},
        ),
        (
            "no_flash_attention",
            {"attention": "flash_attention_2", "hardware": {"accelerator": "t4"}},
            {"attention": "flash_attention_2", "hardware": {"accelerator": "a10g"}},
        ),
        (
            "no_flash_attention",
            {"attention": "flash_attention_3", "hardware": {"accelerator": "a100-sxm4-80gb"}},
            {"attention": "flash_attention_3", "hardware": {"accelerator": "h100-sxm5-80gb"}},
        ),
        ("pure_fp16", {"precision": "fp16-true"}, {"precision": "fp16-master"}),
        ("pure_fp16", {"precision": "fp16-true"}, {"precision": "fp16-true", "method": "lora"}),
        (
            "one_rank_shards_nothing",
            {"sharding": {"implementation": "fsdp", "zero_stage": 3}},
            {"sharding": {"implementation": "fsdp"}, "hardware": {"devices": 2}},
        ),
        (
            "whole_model_gathered",
            {"sharding": {"implementation": "fsdp", "wrap": "none"}},
            {"sharding": {"implementation": "fsdp", "wrap": "block"}},
        ),
        (
            "whole_gradients_kept",
            {"sharding": {"implementation": "fsdp"}, "gradient_accumulation_steps": 4},
            {
                "sharding": {"implementation": "fsdp", "sync_each_micro_batch": True},
                "gradient_accumulation_steps": 4,
            },
        ),
        (
            "fsdp_upcast",
            {
                "sharding": {"implementation": "fsdp"},
                "precision": {"weights": "bf16", "compute": "bf16", "autocast": True},
            },
            {
                "sharding": {"implementation": "fsdp"},
                "precision": {"weights": "bf16", "compute": "bf16", "autocast": False},
            },
        ),
        (
            "one_rank_ddp",
            {"sharding": {"implementation": "ddp"}},
            {"sharding": {"implementation": "ddp"}, "hardware": {"devices": 2}},
        ),
        (
            "few_micro_batches",
            {"parallelism": {"pipeline_parallel_size": 8}, "gradient_accumulation_steps": 4},
            {"parallelism": {"pipeline_parallel_size": 8}, "gradient_accumulation_steps": 8},
        ),
        (
            "uneven_stages",
            {"parallelism": {"pipeline_parallel_size": 5}},
            {"parallelism": {"pipeline_parallel_size": 4}},
        ),
        (
            "copied_key_value_heads",
            {"parallelism": {"tensor_parallel_size": 16}},
            {"parallelism": {"tensor_parallel_size": 8}},
        ),
        (
            "beyond_positions",
            {"sequence_length": 262_144, "attention": "flash_attention_2"},
            {"sequence_length": 131_072},
        ),
        (
            "padding_free_needs_flash",
            {"packing": "padding_free", "attention": "sdpa"},
            {"packing": "padding_free", "attention": "flash_attention_2"},
        ),
        (
            "offloaded_checkpoints",
            {"activation_checkpointing": {"mode": "full", "offload": True}},
            {"activation_checkpointing": "full"},
        ),
    ],
)
def test_warns_where_it_applies_and_nowhere_else(
    code: str, warned: dict[str, Any], quiet: dict[str, Any]
) -> None:
    assert code in warning_codes(resolved(**warned))
    assert code not in warning_codes(resolved(**quiet))


def test_names_of_other_weight_formats_are_said_to_be_passed_over() -> None:
    result = resolved(model={"name": "TheBloke/Llama-2-7B-GGUF"})

    assert "weight_format" in warning_codes(result)
