"""The shapes the blocks are computed from: layouts, windows, rotation, dropout, caps, heads, classes.

Expected values are those of the modeling and configuration files in transformers 5.24.
"""

import pytest

from tests.costmodel.families.catalog_rows import config_of
from vramgate.costmodel.architecture import (
    Attention,
    AttentionKind,
    Block,
    BlockLayout,
    ModelArchitecture,
    ModelClass,
    NormKind,
    Position,
)
from vramgate.costmodel.families import architecture_from_config


def built(name: str, **changes: object) -> ModelArchitecture:
    return architecture_from_config(config_of(name, **changes))


def attention_of(block: Block) -> Attention:
    assert block.attention is not None
    return block.attention


@pytest.mark.parametrize(
    ("name", "layout", "norm"),
    [
        ("meta-llama/Llama-2-7b-hf", BlockLayout.PRE_NORM, NormKind.RMS),
        ("openai-community/gpt2", BlockLayout.PRE_NORM, NormKind.LAYER),
        ("google/gemma-2-9b", BlockLayout.SANDWICH, NormKind.RMS_PLUS_ONE),
        ("allenai/OLMo-2-0425-1B", BlockLayout.OUTPUT_NORM, NormKind.RMS),
        ("google-bert/bert-base-uncased", BlockLayout.POST_NORM, NormKind.LAYER),
        ("EleutherAI/gpt-j-6b", BlockLayout.PARALLEL, NormKind.LAYER),
        ("facebook/opt-350m", BlockLayout.POST_NORM, NormKind.LAYER),
    ],
)
def test_layout_and_norm_are_the_familys(name: str, layout: BlockLayout, norm: NormKind) -> None:
    block = built(name).decoder.blocks[0]

    assert (block.layout, block.norm) == (layout, norm)


@pytest.mark.parametrize(
    ("name", "norms"),
    [("tiiuae/falcon-7b", 1), ("tiiuae/falcon-40b", 2), ("EleutherAI/pythia-1.4b", 2)],
)
def test_parallel_halves_read_one_norm_or_two(name: str, norms: int) -> None:
    assert built(name).decoder.blocks[0].parallel_norms == norms


def test_gemma_2_alternates_window_and_full_attention() -> None:
    windows = [attention_of(block).sliding_window for block in built("google/gemma-2-9b").decoder]

    assert windows[:4] == [4096, None, 4096, None]


def test_gemma_3_has_full_attention_in_every_sixth_layer() -> None:
    windows = [attention_of(b).sliding_window for b in built("google/gemma-3-270m").decoder]

    assert [layer for layer, window in enumerate(windows) if window is None] == [5, 11, 17]


def test_qwen_2_has_no_window_unless_it_is_switched_on() -> None:
    plain = built("Qwen/Qwen2.5-7B")
    windowed = built(
        "Qwen/Qwen2.5-7B", use_sliding_window=True, sliding_window=4096, max_window_layers=20
    )

    assert {attention_of(b).sliding_window for b in plain.decoder} == {None}
    assert [attention_of(b).sliding_window for b in windowed.decoder].count(4096) == 8


def test_null_means_no_window_and_absence_the_familys() -> None:
    absent = config_of("mistralai/Mistral-7B-v0.1", sliding_window=None)
    null = {**absent, "sliding_window": None}

    windows = [
        attention_of(architecture_from_config(config).decoder.blocks[0]).sliding_window
        for config in (absent, null)
    ]

    assert windows == [4096, None]


def test_smollm3_rotates_three_of_four_layers() -> None:
    positions = [attention_of(b).position for b in built("HuggingFaceTB/SmolLM3-3B").decoder]

    assert positions[:4] == [Position.ROTARY] * 3 + [Position.NONE]


@pytest.mark.parametrize(
    ("name", "rotary"),
    [
        ("meta-llama/Llama-2-7b-hf", 128),
        ("EleutherAI/pythia-1.4b", 32),
        ("microsoft/phi-2", 32),
        ("EleutherAI/gpt-j-6b", 64),
        ("stabilityai/stablelm-3b-4e1t", 20),
        ("MiniMaxAI/MiniMax-M2.5", 64),
        ("openai-community/gpt2", 0),
    ],
)
def test_only_a_share_of_a_head_is_rotated(name: str, rotary: int) -> None:
    assert attention_of(built(name).decoder.blocks[0]).rotary_dim == rotary


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("openai-community/gpt2", (0.1, 0.1, 0.1)),
        ("facebook/opt-1.3b", (0.0, 0.1, 0.0)),
        ("google-bert/bert-base-uncased", (0.1, 0.1, 0.1)),
        ("google-t5/t5-small", (0.1, 0.1, 0.1)),
        ("meta-llama/Llama-2-7b-hf", (0.0, 0.0, 0.0)),
        ("bigscience/bloom-1b7", (0.0, 0.0, 0.0)),
        ("bigcode/starcoder", (0.1, 0.1, 0.1)),
        ("ByteDance-Seed/Seed-OSS-36B-Instruct", (0.1, 0.1, 0.0)),
    ],
)
def test_absent_dropout_is_the_familys_default(
    name: str, rates: tuple[float, float, float]
) -> None:
    architecture = built(name)
    block = architecture.decoder.blocks[0]

    found = (
        attention_of(block).dropout,
        block.residual_dropout,
        architecture.embedding_dropout,
    )

    assert found == rates


def test_a_stated_dropout_counts() -> None:
    block = built("openai-community/gpt2", attn_pdrop=0, resid_pdrop=0.25).decoder.blocks[0]

    assert (attention_of(block).dropout, block.residual_dropout) == (0.0, 0.25)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Qwen/Qwen3-8B", "head"),
        ("allenai/OLMo-2-0425-1B", "full"),
        ("CohereForAI/c4ai-command-r-plus", "head"),
        ("meta-llama/Llama-2-7b-hf", "none"),
    ],
)
def test_queries_and_keys_are_normed_as_the_family_does(name: str, kind: str) -> None:
    assert attention_of(built(name).decoder.blocks[0]).query_key_norm == kind


def test_gemma_2_caps_scores_and_logits() -> None:
    architecture = built("google/gemma-2-9b")

    assert architecture.logits_softcap
    assert attention_of(architecture.decoder.blocks[0]).softcap
    assert architecture.embedding_scaled


def test_gpt_oss_has_sinks_and_windows_in_every_second_layer() -> None:
    blocks = list(built("openai/gpt-oss-20b").decoder)

    assert [attention_of(b).sliding_window for b in blocks[:4]] == [128, None, 128, None]
    assert attention_of(blocks[0]).sinks


def test_latent_attention_states_its_ranks() -> None:
    attention = attention_of(built("deepseek-ai/DeepSeek-V3").decoder.blocks[0])

    assert attention.kind is AttentionKind.LATENT
    assert (attention.q_lora_rank, attention.kv_lora_rank) == (1536, 512)
    assert (attention.head_dim, attention.rope_head_dim, attention.value_head_dim) == (192, 64, 128)


def test_deepseek_starts_with_dense_layers() -> None:
    architecture = built("deepseek-ai/DeepSeek-V3")

    dense = [block.experts is None for block in architecture.decoder]
    assert dense == [True] * 3 + [False] * 58


def test_jamba_attends_in_one_layer_of_eight_and_has_experts_in_every_second() -> None:
    blocks = list(built("ai21labs/Jamba-v0.1").decoder)

    kinds = [attention_of(block).kind for block in blocks]
    assert [i for i, kind in enumerate(kinds) if kind is AttentionKind.SOFTMAX] == [4, 12, 20, 28]
    assert [i for i, b in enumerate(blocks[:6]) if b.experts is not None] == [1, 3, 5]


@pytest.mark.parametrize(
    ("name", "model_class"),
    [
        ("meta-llama/Llama-2-7b-hf", ModelClass.CAUSAL),
        ("google-bert/bert-base-uncased", ModelClass.MASKED),
        ("google-t5/t5-small", ModelClass.ENCODER_DECODER),
        ("google/vit-base-patch16-224", ModelClass.IMAGE_CLASSIFIER),
        ("BAAI/bge-base-en-v1.5", ModelClass.OTHER),
        ("openai/clip-vit-base-patch32", ModelClass.OTHER),
    ],
)
def test_the_class_tells_what_the_head_computes(name: str, model_class: ModelClass) -> None:
    assert built(name).model_class is model_class


def test_a_classifier_has_a_row_per_label() -> None:
    architecture = built(
        "meta-llama/Llama-2-7b-hf",
        architectures=["LlamaForSequenceClassification"],
        id2label={str(i): f"LABEL_{i}" for i in range(5)},
    )

    (head,) = [module for module in architecture.outside if module.role == "head"]
    assert (head.path, head.out_features, head.bias) == ("score", 5, 0)


def test_bert_ends_in_a_dense_layer_and_a_tied_head_with_its_own_bias() -> None:
    architecture = built("google-bert/bert-base-uncased")

    assert architecture.head_dense
    (bias,) = [module for module in architecture.outside if module.role == "head_bias"]
    assert (bias.weight, bias.bias) == (0, 30_522)


def test_buffers_are_those_of_the_newest_transformers() -> None:
    # Static bytes of exact traces beyond weights, optimizer and inputs: 512, 0, 8192.
    words = {
        name: built(name).buffer_elements
        for name in (
            "meta-llama/Llama-2-7b-hf",
            "openai-community/gpt2",
            "google-bert/bert-base-uncased",
        )
    }

    assert [4 * count for count in words.values()] == [512, 0, 8_192]


def test_mixers_that_are_approximated_say_so() -> None:
    assert built("state-spaces/mamba-130m-hf").approximate
    assert built("Qwen/Qwen3-Next-80B-A3B-Instruct").approximate
    assert not built("meta-llama/Llama-2-7b-hf").approximate


def test_a_share_of_rotation_may_stand_among_the_rope_parameters() -> None:
    nested = built(
        "EleutherAI/pythia-1.4b", rotary_pct=None, rope_parameters={"partial_rotary_factor": 0.5}
    )

    assert attention_of(nested.decoder.blocks[0]).rotary_dim == 64


def test_layers_without_rotation_may_be_listed() -> None:
    listed = built("HuggingFaceTB/SmolLM3-3B", num_hidden_layers=4, no_rope_layers=[0, 1, 1, 0])

    positions = [attention_of(block).position for block in listed.decoder]
    assert positions == [Position.NONE, Position.ROTARY, Position.ROTARY, Position.NONE]


def test_windows_may_be_spelled_in_letters() -> None:
    lettered = built("LGAI-EXAONE/EXAONE-4.0-32B", num_hidden_layers=5, layer_types=None)

    windows = [attention_of(block).sliding_window for block in lettered.decoder]
    assert windows == [4096, 4096, 4096, None, 4096]


def test_gpt_neo_alternates_unless_its_types_are_listed() -> None:
    plain = built("EleutherAI/gpt-neo-125m", attention_types=None)
    listed = built("EleutherAI/gpt-neo-125m", attention_types=[[["local"], 12]])

    assert [attention_of(b).sliding_window for b in plain.decoder][:3] == [None, 256, None]
    assert {attention_of(b).sliding_window for b in listed.decoder} == {256}


def test_sparse_layers_may_be_listed() -> None:
    types = ["dense", "sparse", "sparse", "dense"]
    glm = built("zai-org/GLM-4.7-Flash", num_hidden_layers=4, mlp_layer_types=types)
    llama4 = config_of("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    llama4["text_config"] = {**llama4["text_config"], "num_hidden_layers": 3, "moe_layers": [1]}

    assert [b.experts is not None for b in glm.decoder] == [False, True, True, False]
    sparse = [b.experts is not None for b in architecture_from_config(llama4).decoder]
    assert sparse == [False, True, False]


def test_jamba_with_one_expert_is_dense() -> None:
    architecture = built("ai21labs/Jamba-v0.1", num_experts=1, num_experts_per_tok=1)

    assert all(block.experts is None for block in architecture.decoder)


def test_gemma_4_says_that_an_audio_tower_is_not_counted() -> None:
    silent = built("google/gemma-4-26B-A4B")
    hearing = built("google/gemma-4-26B-A4B", audio_config={"hidden_size": 1024})
    text = built("google/gemma-4-26B-A4B", vision_config=None)

    assert not any("audio" in sentence for sentence in silent.approximate)
    assert any("audio" in sentence for sentence in hearing.approximate)
    assert [stack.name for stack in text.stacks] == ["decoder"]


def test_a_projector_may_read_several_layers_of_the_tower() -> None:
    one = built("llava-hf/llava-1.5-7b-hf", vision_feature_layer=-2)
    two = built("llava-hf/llava-1.5-7b-hf", vision_feature_layer=[-2, -5])

    # linear_1 reads 1024 more.
    assert two.parameters - one.parameters == 1_024 * 4_096


def test_lfm2_scales_its_feed_forward_only_where_a_factor_is_given() -> None:
    plain = built("LiquidAI/LFM2-350M", block_ffn_dim_multiplier=None)

    # Two thirds of 6656, not rounded up.
    feed_forward = plain.decoder.blocks[0].feed_forward
    assert feed_forward is not None
    assert feed_forward.intermediate_size == 4_437


def test_wav2vec2_without_its_norm_and_mask_has_fewer_parameters() -> None:
    full = built("facebook/wav2vec2-base")
    less = built("facebook/wav2vec2-base", feat_proj_layer_norm=False, mask_time_prob=0.0)

    # The norm over 512 features and the mask embedding of 768.
    assert full.parameters - less.parameters == 2 * 512 + 768


def test_deberta_projects_a_narrow_embedding() -> None:
    full = built("microsoft/deberta-v3-base")
    narrow = built("microsoft/deberta-v3-base", embedding_size=128)

    # 128100 rows of 768 against 128 and a projection 128 × 768.
    assert full.parameters - narrow.parameters == 128_100 * (768 - 128) - 128 * 768


def test_gemma_3n_may_have_one_width_for_all_layers() -> None:
    architecture = built("google/gemma-3n-E2B", intermediate_size=8_192)

    assert architecture.parameters == built("google/gemma-3n-E2B").parameters


def test_jamba_attends_in_dense_and_in_sparse_layers() -> None:
    architecture = built("ai21labs/Jamba-v0.1", attn_layer_period=1, attn_layer_offset=0)

    assert {attention_of(block).kind for block in architecture.decoder} == {AttentionKind.SOFTMAX}
    assert len(architecture.decoder.blocks) == 2


def test_minicpm_3_values_are_a_head_wide_where_not_told() -> None:
    config = {
        "model_type": "minicpm3",
        "hidden_size": 2560,
        "num_hidden_layers": 2,
        "num_attention_heads": 40,
        "intermediate_size": 6400,
        "vocab_size": 73_448,
        "q_lora_rank": 768,
        "kv_lora_rank": 256,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
    }

    attention = attention_of(architecture_from_config(config).decoder.blocks[0])

    assert attention.value_head_dim == 64


def test_a_text_class_leaves_the_tower_out() -> None:
    whole = built("google/gemma-3-4b-pt")
    text = built("google/gemma-3-4b-pt", architectures=["Gemma3ForCausalLM"])

    assert [stack.name for stack in text.stacks] == ["decoder"]
    assert text.decoder.path == "model.layers"
    assert text.decoder.parameters == whole.decoder.parameters
