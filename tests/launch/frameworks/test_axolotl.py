"""axolotl's configurations: what its schema refuses, what it ignores, and its command line."""

from typing import Any

import pytest

from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

BASE = {
    "base_model": "Qwen/Qwen2.5-0.5B",
    "micro_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "learning_rate": 0.0002,
    "optimizer": "adamw_torch_fused",
    "sequence_len": 1024,
    "bf16": True,
}
LORA = {"adapter": "lora", "lora_r": 8, "lora_alpha": 16, "lora_target_linear": True}
QLORA = {**LORA, "adapter": "qlora", "load_in_4bit": True}
FSDP = {"reshard_after_forward": True, "transformer_layer_cls_to_wrap": "Qwen2DecoderLayer"}
FSDP2 = {"fsdp_version": 2, "fsdp_config": FSDP}
FSDP1: dict[str, Any] = {
    "fsdp_version": 1,
    "fsdp_config": {"transformer_layer_cls_to_wrap": "Qwen2DecoderLayer"},
}
LIGER = {"plugins": ["axolotl.integrations.liger.LigerPlugin"]}
FLASH = {"attn_implementation": "flash_attention_2"}
CUT = "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("no_model", {"base_model": None}),
    ("quantization_without_adapter", {"load_in_4bit": True}),
    ("qlora_stored_otherwise", {**QLORA, "load_in_8bit": True}),
    ("qlora_without_4bit", {**LORA, "adapter": "qlora"}),
    ("quantized_twice", {**QLORA, "model_quantization_config": "Mxfp4Config"}),
    ("batch_size_with_accumulation", {"batch_size": 8}),
    (
        "batch_size_alone",
        {"batch_size": 8, "micro_batch_size": None, "gradient_accumulation_steps": None},
    ),
    ("attention_twice", {**FLASH, "flash_attention": True}),
    ("attention_name", {"attn_implementation": "flash"}),
    ("packing_with_rl", {**FLASH, "rl": "dpo", "sample_packing": True}),
    ("flattening_attention", {"attn_implementation": "sdpa", "batch_flattening": True}),
    ("flattening_with_packing", {**FLASH, "batch_flattening": True, "sample_packing": True}),
    (
        "several_losses",
        {"plugins": [CUT], "cut_cross_entropy": True, "chunked_cross_entropy": True},
    ),
    ("cut_cross_entropy_in_fp32", {"plugins": [CUT], "cut_cross_entropy": True, "bf16": False}),
    ("bf16_full", {"bf16": "full"}),
    ("offload_without_checkpointing", {"activation_offloading": True}),
    (
        "reentrant_partly_frozen",
        {
            "unfrozen_parameters": ["lm_head.*"],
            "gradient_checkpointing": True,
            "gradient_checkpointing_kwargs": {"use_reentrant": True},
        },
    ),
    ("selective_checkpointing_needs", {"selective_checkpointing": True}),
    ("lora_kernels_with", {**LORA, "lora_qkv_kernel": True, "load_in_8bit": True}),
    ("removed_option", {"unsloth_rope": True}),
    ("fp8_config_without_fp8", {"fp8_config": {"recipe": "tensorwise"}}),
    ("fsdp_with_deepspeed", {"deepspeed": {"bf16": {}}, "fsdp": ["full_shard"], **FSDP1}),
    (
        "fsdp_offload_8bit_optimizer",
        {
            "optimizer": "adamw_bnb_8bit",
            "fsdp_version": 1,
            "fsdp_config": {**FSDP1["fsdp_config"], "offload_params": True},
        },
    ),
    ("fsdp2_8bit_optimizer", {"optimizer": "adamw_8bit", **FSDP2}),
    (
        "fsdp2_efficient_loading_4bit",
        {**QLORA, "fsdp_version": 2, "fsdp_config": {**FSDP, "cpu_ram_efficient_loading": True}},
    ),
    ("fsdp2_quantized_rl", {**QLORA, **FSDP2, "rl": "dpo"}),
    ("optimizer_with_deepspeed", {"optimizer": "muon", "deepspeed": {"bf16": {}}}),
    ("optimizer_with_fsdp1", {"optimizer": "muon", **FSDP1}),
    ("lora_with_galore", {**LORA, "optimizer": "q_galore_adamw8bit"}),
    ("context_parallel_attention", {"context_parallel_size": 2, "attn_implementation": "sdpa"}),
    ("not_with_tensor_parallel", {**LIGER, "liger_rms_norm": True, "tensor_parallel_size": 2}),
    ("relora_needs", {"relora": True, "jagged_restart_steps": 100}),
    ("fp8_gather_needs_fsdp2", {"fp8": True, "fp8_enable_fsdp_float8_all_gather": True}),
]


def parsed(**config: Any) -> ParsedLaunch:  # noqa: ANN401 values of a YAML file
    return read_launch(Launch(framework="axolotl", config={**BASE, **config}))


def command(line: str, text: str = "base_model: gpt2\nmicro_batch_size: 1\n") -> ParsedLaunch:
    return read_launch(Launch(command=line, files={"a.yml": text}))


def codes(parse: ParsedLaunch) -> set[str]:
    return {one.code for one in parse.warnings}


@pytest.mark.parametrize(("rule", "config"), REFUSED, ids=[rule for rule, _ in REFUSED])
def test_what_the_schema_refuses_is_a_problem(rule: str, config: dict[str, Any]) -> None:
    assert rule in {one.rule for one in parsed(**config).problems}


@pytest.mark.parametrize(
    "config", [{}, LORA, QLORA, {**FLASH, "sample_packing": True}, FSDP2, {**LORA, "rl": "dpo"}]
)
def test_what_the_schema_takes_is_no_problem(config: dict[str, Any]) -> None:
    assert parsed(**config).problems == ()


@pytest.mark.parametrize(
    ("code", "config"),
    [
        ("batch_size_ignored", {"gradient_accumulation_steps": None, "batch_size": 8}),
        ("load_in_4bit_ignored", {**LORA, "load_in_4bit": True}),
        ("plugin_missing", {"liger_rms_norm": True}),
        ("model_overrides", {"overrides_of_model_config": {"num_hidden_layers": 2}}),
    ],
)
def test_what_has_another_effect_than_it_says_is_warned_of(
    code: str, config: dict[str, Any]
) -> None:
    assert code in codes(parsed(**config))


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        ({"load_in_8bit": True}, "int8"),
        ({"load_in_8bit": False}, None),
    ],
)
def test_lora_is_quantised_by_8_bits_only(value: dict[str, bool], bits: str | None) -> None:
    assert parsed(**LORA, **value).job["method"].get("quantization") == bits


def test_checkpointing_is_reentrant_unless_it_says_otherwise() -> None:
    plain = parsed(gradient_checkpointing=True).job["activation_checkpointing"]
    told = parsed(
        gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False}
    ).job["activation_checkpointing"]
    pairs = parsed(gradient_checkpointing=True, rl="dpo").job["activation_checkpointing"]

    assert [one["reentrant"] for one in (plain, told, pairs)] == [True, False, False]


def test_words_behind_the_dashes_are_the_launchers() -> None:
    parse = command("axolotl train a.yml --micro-batch-size 4 -- --num_processes 2")

    assert parse.job["micro_batch_size"] == 4
    assert parse.job["hardware"]["devices"] == 2


def test_a_switch_with_no_is_off() -> None:
    parse = command(
        "axolotl train a.yml --no-sample-packing -- --num_processes 1",
        "base_model: gpt2\nsample_packing: true\n",
    )

    assert parse.job.get("packing") != "packed"


@pytest.mark.parametrize("name", ["preprocess", "inference", "merge-lora"])
def test_a_command_that_does_not_train_says_nothing_of_a_job(name: str) -> None:
    parse = command(f"axolotl {name} a.yml")

    assert parse.job == {}
    assert [one.field for one in parse.unknown] == ["model"]


def test_a_file_that_is_not_there_makes_unknown_what_it_might_say() -> None:
    parse = read_launch(Launch(command="axolotl train other.yml --sequence-len 512"))
    fields = {one.field for one in parse.unknown}

    assert {"model", "precision", "optimizer", "sharding"} <= fields
    assert "sequence_length" not in fields
    assert parse.problems == ()


@pytest.mark.parametrize("odd", [3, 0.5, True, [], {}, [{}], {"a": []}, "", "no", None])
def test_values_of_any_type_are_read(odd: object) -> None:
    for name in (*BASE, *LORA, *FSDP2, "plugins", "fsdp", "deepspeed", "rl", "fp8_config"):
        parsed(**{name: odd})


def test_nested_values_of_any_type_are_read() -> None:
    odds: tuple[object, ...] = (3, True, [], {}, "x", None)
    for odd in odds:
        parsed(
            fsdp_config=dict.fromkeys(FSDP, odd),
            gradient_checkpointing_kwargs={"use_reentrant": odd},
            lora_modules_to_save=[odd],
            trl={"beta": odd},
        )
