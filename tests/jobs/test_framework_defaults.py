"""What each framework does where nobody says otherwise: values from its source, named beside them."""

from typing import Any

import pytest

from tests.jobs.describing import assumed, resolved
from vramgate.jobs.attention_defaults import transformers_attention
from vramgate.jobs.frameworks.registry import framework_name, framework_names

LLAMA_LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def _taken(framework: str, stack: str | None, field: str, **fields: Any) -> object:  # noqa: ANN401
    result = resolved(software={"framework": framework, "stack": stack}, **fields)
    return assumed(result, field)[0]


@pytest.mark.parametrize(
    ("framework", "field", "value"),
    [
        # transformers training_args.py 5.24
        ("transformers", "micro_batch_size", 8),
        ("transformers", "gradient_accumulation_steps", 1),
        ("transformers", "activation_checkpointing.mode", "none"),
        ("transformers", "optimizer.name", "adamw"),
        ("transformers", "optimizer.implementation", "fused"),
        ("transformers", "attention", "sdpa"),
        ("transformers", "loss", "standard"),
        ("transformers", "precision", "bf16-true"),
        # trl 1.16 base_config.py, sft_config.py, sft_trainer.py
        ("trl", "sequence_length", 1024),
        ("trl", "activation_checkpointing.mode", "full"),
        ("trl", "activation_checkpointing.reentrant", False),
        ("trl", "precision", "bf16-mixed"),
        ("trl", "loss", "fused_linear"),
        # llamafactory 0.9.5 hparams/*.py
        ("llama_factory", "method.kind", "lora"),
        ("llama_factory", "method.rank", 8),
        ("llama_factory", "method.target_modules", "all-linear"),
        ("llama_factory", "method.dropout", 0.0),
        ("llama_factory", "sequence_length", 2048),
        ("llama_factory", "activation_checkpointing.reentrant", True),
        # axolotl 0.19 utils/schemas
        ("axolotl", "sequence_length", 512),
        ("axolotl", "micro_batch_size", 1),
        ("axolotl", "activation_checkpointing.mode", "none"),
        ("axolotl", "optimizer.implementation", "fused"),
        # ms-swift 4.6 trainers/arguments.py, arguments/tuner_args.py
        ("ms-swift", "method.kind", "lora"),
        ("ms-swift", "method.rank", 8),
        ("ms-swift", "method.dropout", 0.05),
        ("ms-swift", "method.target_modules", "all-linear"),
        ("ms-swift", "micro_batch_size", 1),
        ("ms-swift", "gradient_accumulation_steps", 16),
        ("ms-swift", "activation_checkpointing.mode", "full"),
        ("ms-swift", "sequence_length", 131072),  # the model's: Llama-3.1
        # unsloth 2026.10 models/loader.py, llama.py, rl.py
        ("unsloth", "method.kind", "qlora"),
        ("unsloth", "method.rank", 16),
        ("unsloth", "method.target_modules", LLAMA_LINEARS),
        ("unsloth", "method.double_quant", True),
        ("unsloth", "optimizer.name", "adamw_8bit"),
        ("unsloth", "micro_batch_size", 4),
        ("unsloth", "activation_checkpointing.offload", True),
        ("unsloth", "loss", "fused_linear"),
        # torchtitan 0.3 config/configs.py, trainer.py
        ("torchtitan", "micro_batch_size", 8),
        ("torchtitan", "sequence_length", 2048),
        ("torchtitan", "precision", "bf16-mixed"),
        ("torchtitan", "activation_checkpointing.mode", "selective"),
        ("torchtitan", "optimizer.implementation", "fused"),
        ("torchtitan", "task", "pretrain"),
        # torchtune 0.6.1 recipes/configs/llama3_1/8B_full.yaml
        ("torchtune", "micro_batch_size", 2),
        ("torchtune", "precision", "bf16-true"),
        ("torchtune", "loss", "chunked"),
        ("torchtune", "activation_checkpointing.mode", "full"),
        # litgpt 0.5.13 finetune/lora.py
        ("litgpt", "micro_batch_size", 1),
        ("litgpt", "gradient_accumulation_steps", 16),
        ("litgpt", "loss", "chunked"),
        ("litgpt", "precision", "bf16-mixed"),
        # llm-foundry YAMLs
        ("composer", "precision", "bf16-mixed"),
        ("composer", "attention", "flash_attention_2"),
        ("composer", "activation_checkpointing.mode", "full"),
        # fsdp_qlora train.py
        ("fsdp_qlora", "method.kind", "qlora"),
        ("fsdp_qlora", "method.rank", 64),
        ("fsdp_qlora", "method.dropout", 0.1),
        ("fsdp_qlora", "sequence_length", 512),
        # Megatron-LM megatron/training/arguments.py
        ("megatron", "sharding.zero_stage", 0),
        ("megatron", "activation_checkpointing.mode", "none"),
        # DeepSpeed runtime/config.py
        ("deepspeed", "sharding.implementation", "deepspeed"),
        ("deepspeed", "precision", "bf16-master"),
        # torch
        ("torch", "precision", "fp32"),
        ("torch", "optimizer.implementation", "foreach"),
        # accelerate
        ("accelerate", "optimizer.implementation", "foreach"),
    ],
)
def test_defaults_are_the_frameworks_own(framework: str, field: str, value: object) -> None:
    assert _taken(framework, None, field) == value


@pytest.mark.parametrize(
    ("framework", "stack", "field", "value", "fields"),
    [
        # transformers modeling_utils.py: use_reentrant True until 5.0
        (
            "transformers",
            "transformers 4.57",
            "activation_checkpointing.reentrant",
            True,
            {"activation_checkpointing": "full"},
        ),
        (
            "transformers",
            "transformers 5.0",
            "activation_checkpointing.reentrant",
            False,
            {"activation_checkpointing": "full"},
        ),
        # training_args.py: adamw_torch_fused from 4.54, with torch 2.8 or newer
        ("transformers", "torch 2.8, transformers 4.54", "optimizer.implementation", "fused", {}),
        ("transformers", "torch 2.8, transformers 4.53", "optimizer.implementation", "foreach", {}),
        ("transformers", "torch 2.7, transformers 4.54", "optimizer.implementation", "foreach", {}),
        # modeling_utils.py: fp32 before 5.0
        ("transformers", "transformers 4.57", "precision", "fp32", {}),
        # peft: autocast_adapter_dtype from 0.12; the base's dtype from 0.6 to 0.11; fp32 before
        ("torch", "peft 0.13", "method.adapter_dtype", "fp32", {"method": "lora"}),
        (
            "torch",
            "peft 0.11",
            "method.adapter_dtype",
            "bf16",
            {"method": "lora", "precision": "bf16-true"},
        ),
        (
            "torch",
            "peft 0.5",
            "method.adapter_dtype",
            "fp32",
            {"method": "lora", "precision": "bf16-true"},
        ),
        # trl: gradient_checkpointing from 0.22, bf16 from 0.19, fused head from 1.15
        ("trl", "trl 0.21", "activation_checkpointing.mode", "none", {}),
        ("trl", "trl 0.18, transformers 4.51", "precision", "fp32", {}),
        ("trl", "trl 1.14", "loss", "chunked", {}),
        ("trl", "trl 1.7", "loss", "chunked", {}),
        ("trl", "trl 1.6", "loss", "standard", {}),
        ("trl", "trl 0.26", "method.adapter_dtype", "bf16", {"method": "qlora"}),
        ("trl", "trl 0.25", "method.adapter_dtype", "fp32", {"method": "qlora"}),
        ("trl", "trl 0.18", "method.prepare_for_kbit_training", True, {"method": "qlora"}),
        ("trl", "trl 0.24", "method.prepare_for_kbit_training", False, {"method": "qlora"}),
        ("trl", "trl 1.0", "method.prepare_for_kbit_training", False, {"method": "qlora"}),
        # trl's own time where transformers tells it
        ("trl", "transformers 4.40", "activation_checkpointing.mode", "none", {}),
        ("trl", "transformers 4.57", "activation_checkpointing.mode", "full", {}),
        ("trl", "transformers 5.0", "loss", "standard", {}),
        # trl sft_trainer.py: adapters under ZeRO-3 are reentrant
        (
            "trl",
            None,
            "activation_checkpointing.reentrant",
            True,
            {"method": "lora", "sharding": {"implementation": "deepspeed", "zero_stage": 3}},
        ),
        # ms-swift trainers/mixin.py: reentrant but under DDP
        (
            "ms-swift",
            None,
            "activation_checkpointing.reentrant",
            False,
            {"hardware": {"devices": 2}},
        ),
        ("ms-swift", None, "activation_checkpointing.reentrant", True, {}),
        # flash-attn has no fp32 kernel
        ("unsloth", None, "attention", "sdpa", {"precision": "fp32", "method": "full"}),
        # ms-swift: lora_dtype fp32, and DEFAULT targets (llm/utils/model.py LoRATM.llama2), in 1.7.3
        ("ms-swift", "ms-swift 1.7, peft 0.7", "method.adapter_dtype", "fp32", {}),
        ("ms-swift", "ms-swift 2.4, peft 0.11", "method.adapter_dtype", "bf16", {}),
        ("ms-swift", "ms-swift 1.7", "method.target_modules", ["q_proj", "k_proj", "v_proj"], {}),
        (
            "ms-swift",
            "ms-swift 1.7",
            "method.target_modules",
            ["attn.c_attn"],
            {"model": {"name": "Qwen/Qwen-7B"}},
        ),
        (
            "ms-swift",
            "ms-swift 1.7",
            "method.target_modules",
            "all-linear",
            {"model": {"name": "state-spaces/mamba-130m-hf"}},
        ),
        ("ms-swift", "ms-swift 1.7", "sequence_length", 2048, {}),
        # unsloth: whole logits before 2024.12
        ("unsloth", "unsloth 2024.9", "loss", "fused", {}),
        # Megatron-LM: --transformer-impl local before core 0.6
        ("megatron", "megatron 0.5", "attention", "eager", {}),
        ("megatron", "megatron 0.6", "attention", "flash_attention_2", {}),
        # torchtitan: chunks from 0.3
        ("torchtitan", "torchtitan 0.3", "loss", "chunked", {}),
        ("torchtitan", None, "loss", "standard", {}),
    ],
)
def test_defaults_change_with_versions(
    framework: str, stack: str | None, field: str, value: object, fields: dict[str, Any]
) -> None:
    assert _taken(framework, stack, field, **fields) == value


@pytest.mark.parametrize(
    ("model_type", "version", "attention"),
    [  # _supports_sdpa of models/*/modeling_*.py; VERSIONS.md for Gemma-2
        ("gemma2", "5.24", "eager"),
        ("gemma2", "5.0", "sdpa"),
        ("gemma2", "4.46", "eager"),
        ("bloom", "5.24", "eager"),
        ("gpt_neo", "5.24", "eager"),
        ("gpt2", "4.41", "eager"),
        ("gpt2", "4.42", "sdpa"),
        ("llama", "4.35", "eager"),
        ("llama", "4.36", "sdpa"),
        ("t5", "4.57", "eager"),
        ("t5", "5.24", "sdpa"),
        ("gptj", "5.16", "eager"),
        ("a-type-of-tomorrow", "5.24", "sdpa"),
    ],
)
def test_transformers_picks_attention_by_model_and_version(
    model_type: str, version: str, attention: str
) -> None:
    major, minor = version.split(".")
    assert transformers_attention(model_type, (int(major), int(minor))).value == attention


@pytest.mark.parametrize(
    ("framework", "implementation", "stage"),
    [
        ("transformers", "ddp", 0),
        ("trl", "ddp", 0),
        ("accelerate", "ddp", 0),
        ("torchtitan", "fsdp2", 3),  # data_parallel_shard_degree -1
        ("torchtune", "fsdp2", 3),
        ("litgpt", "fsdp", 3),
        ("composer", "fsdp", 3),
        ("fsdp_qlora", "fsdp", 3),
        ("megatron", "megatron", 0),
        ("deepspeed", "deepspeed", 0),
    ],
)
def test_several_devices_are_used_as_the_framework_does(
    framework: str, implementation: str, stage: int
) -> None:
    sharding = resolved(
        software={"framework": framework}, hardware={"devices": 8}, method="full"
    ).job.sharding

    assert (sharding.implementation, sharding.zero_stage) == (implementation, stage)


@pytest.mark.parametrize(
    ("framework", "stage", "expected"),
    [  # DeepSpeed zero/config.py; FORMULAS.md section 5; ms-swift config/zero2.json
        ("deepspeed", 2, (500_000_000, 500_000_000, 0, 0)),
        ("deepspeed", 3, (500_000_000, 500_000_000, 50_000_000, 1_000_000_000)),
        ("transformers", 3, (4096**2, 500_000_000, 15_099_494, 1_000_000_000)),
        ("ms-swift", 2, (200_000_000, 200_000_000, 0, 0)),
        ("deepspeed", 0, (0, 0, 0, 0)),
    ],
)
def test_deepspeed_buckets(framework: str, stage: int, expected: tuple[int, int, int, int]) -> None:
    buckets = resolved(
        software={"framework": framework},
        hardware={"devices": 8},
        sharding={"implementation": "deepspeed", "zero_stage": stage},
    ).job.sharding.buckets

    assert (
        buckets.reduce_elements,
        buckets.allgather_elements,
        buckets.prefetch_elements,
        buckets.max_live_elements,
    ) == expected


def test_ddp_buckets_are_25_mib() -> None:
    # torch nn/parallel/distributed.py: bucket_cap_mb None is 25 MiB.
    job = resolved(hardware={"devices": 2}, sharding={"implementation": "ddp"}).job

    assert job.sharding.buckets.ddp_bytes == 25 * 2**20


@pytest.mark.parametrize(
    ("framework", "synchronises"),
    [
        ("transformers", False),  # accelerate accumulate: no_sync unless sync_each_batch
        ("litgpt", False),  # no_backward_sync
        ("torchtitan", True),
        ("composer", True),  # no_sync for DDP only
        ("fsdp_qlora", True),  # no_sync False
    ],
)
def test_fsdp_synchronises_micro_batches_as_the_framework_does(
    framework: str, synchronises: bool
) -> None:
    result = resolved(
        software={"framework": framework},
        hardware={"devices": 2},
        gradient_accumulation_steps=4,
        sharding={"implementation": "fsdp"},
    )

    assert assumed(result, "sharding.sync_each_micro_batch")[0] is synchronises


def test_one_micro_batch_is_always_synchronised() -> None:
    job = resolved(hardware={"devices": 2}, sharding={"implementation": "fsdp"}).job

    assert job.sharding.sync_each_micro_batch


def test_accumulation_fills_litgpts_global_batch() -> None:
    # finetune/lora.py: global_batch_size 16 // devices // micro_batch_size.
    result = resolved(software={"framework": "litgpt"}, hardware={"devices": 4}, micro_batch_size=2)

    assert result.job.gradient_accumulation_steps == 2


def test_every_framework_resolves_a_job_of_which_only_the_model_is_said() -> None:
    for framework in framework_names():
        for method in ("full", "lora", "qlora", "freeze"):
            result = resolved(software={"framework": framework}, method=method)
            assert result.job.software.framework == framework


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LLaMA-Factory", "llama_factory"),
        ("llamafactory", "llama_factory"),
        ("ms_swift", "ms-swift"),
        ("Megatron-LM", "megatron"),
        ("HF", "transformers"),
        ("PyTorch", "torch"),
        ("llm-foundry", "composer"),
        ("tensorflow", None),
    ],
)
def test_frameworks_are_known_by_the_spellings_people_use(text: str, name: str | None) -> None:
    assert framework_name(text) == name


def test_an_unknown_framework_is_said_and_gets_torchs_defaults() -> None:
    result = resolved(software={"framework": "torchtun"})

    assert result.job.software.framework == "torch"
    (warning,) = (one for one in result.warnings if one.code == "unknown_framework")
    assert "Did you mean torchtune" in warning.message


@pytest.mark.parametrize(
    ("stack", "framework"),
    [
        ("unsloth 2025.1 / torch 2.5", "unsloth"),
        ("torch 2.4, trl 0.13, transformers 4.48", "trl"),
        ("torch 2.4, transformers 4.48", "transformers"),
        ("torch 2.4", "transformers"),
    ],
)
def test_a_stack_tells_the_framework_where_nobody_names_it(stack: str, framework: str) -> None:
    assert resolved(software={"stack": stack}).job.software.framework == framework
