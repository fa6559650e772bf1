"""T5, mT5, UMT5, FLAN-T5 and ByT5.

Source: Raffel et al. 2020, section 2.1, and the modeling file in transformers 5.24.
"""

from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    FeedForward,
    ModelArchitecture,
    ModelClass,
    Module,
    Part,
    Position,
    Stack,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_INTERMEDIATE,
    MAX_LAYERS,
    MAX_SMALL,
    Config,
    Rate,
    Switch,
    shown,
)
from vramgate.costmodel.families.encoder_heads import head_linear
from vramgate.costmodel.families.feed_forward import feed_forward_modules
from vramgate.costmodel.families.heads import (
    Head,
    class_name,
    label_count,
    language_model_head,
)
from vramgate.costmodel.families.parts import (
    embedding,
    hidden_size,
    layer_count,
    norm,
    stack,
    vocabulary,
)

T5_DROPOUT = Rate(("dropout_rate",), 0.1)
_T5_ROLES = (("q", "query"), ("k", "key"), ("v", "value"), ("o", "attention_output"))
_CROSS = {
    "query": "cross_query",
    "key": "cross_key",
    "value": "cross_value",
    "attention_output": "cross_output",
}


class T5Sizes(NamedTuple):
    """The sizes a T5 config states."""

    hidden: int
    heads: int
    head_dim: int
    intermediate: int
    buckets: int
    gated: bool
    activation: str
    bias_everywhere: bool
    """Every layer has its own position biases (UMT5), not the first for all."""


def t5_sizes(config: Config) -> T5Sizes:
    """Return the sizes; ``feed_forward_proj`` is an activation, or "gated-" and one.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    projection = config.word("feed_forward_proj", default="relu")
    gated = projection.startswith("gated-")
    activation = projection.removeprefix("gated-")
    return T5Sizes(
        hidden=hidden_size(config),
        heads=config.whole("num_heads", at_most=MAX_HEADS),
        head_dim=config.whole("d_kv", at_most=MAX_SMALL, default=64),
        intermediate=config.whole("d_ff", at_most=MAX_INTERMEDIATE),
        buckets=config.whole("relative_attention_num_buckets", at_most=MAX_SMALL, default=32),
        gated=gated,
        # T5Config turns "gated-gelu" into the tanh approximation.
        activation="gelu_new" if projection == "gated-gelu" else activation,
        bias_everywhere=config.word("model_type", default="t5") == "umt5",
    )


def build_t5(config: Config) -> ModelArchitecture:
    """Return T5 or mT5; with ``tie_word_embeddings`` false (FLAN-T5) the head has its own weight.

    Transformers 5 builds it tied whatever the config says; the published checkpoints have it.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = t5_sizes(config)
    layers = layer_count(config, "num_layers")
    rows = vocabulary(config)
    tied = config.flag(Switch("tie_word_embeddings", default=True))
    encoder = t5_stack(config, sizes, "encoder", layers)
    outside = [
        embedding("shared", rows, sizes.hidden),
        norm("encoder.final_layer_norm", "encoder_final_norm", sizes.hidden),
    ]
    stacks: tuple[Stack, ...] = (encoder,)
    name = class_name(config)
    encoder_only = name.endswith(("EncoderModel", "ForTokenClassification"))
    if not encoder_only:
        depth = config.whole("num_decoder_layers", at_most=MAX_LAYERS, default=layers)
        stacks = (encoder, t5_stack(config, sizes, "decoder", depth))
        outside.append(norm("decoder.final_layer_norm", "final_norm", sizes.hidden))
    head = t5_head(config, sizes.hidden, rows, tied=tied)
    return finished(
        config,
        ModelArchitecture(
            model_type=config.word("model_type", default="t5"),
            model_class=head.model_class,
            hidden_size=sizes.hidden,
            vocab_size=rows,
            tie_word_embeddings=tied,
            stacks=stacks,
            outside=(*outside, *head.modules),
            embedding_dropout=config.fraction(T5_DROPOUT),
            family="t5",
        ),
    )


def t5_head(config: Config, hidden: int, rows: int, *, tied: bool) -> Head:
    """Return the language model's head, a classifier's or none.

    Raises:
        InvalidModelConfigError: the class is not one whose head is known.
    """
    name = class_name(config)
    if not name or name.endswith(("ForConditionalGeneration", "WithLMHeadModel")):
        modules = language_model_head("lm_head", hidden, rows, tied=tied)
        return Head(ModelClass.ENCODER_DECODER, modules)
    if name.endswith("ForSequenceClassification"):
        at = "classification_head"
        dense = head_linear(f"{at}.dense", hidden, hidden, role="pooler")
        out = head_linear(f"{at}.out_proj", hidden, label_count(config))
        return Head(ModelClass.OTHER, (dense, out))
    if name.endswith("ForTokenClassification"):
        classifier = head_linear("classifier", hidden, label_count(config))
        return Head(ModelClass.OTHER, (classifier,))
    if name.endswith("ForQuestionAnswering"):
        span = head_linear("qa_outputs", hidden, label_count(config))
        return Head(ModelClass.OTHER, (span,))
    if not name.endswith("Model"):
        config.refuse("architectures", f"the head of {shown(name)} is not known")
    return Head(ModelClass.OTHER, ())


def t5_stack(config: Config, sizes: T5Sizes, name: str, layers: int) -> Stack:
    """Return encoder or decoder; the first layer holds the relative position biases all share."""
    kinds = (True,) + (sizes.bias_everywhere,) * (layers - 1)
    return stack(
        name,
        f"{name}.block",
        sizes.hidden,
        kinds,
        lambda first: t5_block(config, sizes, first=first, decoder=name == "decoder"),
    )


def t5_block(config: Config, sizes: T5Sizes, *, first: bool, decoder: bool) -> Block:
    """Return one block."""
    attention = t5_projections("layer.0.SelfAttention.", sizes)
    modules = [*attention, norm("layer.0.layer_norm", "input_norm", sizes.hidden)]
    if first:
        path = "layer.0.SelfAttention.relative_attention_bias"
        modules.append(embedding(path, sizes.buckets, sizes.heads, role="relative_bias"))
    if decoder:
        modules += (cross(module) for module in t5_projections("layer.1.EncDecAttention.", sizes))
        modules.append(norm("layer.1.layer_norm", "cross_norm", sizes.hidden))
    at = f"layer.{2 if decoder else 1}."
    names = ("wi_0", "wi_1", "wo") if sizes.gated else ("wi", "wo")
    modules += feed_forward_modules(
        f"{at}DenseReluDense.", names, sizes.hidden, sizes.intermediate, gated=sizes.gated
    )
    modules.append(norm(f"{at}layer_norm", "pre_feed_forward_norm", sizes.hidden))
    dropout = config.fraction(T5_DROPOUT)
    return Block(
        name="first" if first else "layer",
        modules=tuple(modules),
        attention=t5_attention(sizes, dropout, causal=decoder),
        cross_attention=t5_attention(sizes, dropout, causal=False, relative=False)
        if decoder
        else None,
        feed_forward=FeedForward(
            intermediate_size=sizes.intermediate,
            gated=sizes.gated,
            activation=sizes.activation,
            dropout=dropout,
        ),
        residual_dropout=dropout,
    )


def t5_projections(prefix: str, sizes: T5Sizes) -> tuple[Module, ...]:
    """Return query, key, value and output."""
    inner = sizes.heads * sizes.head_dim
    return tuple(
        linear(
            prefix + name,
            Part.ATTENTION,
            role,
            *((inner, sizes.hidden) if name == "o" else (sizes.hidden, inner)),
        )
        for name, role in _T5_ROLES
    )


def cross(module: Module) -> Module:
    """Return a projection of self-attention as one of cross-attention."""
    return Module(
        path=module.path,
        part=module.part,
        kind=module.kind,
        role=_CROSS[module.role],
        in_features=module.in_features,
        out_features=module.out_features,
        weight=module.weight,
        bias=module.bias,
    )


def t5_attention(
    sizes: T5Sizes, dropout: float, *, causal: bool, relative: bool = True
) -> Attention:
    """Return attention whose scores are not scaled and take a learned bias by distance."""
    return Attention(
        heads=sizes.heads,
        kv_heads=sizes.heads,
        head_dim=sizes.head_dim,
        value_head_dim=sizes.head_dim,
        position=Position.RELATIVE if relative else Position.NONE,
        dropout=dropout,
        causal=causal,
    )
