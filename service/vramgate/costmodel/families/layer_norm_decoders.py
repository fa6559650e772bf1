"""Decoders with layer norms: Phi, OLMo, Cohere, StarCoder 2, Nemotron, StableLM, Persimmon.

Source: the modeling files in transformers 5.24; defaults are those of the config classes.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import BlockLayout, NormKind
from vramgate.costmodel.families.config import Config, Rate, Switch
from vramgate.costmodel.families.llama import ATTENTION_BIAS, MLP_BIAS
from vramgate.costmodel.families.style import (
    ONE_NORM,
    AttentionStyle,
    DecoderStyle,
    FeedForwardStyle,
    NormWeight,
    QueryKeyNorm,
    RotaryLayers,
    Window,
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


OLMO = DecoderStyle(
    family="olmo",
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    norm=NormKind.LAYER,
    norm_weight=False,
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
PERSIMMON = DecoderStyle(
    family="persimmon",
    final_norm="final_layernorm",
    norm=NormKind.LAYER,
    norm_bias=True,
    attention=AttentionStyle(
        projections=("query_key_value", "dense"),
        bias=True,
        output_bias=True,
        partial_rotary=0.5,
        norm=QueryKeyNorm(
            paths=("q_layernorm", "k_layernorm"),
            bias=True,
            when=Switch("qk_layernorm", default=True),
        ),
    ),
    feed_forward=FeedForwardStyle(
        names=("dense_h_to_4h", "dense_4h_to_h"), gated=False, bias=True, activation="relu2"
    ),
    residual_dropout=Rate(("hidden_dropout",)),
)
ORION = DecoderStyle(family="orion", norm=NormKind.LAYER, norm_bias=True)
