"""ModernBERT: rotary, gated, pre-norm; two of three layers see a window.

Source: Warner et al. 2024 and the modeling file in transformers 5.24.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    FeedForward,
    ModelArchitecture,
    ModelClass,
    NormKind,
    Part,
    Position,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_LAYERS,
    MAX_POSITIONS,
    Config,
    Rate,
    Switch,
    shown,
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
    embedding,
    head_count,
    hidden_size,
    layer_count,
    norm,
    stack,
    vocabulary,
)
from vramgate.costmodel.families.style import Window

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
