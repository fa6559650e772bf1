"""LLaMA-Factory's arguments: what it refuses, its launcher's devices, and what its versions change."""

from typing import Any

import pytest

from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

BASE = {
    "model_name_or_path": "Qwen/Qwen2.5-0.5B",
    "stage": "sft",
    "finetuning_type": "lora",
    "cutoff_len": 1024,
    "bf16": True,
}
FULL = {"finetuning_type": "full"}
GALORE = {**FULL, "use_galore": True}
ZERO_3 = {"deepspeed": {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}}
FILE = "model_name_or_path: gpt2\nfinetuning_type: lora\nstage: sft\n"

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("no_model", {"model_name_or_path": None}),
    ("quantization_without_lora", {**FULL, "quantization_bit": 4}),
    ("bitsandbytes_bits", {"quantization_bit": 3}),
    ("int8_sharded", {**ZERO_3, "quantization_bit": 8}),
    ("not_with_quantization", {"quantization_bit": 4, "resize_vocab": True}),
    ("not_with_quantization", {"quantization_bit": 4, "pissa_init": True}),
    ("adapter_without_lora", {**FULL, "adapter_name_or_path": "out/adapter"}),
    ("lora_option_without_lora", {**FULL, "use_rslora": True}),
    ("lora_option_without_lora", {**FULL, "loraplus_lr_ratio": 16}),
    ("several_optimizers", {**GALORE, "use_apollo": True}),
    ("lora_with_galore", {"use_galore": True}),
    ("galore_with_deepspeed", {**GALORE, **ZERO_3}),
    ("galore_optim", {**GALORE, "optim": "lion_32bit"}),
    (
        "layerwise_accumulation",
        {**GALORE, "galore_layerwise": True, "gradient_accumulation_steps": 2},
    ),
    ("not_with_zero_3", {**ZERO_3, **FULL, "pure_bf16": True}),
    ("not_with_zero_3", {**ZERO_3, "use_unsloth": True}),
    ("neat_packing_without_sft", {"stage": "dpo", "neat_packing": True}),
    ("llama_pro_with_full", {**FULL, "use_llama_pro": True}),
    ("ppo_without_reward_model", {"stage": "ppo"}),
    ("fp16_with_bf16", {"fp16": True}),
]


def parsed(**config: Any) -> ParsedLaunch:  # noqa: ANN401 values of a YAML file
    return read_launch(Launch(framework="llama_factory", config={**BASE, **config}))


def command(line: str, **env: str) -> ParsedLaunch:
    return read_launch(Launch(command=line, files={"a.yaml": FILE}, env=env))


def codes(parse: ParsedLaunch) -> set[str]:
    return {one.code for one in parse.warnings}


@pytest.mark.parametrize(("rule", "config"), REFUSED)
def test_what_its_checks_refuse_is_a_problem(rule: str, config: dict[str, Any]) -> None:
    assert rule in {one.rule for one in parsed(**config).problems}


@pytest.mark.parametrize(
    "config",
    [
        {},
        FULL,
        GALORE,
        {"quantization_bit": 4},
        {"neat_packing": True},
        {"stage": "dpo", "pref_beta": 0.1},
        {**ZERO_3, **FULL},
    ],
)
def test_what_its_checks_take_is_no_problem(config: dict[str, Any]) -> None:
    assert parsed(**config).problems == ()


@pytest.mark.parametrize(
    ("rule", "config"),
    [
        ("layerwise_distributed", "use_galore=true galore_layerwise=true"),
        ("badam_distributed", "use_badam=true"),
    ],
)
def test_what_is_for_one_device_is_refused_on_several(rule: str, config: str) -> None:
    line = f"llamafactory-cli train a.yaml finetuning_type=full {config}"

    alone = command(line, CUDA_VISIBLE_DEVICES="0")
    several = command(line, FORCE_TORCHRUN="1", NPROC_PER_NODE="2")

    assert rule not in {one.rule for one in alone.problems}
    assert rule in {one.rule for one in several.problems}


@pytest.mark.parametrize(
    ("env", "devices", "per_node"),
    [
        ({"CUDA_VISIBLE_DEVICES": "3"}, 1, 1),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2"}, 3, 3),
        ({"FORCE_TORCHRUN": "1", "NNODES": "2", "NPROC_PER_NODE": "4"}, 8, 4),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "NNODES": "2"}, 4, 2),
    ],
)
def test_the_launcher_starts_a_process_for_each_device(
    env: dict[str, str], devices: int, per_node: int
) -> None:
    hardware = command("llamafactory-cli train a.yaml", **env).job["hardware"]

    assert (hardware["devices"], hardware["devices_per_node"]) == (devices, per_node)


def test_nodes_that_may_come_and_go_leave_the_devices_unknown() -> None:
    parse = command(
        "llamafactory-cli train a.yaml",
        FORCE_TORCHRUN="1",
        MIN_NNODES="1",
        MAX_NNODES="3",
        RDZV_ID="run",
        NPROC_PER_NODE="2",
    )

    assert "hardware.devices" in {one.field for one in parse.unknown}


def test_ray_starts_its_workers_instead() -> None:
    parse = command("llamafactory-cli train a.yaml ray_num_workers=4", USE_RAY="1")

    assert parse.job["hardware"]["devices"] == 4


def test_the_other_llama_factory_is_not_read() -> None:
    parse = command("llamafactory-cli train a.yaml", USE_V1="1", CUDA_VISIBLE_DEVICES="0")

    assert "llama_factory_v1" in codes(parse)
    assert "model" in {one.field for one in parse.unknown}


def test_a_configuration_of_the_other_llama_factory_is_no_invalid_job() -> None:
    # Keys of examples/v1/train_lora/train_lora_sft.yaml.
    config = {"model": "Qwen/Qwen3-4B", "model_class": "llm", "peft_config": {"name": "lora"}}
    parse = read_launch(Launch(framework="llama_factory", config=config))

    assert parse.problems == ()
    assert "model" in {one.field for one in parse.unknown}
    assert codes(parse) == {"llama_factory_v1"}


def test_words_of_the_command_count_over_the_file() -> None:
    parse = command(
        "llamafactory-cli train a.yaml finetuning_type=full cutoff_len=512",
        CUDA_VISIBLE_DEVICES="0",
    )

    assert parse.job["method"]["kind"] == "full"
    assert parse.job["sequence_length"] == 512
    assert parse.job["model"]["name"] == "gpt2"


def test_a_file_that_is_not_there_makes_unknown_what_it_might_say() -> None:
    parse = read_launch(Launch(command="llamafactory-cli train b.yaml cutoff_len=512"))
    fields = {one.field for one in parse.unknown}

    assert {"model", "method", "precision", "micro_batch_size"} <= fields
    assert "sequence_length" not in fields
    assert parse.problems == ()


def test_a_resized_vocabulary_trains_with_the_adapters() -> None:
    parse = parsed(resize_vocab=True)

    assert "resized_vocabulary" in codes(parse)
    assert "method.modules_to_save" in {one.field for one in parse.unknown}


def test_modules_trained_whole_are_named() -> None:
    method = parsed(additional_target="embed_tokens,lm_head").job["method"]

    assert method["modules_to_save"] == ["embed_tokens", "lm_head"]


@pytest.mark.parametrize(
    ("target", "modules"),
    [("all", "all-linear"), ("q_proj,v_proj", ["q_proj", "v_proj"]), (["q_proj"], ["q_proj"])],
)
def test_targets_are_all_or_names(target: object, modules: object) -> None:
    assert parsed(lora_target=target).job["method"]["target_modules"] == modules


@pytest.mark.parametrize("odd", [3, 0.5, True, [], {}, [{}], {"a": []}, "", "no", None])
def test_values_of_any_type_are_read(odd: object) -> None:
    names = (*BASE, *GALORE, "deepspeed", "fsdp", "fsdp_config", "lora_target", "optim")
    for name in (*names, "quantization_bit", "additional_target", "freeze_trainable_layers"):
        parsed(**{name: odd})
