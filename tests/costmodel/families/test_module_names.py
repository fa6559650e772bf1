"""Module names as transformers 5.24 (experts: 4.57) has them: what LoRA targets are matched against."""

import pytest

from tests.costmodel.families.catalog_rows import config_of
from vramgate.costmodel.architecture import ModuleKind
from vramgate.costmodel.families import architecture_from_config

LINEAR_PATHS = {
    "meta-llama/Llama-2-7b-hf": {
        "self_attn.q_proj": "query",
        "self_attn.k_proj": "key",
        "self_attn.v_proj": "value",
        "self_attn.o_proj": "attention_output",
        "mlp.gate_proj": "gate",
        "mlp.up_proj": "up",
        "mlp.down_proj": "down",
    },
    "microsoft/Phi-3-mini-4k-instruct": {
        "self_attn.qkv_proj": "qkv",
        "self_attn.o_proj": "attention_output",
        "mlp.gate_up_proj": "gate_up",
        "mlp.down_proj": "down",
    },
    "microsoft/phi-2": {
        "self_attn.q_proj": "query",
        "self_attn.k_proj": "key",
        "self_attn.v_proj": "value",
        "self_attn.dense": "attention_output",
        "mlp.fc1": "up",
        "mlp.fc2": "down",
    },
    "Qwen/Qwen-7B": {
        "attn.c_attn": "qkv",
        "attn.c_proj": "attention_output",
        "mlp.w1": "up",
        "mlp.w2": "gate",
        "mlp.c_proj": "down",
    },
    "openai-community/gpt2": {
        "attn.c_attn": "qkv",
        "attn.c_proj": "attention_output",
        "mlp.c_fc": "up",
        "mlp.c_proj": "down",
    },
    "mosaicml/mpt-7b": {
        "attn.Wqkv": "qkv",
        "attn.out_proj": "attention_output",
        "ffn.up_proj": "up",
        "ffn.down_proj": "down",
    },
    "tiiuae/falcon-7b": {
        "self_attention.query_key_value": "qkv",
        "self_attention.dense": "attention_output",
        "mlp.dense_h_to_4h": "up",
        "mlp.dense_4h_to_h": "down",
    },
    "EleutherAI/pythia-1.4b": {
        "attention.query_key_value": "qkv",
        "attention.dense": "attention_output",
        "mlp.dense_h_to_4h": "up",
        "mlp.dense_4h_to_h": "down",
    },
    "baichuan-inc/Baichuan2-7B-Base": {
        "self_attn.W_pack": "qkv",
        "self_attn.o_proj": "attention_output",
        "mlp.gate_proj": "gate",
        "mlp.up_proj": "up",
        "mlp.down_proj": "down",
    },
    "THUDM/chatglm3-6b": {
        "self_attention.query_key_value": "qkv",
        "self_attention.dense": "attention_output",
        "mlp.dense_h_to_4h": "gate_up",
        "mlp.dense_4h_to_h": "down",
    },
    "deepseek-ai/DeepSeek-V3": {
        "self_attn.q_a_proj": "query_down",
        "self_attn.q_b_proj": "query_up",
        "self_attn.kv_a_proj_with_mqa": "kv_down",
        "self_attn.kv_b_proj": "kv_up",
        "self_attn.o_proj": "attention_output",
        "mlp.gate_proj": "gate",
        "mlp.up_proj": "up",
        "mlp.down_proj": "down",
    },
    "google-bert/bert-base-uncased": {
        "attention.self.query": "query",
        "attention.self.key": "key",
        "attention.self.value": "value",
        "attention.output.dense": "attention_output",
        "intermediate.dense": "up",
        "output.dense": "down",
    },
    "google/vit-base-patch16-224": {
        "attention.q_proj": "query",
        "attention.k_proj": "key",
        "attention.v_proj": "value",
        "attention.o_proj": "attention_output",
        "mlp.fc1": "up",
        "mlp.fc2": "down",
    },
    "google-t5/t5-small": {
        "layer.0.SelfAttention.q": "query",
        "layer.0.SelfAttention.k": "key",
        "layer.0.SelfAttention.v": "value",
        "layer.0.SelfAttention.o": "attention_output",
        "layer.1.DenseReluDense.wi": "up",
        "layer.1.DenseReluDense.wo": "down",
    },
}


@pytest.mark.parametrize("name", LINEAR_PATHS)
def test_the_first_blocks_linear_layers_bear_the_frameworks_names(name: str) -> None:
    block = architecture_from_config(config_of(name)).stacks[0].blocks[0]

    assert {m.path: m.role for m in block.modules if m.is_linear} == LINEAR_PATHS[name]


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        (
            "mistralai/Mixtral-8x7B-v0.1",
            [
                "block_sparse_moe.experts.w1",
                "block_sparse_moe.experts.w3",
                "block_sparse_moe.experts.w2",
            ],
        ),
        (
            "Qwen/Qwen3-30B-A3B",
            ["mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.down_proj"],
        ),
        ("openai/gpt-oss-20b", ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]),
    ],
)
def test_experts_bear_the_names_of_version_4_without_their_index(
    name: str, paths: list[str]
) -> None:
    architecture = architecture_from_config(config_of(name))
    block = architecture.decoder.blocks[0]

    experts = [m for m in block.modules if m.kind is ModuleKind.EXPERTS]

    assert [module.path for module in experts] == paths
    assert block.experts is not None
    assert {module.copies for module in experts} == {block.experts.num_experts}


def test_gpt2_has_transposed_linear_layers() -> None:
    block = architecture_from_config(config_of("openai-community/gpt2")).decoder.blocks[0]

    assert {m.kind for m in block.modules if m.is_linear} == {ModuleKind.CONV1D}


def test_layers_state_where_they_live() -> None:
    llama = architecture_from_config(config_of("meta-llama/Llama-2-7b-hf"))
    gemma = architecture_from_config(config_of("google/gemma-3-4b-pt"))

    assert llama.decoder.path == "model.layers"
    assert gemma.decoder.path == "model.language_model.layers"


def test_vit_keeps_the_names_it_had_before_version_5() -> None:
    block = architecture_from_config(config_of("google/vit-base-patch16-224")).decoder.blocks[0]

    former = {m.former_path for m in block.modules if m.is_linear}
    assert "attention.attention.query" in former
    assert "intermediate.dense" in former


def test_the_head_of_a_tied_model_is_absent() -> None:
    tied = architecture_from_config(config_of("openai-community/gpt2"))
    untied = architecture_from_config(config_of("meta-llama/Llama-2-7b-hf"))

    assert not [m for m in tied.outside if m.role == "head"]
    assert [m.path for m in untied.outside if m.role == "head"] == ["lm_head"]


def test_the_tower_stands_before_the_text_model() -> None:
    architecture = architecture_from_config(config_of("Qwen/Qwen2.5-VL-3B-Instruct"))

    assert [stack.name for stack in architecture.stacks] == ["vision", "decoder"]
    assert architecture.decoder.hidden_size == architecture.hidden_size
