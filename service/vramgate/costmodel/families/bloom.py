"""BLOOM, Falcon, OPT and MPT.

Source of every trait: the modeling file of the family in transformers 5.24, for MPT also
llm-foundry's.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    BlockLayout,
    ModelArchitecture,
    NormKind,
    Part,
    Position,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_SMALL,
    Config,
    Rate,
    Switch,
)
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.parts import HEAD_KEYS, embedding, hidden_size
from vramgate.costmodel.families.style import (
    LLAMA_NORMS,
    ONE_NORM,
    AttentionStyle,
    DecoderStyle,
    FeedForwardStyle,
    NormPlace,
)

BLOOM = DecoderStyle(
    family="bloom",
    root="transformer.",
    layers="h",
    embedding="word_embeddings",
    embedding_norm="word_embeddings_layernorm",
    final_norm="ln_f",
    tied=True,
    norm=NormKind.LAYER,
    norm_bias=True,
    attention=AttentionStyle(
        path="self_attention.",
        projections=("query_key_value", "dense"),
        bias=True,
        output_bias=True,
        position=Position.ALIBI,
    ),
    feed_forward=FeedForwardStyle(
        names=("dense_h_to_4h", "dense_4h_to_h"),
        gated=False,
        bias=True,
        activation="bloom_gelu",
        activation_keys=("_none",),
        size_keys=(),
        times_hidden=4,
    ),
    residual_dropout=Rate(("hidden_dropout",)),
)


_FALCON = replace(
    BLOOM,
    family="falcon",
    embedding_norm=None,
    attention=replace(
        BLOOM.attention,
        bias=Switch("bias", default=False),
        output_bias=Switch("bias", default=False),
    ),
    feed_forward=replace(
        BLOOM.feed_forward,
        bias=Switch("bias", default=False),
        activation="gelu",
        activation_keys=("activation",),
        size_keys=("ffn_hidden_size",),
    ),
)


_OPT = DecoderStyle(
    family="opt",
    root="model.decoder.",
    position_embedding="embed_positions",
    extra_positions=2,
    final_norm="final_layer_norm",
    tied=True,
    norm=NormKind.LAYER,
    norm_bias=Switch("layer_norm_elementwise_affine", default=True),
    norms=(
        NormPlace(role="input_norm", path="self_attn_layer_norm"),
        NormPlace(role="pre_feed_forward_norm", path="final_layer_norm"),
    ),
    attention=AttentionStyle(
        projections=("q_proj", "k_proj", "v_proj", "out_proj"),
        bias=Switch("enable_bias", default=True),
        output_bias=Switch("enable_bias", default=True),
        position=Position.LEARNED,
    ),
    feed_forward=FeedForwardStyle(
        path="",
        names=("fc1", "fc2"),
        gated=False,
        bias=Switch("enable_bias", default=True),
        activation="relu",
        activation_keys=("activation_function",),
        size_keys=("ffn_dim",),
    ),
    residual_dropout=Rate(("dropout",), 0.1),
)


_OPT_POST_NORMS = (
    NormPlace(role="post_attention_norm", path="self_attn_layer_norm"),
    NormPlace(role="post_feed_forward_norm", path="final_layer_norm"),
)


_MPT = DecoderStyle(
    family="mpt",
    root="transformer.",
    layers="blocks",
    embedding="wte",
    final_norm="norm_f",
    tied=True,
    norm=NormKind.LAYER,
    norms=(
        NormPlace(role="input_norm", path="norm_1"),
        NormPlace(role="pre_feed_forward_norm", path="norm_2"),
    ),
    attention=AttentionStyle(
        path="attn.",
        projections=("Wqkv", "out_proj"),
        position=Position.ALIBI,
        dropout=Rate(("attn_pdrop",)),
    ),
    feed_forward=FeedForwardStyle(
        path="ffn.",
        names=("up_proj", "down_proj"),
        gated=False,
        activation="gelu",
        activation_keys=("_none",),
    ),
    residual_dropout=Rate(("resid_pdrop",)),
    embedding_dropout=Rate(("emb_pdrop",)),
)


def falcon(config: Config) -> ModelArchitecture:
    """Return Falcon in any of its three block designs (RW, 7B, 40B and later).

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    new = config.flag(Switch("new_decoder_architecture", default=False))
    parallel = config.flag(Switch("parallel_attn", default=True))
    if new:
        heads = config.whole(*HEAD_KEYS, at_most=MAX_HEADS)
        kv_heads = config.whole("num_kv_heads", "n_head_kv", at_most=MAX_HEADS, default=heads)
    else:
        multi_query = config.flag(Switch("multi_query", default=True))
        kv_heads = 1 if multi_query else config.whole(*HEAD_KEYS, at_most=MAX_HEADS)
    alibi = config.flag(Switch("alibi", default=False))
    norms = LLAMA_NORMS if not parallel else ONE_NORM
    two = config.whole("num_ln_in_parallel_attn", at_most=2, default=2 if new else 1) > 1
    if parallel and two:
        norms = (
            NormPlace(role="input_norm", path="ln_attn"),
            NormPlace(role="pre_feed_forward_norm", path="ln_mlp"),
        )
    style = replace(
        _FALCON,
        norms=norms,
        layout=BlockLayout.PARALLEL if parallel else BlockLayout.PRE_NORM,
        attention=replace(_FALCON.attention, position=Position.ALIBI if alibi else Position.ROTARY),
    )
    config = config.replaced(num_kv_heads=None, num_key_value_heads=kv_heads)
    return build_decoder(config, style)


def opt(config: Config) -> ModelArchitecture:
    """Return OPT; its 350M model norms after each half and embeds in a narrower space.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    before = config.flag(Switch("do_layer_norm_before", default=True))
    affine = config.flag(Switch("layer_norm_elementwise_affine", default=True))
    removed = config.flag(Switch("_remove_final_layer_norm", default=False))
    style = replace(
        _OPT,
        norm_weight=affine,
        norms=_OPT.norms if before else _OPT_POST_NORMS,
        layout=BlockLayout.PRE_NORM if before else BlockLayout.POST_NORM,
        final_norm="final_layer_norm" if before and not removed else "",
    )
    model = build_decoder(config, style)
    width = config.whole("word_embed_proj_dim", default=model.hidden_size)
    return model if width == model.hidden_size else _narrow_embedding(config, model, width)


def _narrow_embedding(config: Config, model: ModelArchitecture, width: int) -> ModelArchitecture:
    """Return OPT with a narrower embedding, projected into the blocks and out of them."""
    hidden, rows = model.hidden_size, model.vocab_size
    table = embedding("model.decoder.embed_tokens", rows, width)
    outside = []
    for module in model.outside:
        if module.role == "embedding":
            outside.append(table)
        elif module.part is Part.HEAD:
            bias, size = module.bias > 0, module.out_features
            outside.append(linear(module.path, Part.HEAD, "head", width, size, bias=bias))
        else:
            outside.append(module)
    for path, sizes in (("project_in", (width, hidden)), ("project_out", (hidden, width))):
        outside.append(linear(f"model.decoder.{path}", Part.EMBEDDING, f"embedding_{path}", *sizes))
    return finished(config, replace(model, outside=tuple(outside)))


def mpt(config: Config) -> ModelArchitecture:
    """Return MPT: ALiBi unless positions are learned; biases where ``no_bias`` is false.

    Raises:
        InvalidModelConfigError: a key is missing or malformed, or names a variant that is not
            counted.
    """
    hidden = hidden_size(config)
    ratio = config.whole("expansion_ratio", at_most=MAX_SMALL, default=4)
    attention = config.section("attn_config") or Config({})
    for key in ("qk_ln", "qk_gn"):
        if attention.sets(key):
            attention.refuse(key, "query and key norms of MPT are not counted")
    alibi = attention.flag(Switch("alibi", default=True))
    learned = not alibi and config.flag(Switch("learned_pos_emb", default=False))
    biased = not config.flag(Switch("no_bias", default=True))
    style = replace(
        _MPT,
        position_embedding="wpe" if learned else None,
        norm_bias=biased,
        attention=replace(
            _MPT.attention,
            bias=biased,
            output_bias=biased,
            position=Position.LEARNED if learned else Position.ALIBI,
        ),
        feed_forward=replace(_MPT.feed_forward, bias=biased),
    )
    return build_decoder(
        config.replaced(
            intermediate_size=ratio * hidden,
            num_key_value_heads=attention.maybe_whole("kv_n_heads", at_most=MAX_HEADS),
            attn_pdrop=attention.fraction(Rate(("attn_pdrop",))),
        ),
        style,
    )
