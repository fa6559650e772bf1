"""Llama and the families that differ from it in a few traits: Mistral, Qwen, Gemma, Phi, GLM.

Source of every trait: the modeling file of the family in transformers 5.24; defaults are those of
its config class.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import BlockLayout
from vramgate.costmodel.families.config import Rate, Switch
from vramgate.costmodel.families.style import (
    OUTPUT_NORMS,
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


GRANITE = replace(LLAMA, family="granite", embedding_scaled=True)


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
        kv_heads_default=32,
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
ARCEE = replace(
    LLAMA,
    family="arcee",
    feed_forward=FeedForwardStyle(
        names=("up_proj", "down_proj"), gated=False, bias=MLP_BIAS, activation="relu2"
    ),
)
HELIUM = replace(
    LLAMA, family="helium", attention=AttentionStyle(bias=ATTENTION_BIAS, head_dim_default=128)
)
HUNYUAN = replace(
    LLAMA,
    family="hunyuan",
    attention=replace(
        LLAMA.attention, norm=QueryKeyNorm(paths=("query_layernorm", "key_layernorm"))
    ),
    feed_forward=FeedForwardStyle(),
)
MINICPM = replace(LLAMA, family="minicpm", embedding_scaled=True)
