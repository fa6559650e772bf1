"""Jobs that no card would run: the field, the values, and the way out of each."""

from typing import Any

import pytest

from tests.jobs.describing import LLAMA, refusal, resolved
from tests.jobs.refused_layouts import GPT2, PARALLEL, SHARDING, Row
from tests.jobs.test_resolve import TINY

PRECISION: list[Row] = [
    (
        {"precision": {"weights": "fp16", "compute": "bf16"}},
        "/job/precision",
        "weights fp16 with compute bf16",
        "write one of them",
    ),
    (
        {"precision": {"weights": "bf16", "compute": "bf16", "gradients": "fp16"}},
        "/job/precision/gradients",
        "gradients fp16 with compute bf16",
        "write bf16 or fp32",
    ),
    (
        {"precision": {"weights": "fp32", "compute": "bf16", "autocast": False}},
        "/job/precision/autocast",
        "fp32 weights compute in bf16 only under autocast",
        "bf16-mixed",
    ),
    (
        {"precision": {"weights": "bf16", "compute": "fp32"}},
        "/job/precision/compute",
        "compute fp32 over bf16 weights",
        "write compute bf16",
    ),
    (
        {"precision": {"weights": "fp32", "compute": "fp32", "autocast": True}},
        "/job/precision/autocast",
        "autocast with compute fp32 casts nothing",
        "autocast false",
    ),
    (
        {"precision": {"weights": "fp32", "master_weights": True}},
        "/job/precision/master_weights",
        "master_weights with weights fp32",
        "bf16-mixed",
    ),
    (
        {"precision": {"weights": "int8", "compute": "bf16"}},
        "/job/precision/weights",
        "precision.weights int8",
        "method.quantization",
    ),
    (
        {"precision": {"weights": "bf16", "compute": "fp8"}},
        "/job/precision/compute",
        "precision.compute fp8",
        "precision.linear",
    ),
    (
        {"method": {"kind": "lora", "adapter_dtype": "fp8"}},
        "/job/method/adapter_dtype",
        "adapter_dtype fp8 does not train",
        "bf16, fp16 or fp32",
    ),
    (
        {"optimizer": {"name": "adamw", "rank": 8}},
        "/job/optimizer/rank",
        "optimizer.rank 8 with adamw, which projects nothing",
        "galore_adamw",
    ),
    (
        {"optimizer": {"name": "sgd", "quantized": True}},
        "/job/optimizer/quantized",
        "optimizer.quantized with sgd",
        "adamw_8bit",
    ),
    (
        {"optimizer": {"name": "rmsprop", "implementation": "fused"}},
        "/job/optimizer/implementation",
        "no fused rmsprop",
        "foreach",
    ),
    (
        {"precision": "fp32", "attention": "flash_attention_2"},
        "/job/attention",
        "flash_attention_2 with compute fp32",
        "sdpa",
    ),
]

METHOD: list[Row] = [
    (
        {"model": {"name": "TheBloke/Mistral-7B-v0.1-GPTQ"}, "method": {"kind": "full"}},
        "/job/method/kind",
        "method full on gptq-int4 weights (TheBloke/Mistral-7B-v0.1-GPTQ)",
        "write method qlora",
    ),
    (
        {"method": {"kind": "full", "quantization": "nf4"}},
        "/job/method/quantization",
        "quantization nf4 with method full",
        "write method qlora",
    ),
    (
        {"method": {"kind": "full", "rank": 16}},
        "/job/method/rank",
        "method.rank has no effect with method full",
        "lora or qlora",
    ),
    (
        {"method": {"kind": "lora", "trainable_layers": 2}},
        "/job/method/trainable_layers",
        "method.trainable_layers has no effect with method lora",
        "freeze",
    ),
    (
        {"method": {"kind": "lora", "double_quant": True}},
        "/job/method/double_quant",
        "method.double_quant has no effect with method lora",
        "qlora",
    ),
    (
        {"method": {"kind": "qlora", "quantization": "int8", "double_quant": True}},
        "/job/method/double_quant",
        "double_quant is for nf4 and fp4, not int8",
        "leave it out",
    ),
    (
        {"method": {"kind": "lora", "target_modules": ["c_attn"]}},
        "/job/method/target_modules",
        "target_modules c_attn match no linear layer of meta-llama/Llama-3.1-8B",
        "q_proj",
    ),
    (
        {"method": {"kind": "lora", "target_modules": ["q_prj", "vproj"]}},
        "/job/method/target_modules",
        "target_modules q_prj, vproj match no linear layer",
        "did you mean q_proj",
    ),
    (
        {"method": {"kind": "lora", "target_modules": r".*\.query"}},
        "/job/method/target_modules",
        "match no linear layer",
        "all-linear",
    ),
    (
        {"method": {"kind": "lora", "target_modules": "(a+)+$"}},
        "/job/method/target_modules",
        "was not run: a repeated group could take very long",
        "list of names",
    ),
    (
        {"method": {"kind": "lora", "target_modules": "[q_proj"}},
        "/job/method/target_modules",
        "it is no regular expression",
        "list of names",
    ),
    (
        {"method": {"kind": "lora", "modules_to_save": ["lm_head", "wte"]}},
        "/job/method/modules_to_save/1",
        "modules_to_save wte is no module of meta-llama/Llama-3.1-8B",
        "lm_head",
    ),
    (
        {"method": {"kind": "lora", "rank": 8192}},
        "/job/method/rank",
        "rank 8192 is more than hidden_size 4096",
        "8 to 256",
    ),
    (
        {"method": {"kind": "freeze", "trainable_layers": 33}},
        "/job/method/trainable_layers",
        "trainable_layers 33 is more than num_hidden_layers 32",
        "at most 32",
    ),
]

TRAINING: list[Row] = [
    (
        {"model": GPT2, "sequence_length": 2048},
        "/job/sequence_length",
        "sequence_length 2048 is more than the 1024 positions",
        "at most 1024",
    ),
    (
        {"model": {"name": "google/gemma-2-9b"}, "attention": "sdpa"},
        "/job/attention",
        "transformers 5.24 has no sdpa for gemma2",
        "eager or flash_attention_2",
    ),
    (
        {"activation_checkpointing": {"mode": "full", "modules": ["core_attn"]}},
        "/job/activation_checkpointing/modules",
        "modules core_attn with mode full",
        "selective",
    ),
    (
        {"activation_checkpointing": {"mode": "none", "offload": True}},
        "/job/activation_checkpointing/mode",
        "with mode none",
        '"full"',
    ),
    (
        {"activation_checkpointing": {"mode": "full", "every_n_layers": 40}},
        "/job/activation_checkpointing/every_n_layers",
        "every_n_layers 40 is more than num_hidden_layers 32",
        "at most 32",
    ),
    (
        {"loss": "standard", "fused_kernels": ["cross_entropy"]},
        "/job/loss",
        "loss standard with the fused kernel cross_entropy",
        "loss fused",
    ),
    (
        {"hardware": {"accelerator": "t4", "occupied_bytes": 20 * 2**30}},
        "/job/hardware/occupied_bytes",
        "occupied_bytes are 20.00 GiB",
        "nvidia-smi",
    ),
    (
        {"micro_batch_size": 65_536, "sequence_length": 2**24},
        "/job/micro_batch_size",
        "beyond 64 bits",
        "sequences per device",
    ),
]


@pytest.mark.parametrize(
    ("fields", "pointer", "detail", "hint"), PARALLEL + SHARDING + PRECISION + METHOD + TRAINING
)
def test_refusals_name_the_field_the_values_and_the_way_out(
    fields: dict[str, Any], pointer: str, detail: str, hint: str
) -> None:
    error = refusal(**fields)

    found = {field.pointer: field for field in error.fields}
    assert pointer in found, error.fields
    assert detail in found[pointer].detail
    assert hint in found[pointer].detail
    assert error.hint


def test_all_contradictions_are_told_together() -> None:
    error = refusal(
        hardware={"devices": 6},
        parallelism={"tensor_parallel_size": 4},
        precision={"weights": "fp16", "compute": "bf16"},
        method={"kind": "full", "rank": 8},
    )

    assert [field.pointer for field in error.fields] == [
        "/job/hardware/devices",
        "/job/precision",
        "/job/method/rank",
    ]
    assert "(and 2 more)" in error.message


@pytest.mark.parametrize(
    "fields",
    [
        # Ranks beyond the key-value heads hold copies of them: 8 heads on 16 ranks.
        {"parallelism": {"tensor_parallel_size": 16}},
        # MQA: one key-value head for all.
        {
            "model": {"name": "tiiuae/falcon-7b"},
            "parallelism": {"tensor_parallel_size": 71},
        },
        {"parallelism": {"pipeline_parallel_size": 2, "pipeline_schedule": "zero_bubble_v"}},
        {"sharding": {"implementation": "megatron", "zero_stage": 1, "offload_optimizer": "cpu"}},
        {"sharding": {"implementation": "fsdp", "offload_parameters": "cpu"}},
        {
            "sharding": {
                "implementation": "deepspeed",
                "zero_stage": 3,
                "offload_parameters": "nvme",
                "offload_optimizer": "nvme",
            }
        },
        # FSDP's MixedPrecision computes in bf16 over fp32 shards without autocast.
        {
            "precision": {"weights": "fp32", "compute": "bf16", "autocast": False},
            "sharding": {"implementation": "fsdp2"},
        },
        # bitsandbytes' bnb_4bit_compute_dtype is float32 by default.
        {"method": "qlora", "precision": {"weights": "bf16", "compute": "fp32"}},
        {"method": {"kind": "lora", "dora": False, "double_quant": False}},
        {"method": {"kind": "full", "prepare_for_kbit_training": False}},
        {
            "attention": "sdpa",
            "model": {"name": "google/gemma-2-9b"},
            "software": {"stack": "transformers 4.51"},
        },
        {
            "attention": "sdpa",
            "model": {"name": "google/gemma-2-9b"},
            "software": {"stack": "transformers 4.45"},
        },
        {
            "model": {"config": TINY},
            "sequence_length": 4096,
        },  # rotary: beyond training, not refused
        {"method": {"kind": "lora", "target_modules": ["lm_head"]}},
        # The vision tower's 16 heads are not split; the text model's 32 are.
        {
            "model": {"name": "llava-hf/llava-1.5-7b-hf"},
            "parallelism": {"tensor_parallel_size": 32},
        },
        # No heads to split.
        {
            "model": {"name": "state-spaces/mamba-2.8b-hf"},
            "parallelism": {"tensor_parallel_size": 8},
        },
        {"method": {"kind": "lora", "target_modules": "all-linear"}, "model": GPT2},
    ],
)
def test_unusual_jobs_that_do_run_are_taken(fields: dict[str, Any]) -> None:
    assert resolved(**{"sequence_length": 512, **fields}).job is not None


def test_a_model_named_by_config_is_called_by_it_in_refusals() -> None:
    error = refusal(model={"config": TINY}, method={"kind": "lora", "target_modules": ["nope"]})

    assert "of llama" in error.message


def test_the_models_name_stays_out_of_the_way_of_a_good_job() -> None:
    assert resolved(model=LLAMA).model_name == LLAMA["name"]
