"""Configs that are refused: where, why, with the value and the way out."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.costmodel.families.catalog_rows import config_of
from vramgate.costmodel.families import architecture_from_config
from vramgate.errors import InvalidModelConfigError

LLAMA = "meta-llama/Llama-2-7b-hf"
MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"
ALBERT = "albert/albert-base-v2"
WAV2VEC2 = "facebook/wav2vec2-base"
DEEPSEEK_V4 = "deepseek-ai/DeepSeek-V4-Flash"
DEBERTA = "microsoft/deberta-v3-base"
BERT = "google-bert/bert-base-uncased"
GPT_NEO = "EleutherAI/gpt-neo-125m"
QWEN3_NEXT = "Qwen/Qwen3-Next-80B-A3B-Instruct"
NEMOTRON_H = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
EXAONE_PATTERN = {"sliding_window_pattern": "LLX", "layer_types": None}


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
        (ALBERT, {"num_hidden_groups": 20}, "num_hidden_groups", "contradiction"),
        (ALBERT, {"inner_group_num": 1000}, "inner_group_num", "out_of_range"),
        (ALBERT, {"position_embedding_type": 3}, "position_embedding_type", "type"),
        (WAV2VEC2, {"architectures": ["Wav2Vec2ForFun"]}, "architectures", "invalid"),
        (WAV2VEC2, {"conv_dim": None}, "conv_dim", "missing"),
        (WAV2VEC2, {"conv_dim": 512}, "conv_dim", "type"),
        (WAV2VEC2, {"conv_kernel": [10]}, "conv_kernel", "contradiction"),
        (WAV2VEC2, {"conv_kernel": [10] * 10_001}, "conv_kernel", "too_long"),
        (
            WAV2VEC2,
            {"num_conv_pos_embedding_groups": 7},
            "num_conv_pos_embedding_groups",
            "contradiction",
        ),
        ("mosaicml/mpt-7b", {"attn_config": {"qk_ln": True}}, "attn_config/qk_ln", "invalid"),
        (DEEPSEEK_V4, {"compress_ratios": [0]}, "compress_ratios", "invalid"),
        (DEEPSEEK_V4, {"layer_types": ["full"] * 43}, "layer_types", "invalid"),
        (DEEPSEEK_V4, {"o_groups": 7}, "o_groups", "contradiction"),
        (DEBERTA, {"conv_kernel_size": 3, "conv_groups": 7}, "conv_groups", "contradiction"),
        ("microsoft/deberta-base", {"pos_att_type": 3}, "pos_att_type", "type"),
        (BERT, {"position_embedding_type": "relative_key"}, "position_embedding_type", "invalid"),
        (BERT, {"num_attention_heads": 7}, "num_attention_heads", "contradiction"),
        ("facebook/bart-base", {"architectures": ["BartForFun"]}, "architectures", "invalid"),
        ("google-t5/t5-small", {"architectures": ["T5ForFun"]}, "architectures", "invalid"),
        ("google/vit-base-patch16-224", {"architectures": ["ViTFun"]}, "architectures", "invalid"),
        ("answerdotai/ModernBERT-base", {"architectures": ["Fun"]}, "architectures", "invalid"),
        ("openai/clip-vit-base-patch32", {"architectures": ["Fun"]}, "architectures", "invalid"),
        (
            "google/gemma-3n-E2B",
            {"num_kv_shared_layers": 99},
            "num_kv_shared_layers",
            "contradiction",
        ),
        (GPT_NEO, {"attention_types": 3}, "attention_types", "type"),
        (GPT_NEO, {"attention_types": [["global", "local"]]}, "attention_types", "type"),
        (GPT_NEO, {"attention_types": [[["global"], 3]]}, "attention_types", "contradiction"),
        (GPT_NEO, {"attention_types": [[["global"], 10**9]]}, "attention_types", "contradiction"),
        ("LGAI-EXAONE/EXAONE-4.0-32B", EXAONE_PATTERN, "sliding_window_pattern", "invalid"),
        (QWEN3_NEXT, {"linear_num_key_heads": 7}, "linear_num_key_heads", "contradiction"),
        (
            "LiquidAI/LFM2-350M",
            {"block_ffn_dim_multiplier": "2"},
            "block_ffn_dim_multiplier",
            "type",
        ),
        (
            "LiquidAI/LFM2-350M",
            {"block_ffn_dim_multiplier": -1},
            "block_ffn_dim_multiplier",
            "out_of_range",
        ),
        ("databricks/dbrx-base", {"ffn_config": None}, "ffn_config", "missing"),
        (NEMOTRON_H, {"hybrid_override_pattern": None}, "hybrid_override_pattern", "missing"),
        (NEMOTRON_H, {"hybrid_override_pattern": "MX"}, "hybrid_override_pattern", "invalid"),
        (NEMOTRON_H, {"layers_block_type": ["fun"]}, "layers_block_type", "invalid"),
        (NEMOTRON_H, {"num_hidden_layers": 3}, "num_hidden_layers", "contradiction"),
        ("google/recurrentgemma-2b", {"block_types": ["fun"]}, "block_types", "invalid"),
        ("google/recurrentgemma-2b", {"lru_width": 2561}, "lru_width", "contradiction"),
        ("mistralai/Mamba-Codestral-7B-v0.1", {"num_heads": 7}, "num_heads", "contradiction"),
        ("Qwen/Qwen2.5-VL-3B-Instruct", {"vision_config": None}, "vision_config", "missing"),
        ("zai-org/GLM-5", {"q_lora_rank": None}, "q_lora_rank", "missing"),
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


def test_a_query_latent_is_needed_by_the_indexer() -> None:
    config = {**config_of("zai-org/GLM-5"), "q_lora_rank": None}

    (field,) = refusal_of(config).fields

    assert field.pointer == "/model/config/q_lora_rank"
    assert "indexer" in field.detail


def test_an_unknown_tower_is_refused() -> None:
    config = config_of("llava-hf/llava-1.5-7b-hf")
    config["vision_config"] = {**config["vision_config"], "model_type": "fun"}

    refusal = refusal_of(config)

    assert refusal.fields[0].pointer == "/model/config/vision_config/model_type"
    assert "siglip_vision_model" in refusal.hint


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
