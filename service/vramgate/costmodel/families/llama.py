"""Llama and the families that differ from it in a few traits: Mistral, Qwen, Gemma, Phi, GLM.

Source of every trait: the modeling file of the family in transformers 5.24; defaults are those of
its config class.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import BlockLayout, NormKind
from vramgate.costmodel.families.config import Config, Rate, Switch
from vramgate.costmodel.families.style import (
    ONE_NORM,
    OUTPUT_NORMS,
    SANDWICH_NORMS,
    AttentionStyle,
    DecoderStyle,
    FeedForwardStyle,
    NormPlace,
    NormWeight,
    ParameterPlace,
    QueryKeyNorm,
    RotaryLayers,
    Window,
)

HEAD_NORM = QueryKeyNorm()
FULL_NORM = QueryKeyNorm(weight=NormWeight.FULL)
ATTENTION_BIAS = Switch("attention_bias", default=False)
MLP_BIAS = Switch("mlp_bias", default=False)
QWEN_WINDOW = Window(
    default=4096,
    when=Switch("use_sliding_window", default=False),
    first_layer_key="max_window_layers",
)
GEMMA_ACTIVATION = ("hidden_activation",)
MULTIPLIERS = ("embedding_multiplier",)

LLAMA = DecoderStyle(
    family="llama",
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    feed_forward=FeedForwardStyle(bias=MLP_BIAS),
)
MISTRAL = DecoderStyle(
    family="mistral", attention=AttentionStyle(kv_heads_default=8, window=Window(default=4096))
)
MINISTRAL3 = DecoderStyle(
    family="mistral",
    attention=AttentionStyle(kv_heads_default=8, head_dim_default=128, window=Window()),
)
QWEN2 = DecoderStyle(
    family="qwen2", attention=AttentionStyle(bias=True, kv_heads_default=32, window=QWEN_WINDOW)
)
QWEN3 = DecoderStyle(
    family="qwen3",
    attention=AttentionStyle(
        bias=ATTENTION_BIAS,
        output_bias=ATTENTION_BIAS,
        norm=HEAD_NORM,
        kv_heads_default=32,
        head_dim_default=128,
        window=QWEN_WINDOW,
    ),
)
GEMMA = DecoderStyle(
    family="gemma",
    embedding_scaled=True,
    tied=True,
    norm=NormKind.RMS_PLUS_ONE,
    attention=AttentionStyle(
        bias=ATTENTION_BIAS,
        output_bias=ATTENTION_BIAS,
        kv_heads_default=16,
        head_dim_default=256,
    ),
    feed_forward=FeedForwardStyle(activation="gelu_pytorch_tanh", activation_keys=GEMMA_ACTIVATION),
)
GEMMA2 = replace(
    GEMMA,
    family="gemma2",
    layout=BlockLayout.SANDWICH,
    norms=SANDWICH_NORMS,
    logits_softcap_key="final_logit_softcapping",
    logits_softcap_default=True,
    attention=replace(
        GEMMA.attention,
        kv_heads_default=4,
        softcap_key="attn_logit_softcapping",
        softcap_default=True,
        window=Window(default=4096, period=2),
    ),
)
GEMMA3 = replace(
    GEMMA2,
    family="gemma3",
    logits_softcap_default=False,
    rotary_tables=2,
    attention=replace(
        GEMMA2.attention,
        norm=HEAD_NORM,
        softcap_default=False,
        window=Window(default=4096, period=6),
    ),
)
PHI = DecoderStyle(
    family="phi",
    final_norm="final_layernorm",
    head_bias=True,
    norm=NormKind.LAYER,
    norm_bias=True,
    norms=ONE_NORM,
    layout=BlockLayout.PARALLEL,
    attention=AttentionStyle(
        projections=("q_proj", "k_proj", "v_proj", "dense"),
        bias=True,
        output_bias=True,
        partial_rotary=0.5,
        norm=QueryKeyNorm(
            paths=("q_layernorm", "k_layernorm"),
            bias=True,
            when=Switch("qk_layernorm", default=False),
        ),
    ),
    feed_forward=FeedForwardStyle(
        names=("fc1", "fc2"), gated=False, bias=True, activation="gelu_new"
    ),
    residual_dropout=Rate(("resid_pdrop",)),
    embedding_dropout=Rate(("embd_pdrop",)),
)
PHI3 = DecoderStyle(
    family="phi3",
    attention=AttentionStyle(projections=("qkv_proj", "o_proj"), window=Window()),
    feed_forward=FeedForwardStyle(names=("gate_up_proj", "down_proj")),
    residual_dropout=Rate(("resid_pdrop",)),
    embedding_dropout=Rate(("embd_pdrop",)),
)
GLM = DecoderStyle(
    family="glm",
    attention=AttentionStyle(
        bias=Switch("attention_bias", default=True),
        partial_rotary=0.5,
        kv_heads_default=2,
        head_dim_default=128,
    ),
    feed_forward=FeedForwardStyle(names=("gate_up_proj", "down_proj")),
)
GLM4 = replace(
    GLM,
    family="glm4",
    layout=BlockLayout.SANDWICH,
    norms=(
        NormPlace(role="input_norm", path="input_layernorm"),
        NormPlace(role="post_attention_norm", path="post_self_attn_layernorm"),
        NormPlace(role="pre_feed_forward_norm", path="post_attention_layernorm"),
        NormPlace(role="post_feed_forward_norm", path="post_mlp_layernorm"),
    ),
)
GRANITE = replace(LLAMA, family="granite", embedding_scaled=MULTIPLIERS)
SMOLLM3 = replace(
    LLAMA,
    family="smollm3",
    tied=True,
    attention=replace(
        LLAMA.attention,
        kv_heads_default=4,
        rotary_layers=RotaryLayers.LISTED,
        window=Window(when=Switch("use_sliding_window", default=False)),
    ),
)
OLMO = DecoderStyle(
    family="olmo",
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    norm=NormKind.LAYER,
    norm_weight=False,
)
OLMO2 = DecoderStyle(
    family="olmo2",
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, norm=FULL_NORM),
    norms=OUTPUT_NORMS,
    layout=BlockLayout.OUTPUT_NORM,
)
OLMO3 = replace(
    OLMO2,
    family="olmo3",
    rotary_tables=2,
    attention=replace(OLMO2.attention, window=Window(default=4096, period=4)),
)
COHERE = DecoderStyle(
    family="cohere",
    tied=True,
    norm=NormKind.LAYER,
    norms=ONE_NORM,
    layout=BlockLayout.PARALLEL,
    attention=AttentionStyle(
        bias=ATTENTION_BIAS,
        output_bias=ATTENTION_BIAS,
        norm=QueryKeyNorm(weight=NormWeight.PER_HEAD, when=Switch("use_qk_norm", default=False)),
    ),
    approximate=(
        "Cohere's layer norm runs as separate fp32 operations; it is counted as one layer norm.",
    ),
)
COHERE2 = replace(
    COHERE,
    family="cohere2",
    attention=replace(
        COHERE.attention,
        norm=None,
        rotary_layers=RotaryLayers.SLIDING,
        window=Window(default=4096, period=4),
    ),
)
STARCODER2 = DecoderStyle(
    family="starcoder2",
    tied=True,
    norm=NormKind.LAYER,
    norm_bias=True,
    attention=AttentionStyle(
        bias=Switch("use_bias", default=True),
        output_bias=Switch("use_bias", default=True),
        kv_heads_default=2,
        window=Window(),
    ),
    feed_forward=FeedForwardStyle(
        names=("c_fc", "c_proj"),
        gated=False,
        bias=Switch("use_bias", default=True),
        activation="gelu_pytorch_tanh",
        dropout=Rate(()),
    ),
    residual_dropout=Rate(("residual_dropout",)),
    embedding_dropout=Rate(("embedding_dropout",)),
)
NEMOTRON = DecoderStyle(
    family="nemotron",
    norm=NormKind.LAYER,
    norm_bias=True,
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, partial_rotary=0.5),
    feed_forward=FeedForwardStyle(
        names=("up_proj", "down_proj"), gated=False, bias=MLP_BIAS, activation="relu2"
    ),
)
SEED_OSS = DecoderStyle(
    family="seed_oss",
    attention=AttentionStyle(
        bias=Switch("attention_bias", default=True),
        output_bias=Switch("attention_out_bias", default=False),
        dropout=Rate(("attention_dropout",), 0.1),
        kv_heads_default=8,
        head_dim_default=128,
    ),
    feed_forward=FeedForwardStyle(bias=MLP_BIAS),
    residual_dropout=Rate(("residual_dropout",), 0.1),
)
EXAONE4 = DecoderStyle(
    family="exaone4",
    norms=OUTPUT_NORMS,
    layout=BlockLayout.OUTPUT_NORM,
    attention=AttentionStyle(
        norm=HEAD_NORM,
        rotary_layers=RotaryLayers.SLIDING,
        window=Window(default=4096, period=4),
    ),
)
APERTUS = DecoderStyle(
    family="apertus",
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, norm=HEAD_NORM),
    feed_forward=FeedForwardStyle(
        names=("up_proj", "down_proj"), gated=False, bias=MLP_BIAS, activation="xielu"
    ),
    norms=(
        NormPlace(role="input_norm", path="attention_layernorm"),
        NormPlace(role="pre_feed_forward_norm", path="feedforward_layernorm"),
    ),
    extras=(
        ParameterPlace(role="activation_parameter", path="mlp.act_fn.alpha_p", size=1),
        ParameterPlace(role="activation_parameter", path="mlp.act_fn.alpha_n", size=1),
    ),
)
BITNET = DecoderStyle(
    family="bitnet",
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, kv_heads_default=5),
    feed_forward=FeedForwardStyle(activation="relu2"),
    norms=(
        *DecoderStyle(family="").norms,
        NormPlace(role="attention_sub_norm", path="self_attn.attn_sub_norm", width="query"),
        NormPlace(role="feed_forward_sub_norm", path="mlp.ffn_sub_norm", width="intermediate"),
    ),
    approximate=(
        "BitNet's sub-norms inside attention and feed-forward are counted as weights only.",
    ),
)
ERNIE = DecoderStyle(
    family="ernie4_5",
    tied=True,
    attention=AttentionStyle(
        bias=Switch("use_bias", default=False),
        output_bias=Switch("use_bias", default=False),
        kv_heads_default=2,
        head_dim_default=128,
    ),
    feed_forward=FeedForwardStyle(bias=Switch("use_bias", default=False)),
)


def stablelm(config: Config) -> DecoderStyle:
    """Return StableLM's style: sequential or parallel, with or without query and key norms."""
    parallel = config.flag(Switch("use_parallel_residual", default=False))
    return _STABLELM_PARALLEL if parallel else _STABLELM


_STABLELM = DecoderStyle(
    family="stablelm",
    norm=NormKind.LAYER,
    norm_bias=True,
    attention=AttentionStyle(
        bias=Switch("use_qkv_bias", default=False),
        partial_rotary=0.25,
        norm=QueryKeyNorm(
            paths=("q_layernorm.norms", "k_layernorm.norms"),
            weight=NormWeight.PER_HEAD,
            when=Switch("qk_layernorm", default=False),
            separate=True,
        ),
    ),
    residual_dropout=Rate(("hidden_dropout",)),
)
_STABLELM_PARALLEL = replace(_STABLELM, norms=ONE_NORM, layout=BlockLayout.PARALLEL)
