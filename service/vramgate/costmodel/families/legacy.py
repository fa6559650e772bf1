"""Models published with their own code: Qwen 1, Baichuan, InternLM, ChatGLM.

Source of every trait: the modeling file in the model's repository on the Hub.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    BlockLayout,
    ModelArchitecture,
    NormKind,
    Position,
)
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_INTERMEDIATE,
    Config,
    Rate,
    Switch,
)
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.llama import LLAMA
from vramgate.costmodel.families.style import (
    GPT_NORMS,
    LLAMA_NORMS,
    AttentionStyle,
    DecoderStyle,
    FeedForwardStyle,
    NormPlace,
)

BIAS = Switch("bias", default=False)
INTERNLM = replace(
    LLAMA,
    family="internlm",
    attention=AttentionStyle(
        bias=Switch("bias", default=True), output_bias=Switch("bias", default=True)
    ),
    feed_forward=FeedForwardStyle(),
)
INTERNLM2 = DecoderStyle(
    family="internlm2",
    embedding="tok_embeddings",
    head="output",
    attention=AttentionStyle(
        path="attention.", projections=("wqkv", "wo"), bias=BIAS, output_bias=BIAS
    ),
    feed_forward=FeedForwardStyle(path="feed_forward.", names=("w1", "w3", "w2")),
    norms=(
        NormPlace(role="input_norm", path="attention_norm"),
        NormPlace(role="pre_feed_forward_norm", path="ffn_norm"),
    ),
)
INTERNLM3 = replace(
    LLAMA,
    family="internlm3",
    attention=AttentionStyle(bias=Switch("qkv_bias", default=False), output_bias=BIAS),
    feed_forward=FeedForwardStyle(bias=BIAS),
)
_BAICHUAN = DecoderStyle(
    family="baichuan", attention=AttentionStyle(projections=("W_pack", "o_proj"))
)
_QWEN = DecoderStyle(
    family="qwen",
    root="transformer.",
    layers="h",
    embedding="wte",
    final_norm="ln_f",
    norms=GPT_NORMS,
    attention=AttentionStyle(
        path="attn.",
        projections=("c_attn", "c_proj"),
        bias=True,
        dropout=Rate(("attn_dropout_prob",)),
    ),
    # w2 is the gate: the output is w1(x) * silu(w2(x)).
    feed_forward=FeedForwardStyle(names=("w2", "w1", "c_proj"), activation_keys=("_none",)),
    embedding_dropout=Rate(("emb_dropout_prob",)),
)
_CHATGLM = DecoderStyle(
    family="chatglm",
    root="transformer.",
    layers="encoder.layers",
    embedding="embedding.word_embeddings",
    final_norm="encoder.final_layernorm",
    head="transformer.output_layer",
    norms=LLAMA_NORMS,
    layout=BlockLayout.PRE_NORM,
    attention=AttentionStyle(
        path="self_attention.",
        projections=("query_key_value", "dense"),
        output_bias=Switch("add_bias_linear", default=False),
        partial_rotary=0.5,
    ),
    feed_forward=FeedForwardStyle(
        names=("dense_h_to_4h", "dense_4h_to_h"),
        bias=Switch("add_bias_linear", default=False),
        size_keys=("ffn_hidden_size",),
        activation_keys=("_none",),
    ),
    residual_dropout=Rate(("hidden_dropout",)),
)
# Baichuan's 13B models have ALiBi instead of rotary positions; their configs name no longest
# sequence.
_BAICHUAN_13B_HIDDEN = 5120


def baichuan(config: Config) -> ModelArchitecture:
    """Return Baichuan or Baichuan 2; the 13B models (hidden size 5120) have ALiBi.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    model = build_decoder(config, _BAICHUAN)
    if model.hidden_size != _BAICHUAN_13B_HIDDEN:
        return model
    attention = replace(_BAICHUAN.attention, position=Position.ALIBI)
    return build_decoder(config, replace(_BAICHUAN, attention=attention))


def qwen(config: Config) -> ModelArchitecture:
    """Return Qwen 1: gate and up are half ``intermediate_size`` wide; only c_attn has a bias.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE, at_least=2)
    biased = not config.flag(Switch("no_bias", default=True))
    style = replace(
        _QWEN,
        attention=replace(_QWEN.attention, output_bias=biased),
        feed_forward=replace(_QWEN.feed_forward, bias=biased),
    )
    return build_decoder(config.replaced(intermediate_size=size // 2), style)


def chatglm(config: Config) -> ModelArchitecture:
    """Return ChatGLM 2 and 3 and the first GLM-4, as published with their own code.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    biased = config.flag(Switch("add_bias_linear", default=False))
    grouped = config.flag(Switch("multi_query_attention", default=False))
    kv_heads = (
        config.whole("multi_query_group_num", at_most=MAX_HEADS, default=1) if grouped else None
    )
    rms = config.flag(Switch("rmsnorm", default=True))
    style = replace(
        _CHATGLM,
        norm=NormKind.RMS if rms else NormKind.LAYER,
        norm_bias=not rms,
        final_norm=_CHATGLM.final_norm
        if config.flag(Switch("post_layer_norm", default=True))
        else "",
        attention=replace(
            _CHATGLM.attention,
            bias=biased or config.flag(Switch("add_qkv_bias", default=False)),
        ),
    )
    return build_decoder(config.replaced(num_key_value_heads=kv_heads), style)
