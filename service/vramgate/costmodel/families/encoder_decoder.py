"""Encoder-decoders with BART's block: BART, mBART, PEGASUS, Marian, M2M-100 and NLLB, Whisper.

Source: Lewis et al. 2020 (BART), Radford et al. 2022 (Whisper), and the modeling files in
transformers 5.24.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    BlockLayout,
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
    ATTENTION_DROPOUT,
    MAX_INTERMEDIATE,
    MAX_POSITIONS,
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
    convolution,
    embedding,
    head_count,
    hidden_size,
    layer_count,
    norm,
    stack,
    vocabulary,
)

_PROJECTIONS = (
    ("q_proj", "query"),
    ("k_proj", "key"),
    ("v_proj", "value"),
    ("out_proj", "attention_output"),
)
_CROSS_ROLES = ("cross_query", "cross_key", "cross_value", "cross_output")


BART_DROPOUT = Rate(("dropout",), 0.1)
ACTIVATION_DROPOUT = Rate(("activation_dropout",))


@dataclass(frozen=True, slots=True, kw_only=True)
class BartStyle:
    """Names and traits of one family with BART's block; the defaults are BART's."""

    family: str = "bart"
    layout: BlockLayout = BlockLayout.POST_NORM
    embedding_norm: bool = True
    final_norm: bool = False
    learned_positions: bool = True
    """Positions are a table of weights; else they are computed into a buffer."""
    extra_positions: int = 2
    activation: str = "gelu"
    dropout: Rate = BART_DROPOUT
    attention_dropout: Rate = ATTENTION_DROPOUT
    activation_dropout: Rate = ACTIVATION_DROPOUT
    key_bias: bool = True
    speech: bool = False
    """The encoder reads spectrograms through two convolutions (Whisper)."""
    logits_bias_buffer: bool = True
    labels: int = 2
    """Classes of a classifier whose config names none."""


BART = BartStyle(labels=3)
MBART = replace(BART, family="mbart", labels=2, layout=BlockLayout.PRE_NORM, final_norm=True)
M2M_100 = replace(
    MBART,
    family="m2m_100",
    embedding_norm=False,
    learned_positions=False,
    activation="relu",
    attention_dropout=Rate(("attention_dropout",), 0.1),
    logits_bias_buffer=False,
)
MARIAN = replace(BART, family="marian", embedding_norm=False, extra_positions=0)
PEGASUS = replace(MARIAN, family="pegasus", layout=BlockLayout.PRE_NORM, final_norm=True)
WHISPER = BartStyle(
    family="whisper",
    layout=BlockLayout.PRE_NORM,
    embedding_norm=False,
    final_norm=True,
    extra_positions=0,
    dropout=Rate(("dropout",)),
    key_bias=False,
    speech=True,
    logits_bias_buffer=False,
)


class SideSizes(NamedTuple):
    """The sizes of the encoder or the decoder."""

    name: str
    hidden: int
    layers: int
    heads: int
    intermediate: int
    positions: int


def side_sizes(config: Config, style: BartStyle, name: str, hidden: int) -> SideSizes:
    """Return the sizes of one side (``name``: encoder or decoder).

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    own = "max_source_positions" if name == "encoder" else "max_target_positions"
    key = own if style.speech else "max_position_embeddings"
    heads, _ = head_count(config, hidden, f"{name}_attention_heads")
    return SideSizes(
        name,
        hidden,
        layer_count(config, f"{name}_layers"),
        heads,
        config.whole(f"{name}_ffn_dim", at_most=MAX_INTERMEDIATE),
        config.whole(key, at_most=MAX_POSITIONS),
    )


def build_bart(config: Config, style: BartStyle = BART) -> ModelArchitecture:
    """Return an encoder-decoder with the head of its class (none named: a language model's).

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden, rows = hidden_size(config), vocabulary(config)
    headless = is_bare(config)
    root = "" if headless else "model."
    sides = [side_sizes(config, style, side, hidden) for side in ("encoder", "decoder")]
    tied = config.flag(Switch("tie_word_embeddings", default=True))
    shared = f"{root}decoder.embed_tokens" if style.speech else f"{root}shared"
    outside = [embedding(shared, rows, hidden)]
    for side in sides:
        outside += side_modules(config, style, side, root)
    head = bart_head(config, style, hidden, rows, tied=tied)
    buffers = rows if style.logits_bias_buffer and not headless else 0
    if not style.learned_positions:
        buffers += sum((s.positions + style.extra_positions) * hidden for s in sides)
    return finished(
        config,
        ModelArchitecture(
            model_type=config.word("model_type", default=style.family),
            model_class=head.model_class,
            hidden_size=hidden,
            vocab_size=rows,
            tie_word_embeddings=tied,
            stacks=tuple(bart_stack(config, style, side, root) for side in sides),
            outside=(*outside, *head.modules),
            final_norm=NormKind.LAYER if style.final_norm else NormKind.NONE,
            embedding_dropout=config.fraction(style.dropout),
            embedding_norm=NormKind.LAYER if style.embedding_norm else NormKind.NONE,
            # The op runs even where the factor is 1.
            embedding_scaled=not style.speech,
            max_position_embeddings=sides[-1].positions,
            buffer_elements=buffers,
            family=style.family,
        ),
    )


def is_bare(config: Config) -> bool:
    """Return whether the class has no head; MarianMTModel has one in spite of its name."""
    name = class_name(config)
    return name.endswith("Model") and not name.endswith("MTModel")


def bart_head(config: Config, style: BartStyle, hidden: int, rows: int, *, tied: bool) -> Head:
    """Return the language model's head, a classifier's or none.

    Raises:
        InvalidModelConfigError: the class is not one whose head is known.
    """
    name = class_name(config)
    if is_bare(config):
        return Head(ModelClass.OTHER, ())
    if name.endswith("ForSequenceClassification"):
        at = "classification_head"
        dense = head_linear(f"{at}.dense", hidden, hidden, role="pooler")
        out = head_linear(f"{at}.out_proj", hidden, label_count(config, default=style.labels))
        return Head(ModelClass.OTHER, (dense, out))
    if name.endswith("ForQuestionAnswering"):
        return Head(ModelClass.OTHER, (head_linear("qa_outputs", hidden, 2),))
    if name and not name.endswith(("ForConditionalGeneration", "MTModel")):
        config.refuse("architectures", f"the head of {shown(name)} is not known")
    path = "proj_out" if style.speech else "lm_head"
    modules = language_model_head(path, hidden, rows, tied=tied)
    return Head(ModelClass.ENCODER_DECODER, modules)


def side_modules(
    config: Config, style: BartStyle, side: SideSizes, root: str
) -> tuple[Module, ...]:
    """Return what stands around the layers of one side: convolutions, positions, norms."""
    at, hidden = f"{root}{side.name}.", side.hidden
    modules: list[Module] = []
    if style.speech and side.name == "encoder":
        mels = config.whole("num_mel_bins", at_most=MAX_SMALL)
        for path, channels in (("conv1", mels), ("conv2", hidden)):
            modules.append(
                convolution(
                    at + path, "patch_embedding", (channels, hidden), 3, part=Part.EMBEDDING
                )
            )
    if style.learned_positions:
        rows = side.positions + style.extra_positions
        path = f"{at}embed_positions"
        modules.append(embedding(path, rows, hidden, role="position_embedding"))
    if style.embedding_norm:
        modules.append(norm(f"{at}layernorm_embedding", "embedding_norm", hidden, bias=True))
    if style.final_norm:
        role = "final_norm" if side.name == "decoder" else "encoder_final_norm"
        modules.append(norm(f"{at}layer_norm", role, hidden, bias=True))
    return tuple(modules)


def bart_stack(config: Config, style: BartStyle, side: SideSizes, root: str) -> Stack:
    """Return the layers of one side."""
    block = bart_block(config, style, side)
    path = f"{root}{side.name}.layers"
    return stack(side.name, path, side.hidden, (0,) * side.layers, lambda _: block)


def bart_block(config: Config, style: BartStyle, side: SideSizes) -> Block:
    """Return the block of one side; the decoder's has cross-attention."""
    hidden, decoder = side.hidden, side.name == "decoder"
    before = style.layout is BlockLayout.PRE_NORM
    modules = list(bart_projections("self_attn.", style, hidden, [r for _, r in _PROJECTIONS]))
    role = "input_norm" if before else "post_attention_norm"
    modules.append(norm("self_attn_layer_norm", role, hidden, bias=True))
    if decoder:
        modules += bart_projections("encoder_attn.", style, hidden, _CROSS_ROLES)
        modules.append(norm("encoder_attn_layer_norm", "cross_norm", hidden, bias=True))
    modules += feed_forward_modules(
        "", ("fc1", "fc2"), hidden, side.intermediate, gated=False, biases=(True, True)
    )
    role = "pre_feed_forward_norm" if before else "post_feed_forward_norm"
    modules.append(norm("final_layer_norm", role, hidden, bias=True))
    attention = bart_attention(config, style, side, causal=decoder)
    return Block(
        name="attention",
        modules=tuple(modules),
        attention=attention,
        cross_attention=bart_attention(config, style, side, causal=False) if decoder else None,
        feed_forward=FeedForward(
            intermediate_size=side.intermediate,
            gated=False,
            activation=config.word("activation_function", default=style.activation),
            dropout=config.fraction(style.activation_dropout),
        ),
        norm=NormKind.LAYER,
        layout=style.layout,
        residual_dropout=config.fraction(style.dropout),
    )


def bart_projections(
    prefix: str, style: BartStyle, hidden: int, roles: list[str] | tuple[str, ...]
) -> tuple[Module, ...]:
    """Return the projections of self- or cross-attention; Whisper's key has no bias."""
    return tuple(
        linear(
            prefix + name,
            Part.ATTENTION,
            role,
            hidden,
            hidden,
            bias=style.key_bias or not role.endswith("key"),
        )
        for (name, _), role in zip(_PROJECTIONS, roles, strict=True)
    )


def bart_attention(config: Config, style: BartStyle, side: SideSizes, *, causal: bool) -> Attention:
    """Return the shape of one attention."""
    width = side.hidden // side.heads
    return Attention(
        heads=side.heads,
        kv_heads=side.heads,
        head_dim=width,
        value_head_dim=width,
        position=Position.LEARNED,
        dropout=config.fraction(style.attention_dropout),
        causal=causal,
    )
