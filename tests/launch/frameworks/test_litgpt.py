"""litgpt's config_hub, its order of options, and configurations that mean harm."""

from collections.abc import Mapping
from typing import Any

import pytest

from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.frameworks.litgpt.config import hub_files
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch


def read(config: Mapping[str, Any]) -> ParsedLaunch:
    return read_launch(Launch(framework="litgpt", config=config))


@pytest.mark.parametrize("name", sorted(hub_files()))
def test_a_file_of_the_hub_is_read_without_a_problem(name: str) -> None:
    kind, *_, file = name.split("/")
    trainers = {"full.yaml": "finetune_full"}
    trainer = "pretrain" if kind == "pretrain" else trainers.get(file, "finetune_lora")

    parsed = read_launch(Launch(command=f"litgpt {trainer} --config config_hub/{name} --devices 1"))

    assert parsed.problems == ()
    assert {one.field for one in parsed.unknown} <= {"sequence_length"}
    assert {"name", "config"} & set(parsed.job["model"])


def test_values_of_the_hub_are_listed_as_assumptions() -> None:
    parsed = read_launch(
        Launch(command="litgpt finetune_lora --config config_hub/finetune/phi-2/lora.yaml")
    )

    assert "micro_batch_size" in {one.field for one in parsed.assumptions}


@pytest.mark.parametrize(
    "command",
    ["litgpt download microsoft/phi-2", "litgpt generate microsoft/phi-2", "litgpt"],
)
def test_commands_that_do_not_train_say_no_job(command: str) -> None:
    assert "model" not in read_launch(Launch(command=command)).job


def test_an_object_on_the_command_line_is_taken_apart() -> None:
    optimizer = '{"class_path": "bitsandbytes.optim.PagedAdamW8bit", "init_args": {"lr": 1e-4}}'
    command = ["litgpt", "finetune_full", "google/gemma-2b", "--optimizer", optimizer]

    parsed = read_launch(Launch(command=command))

    assert parsed.job["optimizer"]["name"] == "paged_adamw_8bit"


def test_an_objects_keys_tell_its_trainer() -> None:
    parsed = read({"model_name": "pythia-160m", "devices": 2, "train": {"max_seq_length": 512}})

    assert parsed.job["task"] == "pretrain"
    assert parsed.job["sharding"]["shard_group_size"] == 2


def test_a_model_config_of_another_kind_is_unknown() -> None:
    own = {"n_layer": 2, "n_embd": 64, "n_head": 4, "mlp_class_name": "GptNeoxMLP"}

    parsed = read({"model_name": "mine", "model_config": own, "devices": 1})

    assert "model.config" in {one.field for one in parsed.unknown}


def test_devices_are_a_positive_number() -> None:
    parsed = read_launch(Launch(command="litgpt finetune_full google/gemma-2b --devices 0"))

    assert "devices_not_positive" in {one.rule for one in parsed.problems}


def test_values_of_any_type_are_read() -> None:
    wrong: list[Any] = [None, [], {}, [{}], "text", -1, 0, 1.5, True, {"a": {"b": []}}]
    keys = ("checkpoint_dir", "precision", "quantize", "devices", "num_nodes", "lora_r", "lora_key")
    nested = {
        "train": ("micro_batch_size", "global_batch_size", "max_seq_length"),
        "optimizer": ("class_path", "init_args"),
        "model_config": ("n_layer", "n_embd", "n_head", "mlp_class_name"),
    }

    for value in wrong:
        read(dict.fromkeys((*keys, *nested), value))
        read({section: dict.fromkeys(names, value) for section, names in nested.items()})
        for key in keys:
            read({key: value, "model_name": "x"})
