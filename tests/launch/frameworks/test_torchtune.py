"""torchtune's packaged configurations and builders, and configurations that mean harm."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from vramgate.catalog.models import builtin_models
from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.frameworks.torchtune.config import packaged_config, packaged_recipes
from vramgate.launch.frameworks.torchtune.models import MODELS, TIED, builder_of
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

FACTS = Path(__file__).parents[1] / "facts"
BUILDERS: Mapping[str, Mapping[str, int]] = json.loads(
    (FACTS / "torchtune_builders.json").read_text()
)
PACKAGED: Mapping[str, Any] = json.loads(
    (
        Path(__file__).parents[3] / "service/vramgate/launch/frameworks/torchtune/recipes.json"
    ).read_text()
)
NAMES = {
    "embed_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "intermediate_dim": "intermediate_size",
    "vocab_size": "vocab_size",
}
NOT_IN_THE_CATALOG = frozenset({"llama3_2_vision_90b"})
# torchtune splits the vision model's cross-attention layers off; transformers counts them among 40,
# and eight more tokens for images.
OTHERWISE_COUNTED = frozenset({"llama3_2_vision_11b"})
# The same function by another name: models/llama3_3/_model_builders.py.
OTHER_NAMES = {"llama3_3_70b": "llama3_1_70b"}


def read(config: Mapping[str, Any]) -> ParsedLaunch:
    return read_launch(Launch(framework="torchtune", config=config))


@pytest.mark.parametrize("builder", sorted(set(MODELS) - NOT_IN_THE_CATALOG - OTHERWISE_COUNTED))
def test_a_builder_builds_the_model_of_the_catalog(builder: str) -> None:
    sizes = BUILDERS[OTHER_NAMES.get(builder, builder)]

    config = builtin_models().resolve(MODELS[builder]).entry.config

    assert config is not None
    assert {NAMES[name]: size for name, size in sizes.items()} == {
        NAMES[name]: config[NAMES[name]] for name in sizes
    }


@pytest.mark.parametrize("builder", sorted(set(MODELS) - NOT_IN_THE_CATALOG - OTHERWISE_COUNTED))
def test_tied_builders_are_those_of_tied_models(builder: str) -> None:
    config = builtin_models().resolve(MODELS[builder]).entry.config

    assert config is not None
    assert (builder in TIED) == config["tie_word_embeddings"]


def test_every_builder_of_a_language_model_is_known() -> None:
    others = {"clip_text_vit_large_patch14", "clip_vit_224_transform", "t5_v1_1_xxl_encoder"}
    unknown = {builder_of(name) for name in BUILDERS} - set(MODELS) - others

    assert all("reward" in name for name in unknown)


@pytest.mark.parametrize("name", sorted(PACKAGED["configs"]))
def test_a_packaged_configuration_is_read_without_a_problem(name: str) -> None:
    config = packaged_config(name)
    assert config is not None

    parsed = read(config)

    models_of_ppo = {"loss", "model.name"} if "policy_model" in config else set()
    assert parsed.problems == ()
    assert {one.field for one in parsed.unknown} <= {"sequence_length"} | models_of_ppo
    assert "model.name" in parsed.provenance


def test_every_recipe_that_trains_has_a_configuration() -> None:
    assert len(packaged_recipes()) == 19
    assert len(PACKAGED["configs"]) == 138


def test_packaged_values_are_listed_as_assumptions() -> None:
    parsed = read_launch(
        Launch(command="tune run lora_finetune_single_device --config phi3/mini_lora_single_device")
    )

    listed = {one.field: one.source for one in parsed.assumptions}

    assert listed["micro_batch_size"].endswith("phi3/mini_lora_single_device: batch_size")
    assert listed["hardware.devices"] == "torchtune lora_finetune_single_device"


def test_an_override_is_no_assumption() -> None:
    command = (
        "tune run lora_finetune_single_device --config phi3/mini_lora_single_device batch_size=4"
    )

    listed = {one.field for one in read_launch(Launch(command=command)).assumptions}

    assert "micro_batch_size" not in listed


@pytest.mark.parametrize(
    "command",
    [
        "tune download meta-llama/Llama-3.2-1B",
        "tune ls",
        "tune run generate --config generation",
        "tune run",
    ],
)
def test_commands_that_do_not_train_say_no_job(command: str) -> None:
    assert "model" not in read_launch(Launch(command=command)).job


def test_references_in_a_circle_are_out_of_sight() -> None:
    parsed = read({"batch_size": "${a}", "a": "${b}", "b": "${a}"})

    assert "micro_batch_size" in {one.field for one in parsed.unknown}


def test_references_that_multiply_stay_small() -> None:
    config = {f"k{i}": f"${{k{i + 1}}}${{k{i + 1}}}" for i in range(64)}
    started = time.monotonic()

    read({**config, "k64": "x", "dtype": "${k0}"})

    assert time.monotonic() - started < 2


def test_long_chains_of_references_end() -> None:
    chain = {f"k{i}": f"${{k{i + 1}}}" for i in range(5000)}

    parsed = read({**chain, "k5000": 2, "batch_size": "${k0}"})

    assert "micro_batch_size" in {one.field for one in parsed.unknown}


def test_values_of_any_type_are_read() -> None:
    wrong: list[Any] = [None, [], {}, [{}], "text", -1, 1.5, True, {"a": {"b": []}}]
    keys = ("model", "tokenizer", "dataset", "optimizer", "loss", "batch_size", "dtype", "ac_mode")

    for value in wrong:
        read(dict.fromkeys(keys, value))
        for key in keys:
            read({key: {"_component_": value, "lora_attn_modules": value, "packed": value}})


def test_a_batch_that_is_no_number_is_a_problem() -> None:
    assert [one.rule for one in read({"batch_size": "two"}).problems] == ["not_a_value"]
