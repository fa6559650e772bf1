"""Configs that are refused: where, why, with the value and the way out."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.costmodel.families.catalog_rows import config_of
from vramgate.costmodel.families import architecture_from_config
from vramgate.errors import InvalidModelConfigError

LLAMA = "meta-llama/Llama-2-7b-hf"
MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"


def refusal_of(config: Mapping[str, object]) -> InvalidModelConfigError:
    with pytest.raises(InvalidModelConfigError) as caught:
        architecture_from_config(config)
    return caught.value


@pytest.mark.parametrize(
    ("name", "changes", "pointer", "code"),
    [
        (LLAMA, {"hidden_size": None}, "hidden_size", "missing"),
        (LLAMA, {"num_hidden_layers": None}, "num_hidden_layers", "missing"),
        (LLAMA, {"num_attention_heads": None}, "num_attention_heads", "missing"),
        (LLAMA, {"intermediate_size": None}, "intermediate_size", "missing"),
        (LLAMA, {"vocab_size": None}, "vocab_size", "missing"),
        (LLAMA, {"hidden_size": 0}, "hidden_size", "out_of_range"),
        (LLAMA, {"hidden_size": -4096}, "hidden_size", "out_of_range"),
        (LLAMA, {"hidden_size": 2**20 + 1}, "hidden_size", "out_of_range"),
        (LLAMA, {"num_hidden_layers": 10_001}, "num_hidden_layers", "out_of_range"),
        (LLAMA, {"vocab_size": 2**27 + 1}, "vocab_size", "out_of_range"),
        (LLAMA, {"vocab_size": 10**5000}, "vocab_size", "out_of_range"),
        (LLAMA, {"hidden_size": True}, "hidden_size", "type"),
        (LLAMA, {"hidden_size": 4096.0}, "hidden_size", "type"),
        (LLAMA, {"hidden_size": "4096"}, "hidden_size", "type"),
        (LLAMA, {"hidden_size": [4096]}, "hidden_size", "type"),
        (LLAMA, {"attention_bias": "yes"}, "attention_bias", "type"),
        (LLAMA, {"attention_bias": 1}, "attention_bias", "type"),
        (LLAMA, {"attention_dropout": 1.5}, "attention_dropout", "out_of_range"),
        (LLAMA, {"attention_dropout": float("nan")}, "attention_dropout", "out_of_range"),
        (LLAMA, {"attention_dropout": "0.1"}, "attention_dropout", "type"),
        (LLAMA, {"hidden_act": 7}, "hidden_act", "type"),
        (LLAMA, {"hidden_act": "a" * 1000}, "hidden_act", "type"),
        (LLAMA, {"model_type": 7}, "model_type", "type"),
        (LLAMA, {"architectures": "LlamaForCausalLM"}, "architectures", "type"),
        (LLAMA, {"num_attention_heads": 30}, "num_attention_heads", "contradiction"),
        (LLAMA, {"num_key_value_heads": 5}, "num_key_value_heads", "contradiction"),
        (LLAMA, {"n_embd": 2048}, "n_embd", "contradiction"),
        (MIXTRAL, {"num_experts_per_tok": 9}, "num_experts_per_tok", "contradiction"),
        (MIXTRAL, {"num_local_experts": 2**16 + 1}, "num_local_experts", "out_of_range"),
        ("google/gemma-2-9b", {"layer_types": ["full_attention"]}, "layer_types", "contradiction"),
        ("Qwen/Qwen2.5-7B", {"num_key_value_heads": None}, "num_key_value_heads", "contradiction"),
        ("EleutherAI/gpt-j-6b", {"rotary_dim": 512}, "rotary_dim", "contradiction"),
        ("deepseek-ai/DeepSeek-V3", {"q_lora_rank": None}, "q_lora_rank", "missing"),
        ("openai-community/gpt2", {"add_cross_attention": True}, "add_cross_attention", "invalid"),
        (
            "google-bert/bert-base-uncased",
            {"architectures": ["BertForFun"]},
            "architectures",
            "invalid",
        ),
        ("google/vit-base-patch16-224", {"patch_size": 500}, "patch_size", "contradiction"),
        ("google/gemma-3-4b-pt", {"vision_config": None}, "vision_config", "missing"),
        ("google/gemma-3-4b-pt", {"vision_config": 7}, "vision_config", "type"),
        (
            "llava-hf/llava-1.5-7b-hf",
            {"vision_feature_layer": []},
            "vision_feature_layer",
            "invalid",
        ),
    ],
)
def test_a_wrong_key_is_pointed_to(
    name: str, changes: dict[str, Any], pointer: str, code: str
) -> None:
    refusal = refusal_of(config_of(name, **changes))

    (field,) = refusal.fields
    assert (field.pointer, field.code) == (f"/model/config/{pointer}", code)


def test_a_nested_key_is_pointed_to() -> None:
    config = config_of("google/gemma-3-4b-pt")
    config["text_config"] = {**config["text_config"], "hidden_size": -1}

    (field,) = refusal_of(config).fields

    assert field.pointer == "/model/config/text_config/hidden_size"


def test_a_missing_key_names_the_way_out() -> None:
    refusal = refusal_of({"model_type": "llama"})

    assert "hidden_size" in refusal.message
    assert "config.json" in refusal.hint


def test_a_contradiction_names_both_values() -> None:
    refusal = refusal_of(config_of(LLAMA, num_attention_heads=30))

    assert "30 heads do not divide hidden_size 4096" in refusal.message


def test_heads_need_not_divide_where_head_dim_is_given() -> None:
    config = config_of(LLAMA, num_attention_heads=30, num_key_value_heads=30, head_dim=128)

    attention = architecture_from_config(config).decoder.blocks[0].attention

    assert attention is not None
    assert attention.query_size == 30 * 128


def test_sizes_that_are_fine_alone_may_be_absurd_together() -> None:
    config = config_of(MIXTRAL, hidden_size=2**20, intermediate_size=2**22, num_hidden_layers=1000)

    (field,) = refusal_of(config).fields

    assert (field.pointer, field.code) == ("/model/config", "out_of_range")


@pytest.mark.parametrize("config", [None, [], "llama", 7])
def test_what_is_no_object_is_refused(config: Mapping[str, object]) -> None:
    assert refusal_of(config).fields[0].pointer == "/model/config"


def test_an_empty_config_is_refused() -> None:
    assert refusal_of({}).fields[0].code == "missing"


def test_the_value_is_echoed_only_where_it_is_short() -> None:
    short = refusal_of(config_of(LLAMA, hidden_size=-1))
    long = refusal_of(config_of(LLAMA, hidden_size=10**400))

    assert short.fields[0].value == -1
    assert long.fields[0].value is None
