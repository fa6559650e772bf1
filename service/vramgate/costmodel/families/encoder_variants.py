"""Encoders with blocks of their own: DeBERTa, ALBERT (shared layers), ModernBERT (rotary).

Source: He et al. 2021 (DeBERTa), Lan et al. 2020 (ALBERT), Warner et al. 2024 (ModernBERT), and
the modeling files in transformers 5.24.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    FeedForward,
    ModelArchitecture,
    ModelClass,
    Module,
    NormKind,
    Part,
    Position,
    Stack,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_SMALL,
    Config,
    Rate,
    Switch,
    shown,
)
from vramgate.costmodel.families.encoder import (
    BERT,
    EncoderSizes,
    EncoderStyle,
    embedding_modules,
    encoder_around,
    encoder_block,
    encoder_sizes,
    root_of,
)
from vramgate.costmodel.families.encoder_heads import head_linear
from vramgate.costmodel.families.heads import (
    Head,
    class_name,
    label_count,
    language_model_head,
)
from vramgate.costmodel.families.layers import layer_windows
from vramgate.costmodel.families.parts import (
    convolution,
    embedding,
    head_count,
    hidden_size,
    layer_count,
    norm,
    parameter,
    stack,
    vocabulary,
)
from vramgate.costmodel.families.style import Window

DEBERTA = replace(
    BERT, family="deberta", root="deberta.", token_types=0, id_buffers=1, heads="deberta"
)
DEBERTA_V2 = replace(
    DEBERTA,
    projections=(
        "attention.self.query_proj",
        "attention.self.key_proj",
        "attention.self.value_proj",
        "attention.output.dense",
    ),
)
ALBERT = replace(
    BERT,
    family="albert",
    root="albert.",
    projections=("attention.query", "attention.key", "attention.value", "attention.dense"),
    feed_forward=("ffn", "ffn_output"),
    norms=("attention.LayerNorm", "full_layer_layer_norm"),
    dropout=Rate(("hidden_dropout_prob",)),
    attention_dropout=Rate(("attention_probs_dropout_prob",)),
    heads="albert",
)
_RELATIVE = (
    "DeBERTa's terms of relative position are counted as weights; their activations are not."
)


def position_types(config: Config) -> tuple[str, ...]:
    """Return DeBERTa's kinds of relative attention, from a list or "c2p|p2c".

    Raises:
        InvalidModelConfigError: they are neither.
    """
    _, value = config.get("pos_att_type")
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.lower().split("|"))
    words = config.words("pos_att_type")
    return words if words is not None else ()


def build_deberta(config: Config) -> ModelArchitecture:
    """Return DeBERTa: one projection for query, key and value, two of relative positions.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = encoder_sizes(config, DEBERTA)
    hidden, at = sizes.hidden, "attention.self."
    relative = config.flag(Switch("relative_attention", default=False))
    kinds = position_types(config) if relative else ()
    part = Part.ATTENTION
    own = [
        parameter(f"{at}q_bias", part, "query_bias", hidden),
        parameter(f"{at}v_bias", part, "value_bias", hidden),
        linear(f"{at}in_proj", part, "qkv", hidden, 3 * hidden),
    ]
    if "c2p" in kinds:
        own.append(linear(f"{at}pos_proj", part, "position_key", hidden, hidden))
    if "p2c" in kinds:
        own.append(linear(f"{at}pos_q_proj", part, "position_query", hidden, hidden, bias=True))
    block = encoder_block(config, DEBERTA, sizes)
    kept = tuple(m for m in block.modules if m.role not in {"query", "key", "value"})
    attention = None
    if block.attention is not None:
        attention = replace(block.attention, fused_qkv=True)
    block = replace(block, modules=(*own, *kept), attention=attention)
    return _disentangled(config, DEBERTA, sizes, block, buckets=-1)


def build_deberta_v2(config: Config) -> ModelArchitecture:
    """Return DeBERTa v2 or v3: relative positions in buckets, their projections shared or not.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = encoder_sizes(config, DEBERTA_V2)
    hidden, at = sizes.hidden, "attention.self."
    block = encoder_block(config, DEBERTA_V2, sizes)
    relative = config.flag(Switch("relative_attention", default=False))
    if relative and not config.flag(Switch("share_att_key", default=False)):
        kinds = position_types(config)
        own = [
            linear(at + path, Part.ATTENTION, role, hidden, hidden, bias=True)
            for kind, path, role in (
                ("c2p", "pos_key_proj", "position_key"),
                ("p2c", "pos_query_proj", "position_query"),
            )
            if kind in kinds
        ]
        block = replace(block, modules=(*own, *block.modules))
    buckets = config.whole("position_buckets", at_least=-1, at_most=MAX_SMALL, default=-1)
    return _disentangled(config, DEBERTA_V2, sizes, block, buckets=buckets)


def _disentangled(
    config: Config, style: EncoderStyle, sizes: EncoderSizes, block: Block, *, buckets: int
) -> ModelArchitecture:
    """Return the model around DeBERTa's blocks, with its table of relative positions."""
    root, hidden = root_of(config, style.root), sizes.hidden
    modules = embedding_modules(root, sizes)
    if not config.flag(Switch("position_biased_input", default=True)):
        modules = tuple(m for m in modules if m.role != "position_embedding")
    outside = list(modules)
    if sizes.embedding != hidden:
        path = f"{root}embeddings.embed_proj"
        outside.append(
            linear(path, Part.EMBEDDING, "embedding_project_in", sizes.embedding, hidden)
        )
        width_norm = norm(f"{root}embeddings.LayerNorm", "embedding_norm", hidden, bias=True)
        outside = [width_norm if m.role == "embedding_norm" else m for m in outside]
    if config.flag(Switch("relative_attention", default=False)):
        reach = config.whole(
            "max_relative_positions", at_least=-1, at_most=MAX_POSITIONS, default=-1
        )
        rows = 2 * (buckets if buckets > 0 else reach if reach > 0 else sizes.positions)
        path = f"{root}encoder.rel_embeddings"
        outside.append(embedding(path, rows, hidden, role="relative_bias"))
    if "layer_norm" in config.word("norm_rel_ebd", default="none"):
        outside.append(norm(f"{root}encoder.LayerNorm", "relative_bias_norm", hidden, bias=True))
    outside += _convolution_layer(config, root, hidden)
    path = root + style.layers
    layers = stack("encoder", path, hidden, (0,) * sizes.layers, lambda _: block)
    return encoder_around(config, style, sizes, layers, tuple(outside), approximate=(_RELATIVE,))


def _convolution_layer(config: Config, root: str, hidden: int) -> tuple[Module, ...]:
    """Return the convolution beside the first layer of DeBERTa v2's extra-large models."""
    kernel = config.whole("conv_kernel_size", at_least=0, at_most=MAX_SMALL, default=0)
    if not kernel:
        return ()
    groups = config.whole("conv_groups", at_most=MAX_SMALL, default=1)
    if hidden % groups:
        detail = f"{groups} groups do not divide hidden_size {hidden}"
        config.refuse("conv_groups", detail, code="contradiction")
    at = f"{root}encoder.conv."
    return (
        convolution(f"{at}conv", "mixer_conv", (hidden // groups, hidden), kernel),
        norm(f"{at}LayerNorm", "mixer_norm", hidden, bias=True),
    )


def build_albert(config: Config) -> ModelArchitecture:
    """Return ALBERT: all layers of a group are the same weights.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = encoder_sizes(config.replaced(embedding_size=_albert_width(config)), ALBERT)
    root, hidden = root_of(config, ALBERT.root), sizes.hidden
    groups = config.whole("num_hidden_groups", at_most=MAX_LAYERS, default=1)
    inner = config.whole("inner_group_num", at_most=MAX_LAYERS, default=1)
    if groups > sizes.layers:
        detail = f"{groups} groups for {sizes.layers} layers"
        config.refuse("num_hidden_groups", detail, code="contradiction")
    if inner * sizes.layers > MAX_LAYERS:
        config.refuse("inner_group_num", f"more than {MAX_LAYERS} layers", code="out_of_range")
    block = encoder_block(config, ALBERT, sizes)
    blocks = tuple(
        replace(block, modules=tuple(_inside(m, i) for m in block.modules))
        for _ in range(groups)
        for i in range(inner)
    )
    order = tuple(
        layer * groups // sizes.layers * inner + i
        for layer in range(sizes.layers)
        for i in range(inner)
    )
    layers = Stack(
        name="encoder",
        hidden_size=hidden,
        blocks=blocks,
        layers=order,
        path=f"{root}encoder.albert_layer_groups",
        shared=True,
    )
    into = linear(
        f"{root}encoder.embedding_hidden_mapping_in",
        Part.EMBEDDING,
        "embedding_project_in",
        sizes.embedding,
        hidden,
        bias=True,
    )
    outside = (*embedding_modules(root, sizes), into)
    return encoder_around(config, ALBERT, sizes, layers, outside)


def _albert_width(config: Config) -> int:
    return config.whole("embedding_size", default=128)


def _inside(module: Module, index: int) -> Module:
    """Return a module of a group's ``index``-th layer."""
    return replace(module, path=f"albert_layers.{index}.{module.path}")


_MODERN_WINDOW = Window(default=128, key="local_attention")


def build_modernbert(config: Config) -> ModelArchitecture:
    """Return ModernBERT: rotary, gated, pre-norm; two of three layers see a window.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden, rows = hidden_size(config), vocabulary(config)
    name = class_name(config)
    root = "" if name.endswith("Model") else "model."
    bias = config.flag(Switch("norm_bias", default=False))
    tied = config.flag(Switch("tie_word_embeddings", default=True))
    kinds = _modern_layers(config)
    layers = stack("encoder", f"{root}layers", hidden, kinds, lambda k: _modern_block(config, *k))
    head = _modern_head(config, hidden, rows, tied=tied)
    outside = (
        embedding(f"{root}embeddings.tok_embeddings", rows, hidden),
        norm(f"{root}embeddings.norm", "embedding_norm", hidden, bias=bias),
        norm(f"{root}final_norm", "final_norm", hidden, bias=bias),
        *head.modules,
    )
    attention = layers.blocks[0].attention
    return finished(
        config,
        ModelArchitecture(
            model_type=config.word("model_type", default="modernbert"),
            model_class=head.model_class,
            hidden_size=hidden,
            vocab_size=rows,
            tie_word_embeddings=tied,
            stacks=(layers,),
            outside=outside,
            final_norm=NormKind.LAYER,
            embedding_dropout=config.fraction(Rate(("embedding_dropout",))),
            embedding_norm=NormKind.LAYER,
            head_dense=any(m.role == "head_dense" for m in head.modules),
            max_position_embeddings=config.maybe_whole(
                "max_position_embeddings", at_most=MAX_POSITIONS
            ),
            # Two sets of frequencies, each with its original.
            buffer_elements=2 * attention.rotary_dim if attention is not None else 0,
            family="modernbert",
        ),
    )


def _modern_layers(config: Config) -> tuple[tuple[int | None, bool], ...]:
    """Return window and "is the first" of each layer; layers 0, 3, 6, … are full attention."""
    layers = layer_count(config)
    step = config.whole("global_attn_every_n_layers", at_most=MAX_LAYERS, default=3)

    def local(_config: Config, count: int) -> tuple[bool, ...]:
        return tuple(layer % step != 0 for layer in range(count))

    windows = layer_windows(config, replace(_MODERN_WINDOW, rule=local), layers)
    return tuple((window, layer == 0) for layer, window in enumerate(windows))


def _modern_block(config: Config, window: int | None, first: bool) -> Block:  # noqa: FBT001
    """Return ModernBERT's block; the first has no norm before attention."""
    hidden = hidden_size(config)
    heads, head_dim = head_count(config, hidden)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    qkv_bias = config.flag(Switch("attention_bias", default=False))
    mlp_bias = config.flag(Switch("mlp_bias", default=False))
    norm_bias = config.flag(Switch("norm_bias", default=False))
    part = Part.ATTENTION
    modules = [
        linear("attn.Wqkv", part, "qkv", hidden, 3 * hidden, bias=qkv_bias),
        linear("attn.Wo", part, "attention_output", hidden, hidden, bias=qkv_bias),
        linear("mlp.Wi", Part.MLP, "gate_up", hidden, 2 * size, bias=mlp_bias),
        linear("mlp.Wo", Part.MLP, "down", size, hidden, bias=mlp_bias),
        norm("mlp_norm", "pre_feed_forward_norm", hidden, bias=norm_bias),
    ]
    if not first:
        modules.append(norm("attn_norm", "input_norm", hidden, bias=norm_bias))
    return Block(
        name="first" if first else "sliding_attention" if window else "attention",
        modules=tuple(modules),
        attention=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            value_head_dim=head_dim,
            position=Position.ROTARY,
            rotary_dim=head_dim,
            fused_qkv=True,
            sliding_window=window,
            dropout=config.fraction(Rate(("attention_dropout",))),
            causal=False,
        ),
        feed_forward=FeedForward(
            intermediate_size=size,
            fused_gate_up=True,
            activation=config.word("hidden_activation", default="gelu"),
            dropout=config.fraction(Rate(("mlp_dropout",))),
        ),
        norm=NormKind.LAYER,
    )


def _modern_head(config: Config, hidden: int, rows: int, *, tied: bool) -> Head:
    """Return the head of the class: dense and norm, then the decoder or a classifier."""
    name = class_name(config)
    if name.endswith("Model"):
        return Head(ModelClass.OTHER, ())
    dense_bias = config.flag(Switch("classifier_bias", default=False))
    norm_bias = config.flag(Switch("norm_bias", default=False))
    dense = (
        linear("head.dense", Part.HEAD, "head_dense", hidden, hidden, bias=dense_bias),
        norm("head.norm", "head_norm", hidden, bias=norm_bias),
    )
    if name.endswith(("ForSequenceClassification", "ForTokenClassification")):
        classifier = head_linear("classifier", hidden, label_count(config))
        return Head(ModelClass.OTHER, (*dense, classifier))
    if name and not name.endswith("ForMaskedLM"):
        config.refuse("architectures", f"the head of {shown(name)} is not known")
    bias = config.flag(Switch("decoder_bias", default=True))
    decoder = language_model_head("decoder", hidden, rows, tied=tied, bias=bias)
    return Head(ModelClass.MASKED, (*dense, *decoder))
