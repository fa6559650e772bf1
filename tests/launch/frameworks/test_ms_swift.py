"""ms-swift's options: what it refuses, what it ignores, and the spellings of its versions."""

from typing import Any

import pytest

from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

BASE = {"model": "Qwen/Qwen2.5-0.5B", "tuner_type": "lora", "torch_dtype": "bfloat16"}
FULL = {"tuner_type": "full"}
BNB = {"quant_method": "bnb", "quant_bits": 4}

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("no_model", {"model": None}),
    ("joined_rows_attention", {"packing": True}),
    ("joined_rows_attention", {"padding_free": True, "attn_impl": "sdpa"}),
    ("quantization_without_lora", {**FULL, **BNB}),
    ("bitsandbytes_bits", {"quant_method": "bnb"}),
    ("bitsandbytes_bits", {"quant_method": "bnb", "quant_bits": 3}),
    ("fsdp_with_deepspeed", {"deepspeed": "zero2", "fsdp": "fsdp2"}),
    ("fp16_with_bf16", {"bf16": True, "fp16": True}),
]


def parsed(**config: Any) -> ParsedLaunch:  # noqa: ANN401 values of a YAML file
    return read_launch(Launch(framework="ms-swift", config={**BASE, **config}))


def command(options: str, **env: str) -> ParsedLaunch:
    return read_launch(Launch(command=f"swift {options}", env=env))


def codes(parse: ParsedLaunch) -> set[str]:
    return {one.code for one in parse.warnings}


@pytest.mark.parametrize(("rule", "config"), REFUSED)
def test_what_its_arguments_refuse_is_a_problem(rule: str, config: dict[str, Any]) -> None:
    assert rule in {one.rule for one in parsed(**config).problems}


@pytest.mark.parametrize(
    "config", [{}, FULL, BNB, {"packing": True, "attn_impl": "flash_attn"}, {"deepspeed": "zero3"}]
)
def test_what_its_arguments_take_is_no_problem(config: dict[str, Any]) -> None:
    assert parsed(**config).problems == ()


def test_bits_without_a_method_do_nothing() -> None:
    parse = parsed(quant_bits=4)

    assert "quant_bits_ignored" in codes(parse)
    assert parse.job["method"]["kind"] == "lora"


@pytest.mark.parametrize("name", ["tuner_type", "train_type"])
def test_each_version_names_the_method_its_way(name: str) -> None:
    assert command(f"sft --model gpt2 --{name} full").job["method"]["kind"] == "full"


def test_names_of_before_3_date_the_options() -> None:
    parse = command("sft --model_id_or_path gpt2 --sft_type lora --batch_size 2 --dtype bf16")

    assert parse.job["micro_batch_size"] == 2
    assert parse.job["software"]["stack"] == "ms-swift 2.6"


@pytest.mark.parametrize(
    ("env", "devices"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, 1),
        ({"NPROC_PER_NODE": "4"}, 4),
        ({"NPROC_PER_NODE": "4", "NNODES": "2"}, 8),
    ],
)
def test_processes_are_those_of_the_environment(env: dict[str, str], devices: int) -> None:
    assert command("sft --model gpt2", **env).job["hardware"]["devices"] == devices


@pytest.mark.parametrize(("name", "stage"), [("zero2", 2), ("zero3", 3), ("zero3_offload", 3)])
def test_a_short_name_is_a_file_of_its_own(name: str, stage: int) -> None:
    sharding = parsed(deepspeed=name).job["sharding"]

    assert sharding["zero_stage"] == stage
    assert (sharding.get("offload_optimizer") == "cpu") is name.endswith("offload")


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("pt --model gpt2", "pretrain"),
        ("rlhf --rlhf_type dpo --model gpt2", "dpo"),
        ("rlhf --rlhf_type kto --model gpt2", "kto"),
        ("rlhf --rlhf_type rm --model gpt2", "reward"),
    ],
)
def test_the_command_is_the_task(line: str, task: str) -> None:
    assert command(line).job["task"] == task


def test_a_task_that_is_not_estimated_is_unknown() -> None:
    parse = command("rlhf --rlhf_type grpo --model gpt2")

    assert "task" in {one.field for one in parse.unknown}
    assert "task_unknown_to_the_model" in codes(parse)


@pytest.mark.parametrize("line", ["infer --model gpt2", "export --model gpt2", "eval"])
def test_a_command_that_does_not_train_says_nothing_of_a_job(line: str) -> None:
    assert command(line).job == {}


def test_a_file_that_is_not_there_makes_unknown_what_it_might_say() -> None:
    parse = command("sft config.yaml --max_length 512")
    fields = {one.field for one in parse.unknown}

    assert {"model", "method", "precision", "sharding"} <= fields
    assert "sequence_length" not in fields
    assert parse.problems == ()


@pytest.mark.parametrize("odd", [3, 0.5, True, [], {}, [{}], {"a": []}, "", "no", None])
def test_values_of_any_type_are_read(odd: object) -> None:
    names = (*BASE, *BNB, "deepspeed", "fsdp", "target_modules", "modules_to_save", "optim")
    for name in (*names, "device_map", "rlhf_type", "attn_impl", "freeze_vit", "max_length"):
        parsed(**{name: odd})
