"""Builds a decoder-only model from its config and its family's ``DecoderStyle``."""

from collections.abc import Callable
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    BlockLayout,
    FeedForward,
    ModelArchitecture,
    Module,
    NormKind,
    Part,
    Stack,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.attention import (
    Mixer,
    attention_modules,
    attention_shape,
    logits_softcap,
)
from vramgate.costmodel.families.config import Config
from vramgate.costmodel.families.feed_forward import (
    FeedForwardPart,
    dense_feed_forward,
    expert_feed_forward,
)
from vramgate.costmodel.families.heads import decoder_head, language_model_head
from vramgate.costmodel.families.layers import LayerKind, layer_kinds
from vramgate.costmodel.families.parts import (
    embedding,
    hidden_size,
    layer_count,
    max_positions,
    norm,
    parameter,
    read_heads,
    stack,
    vocabulary,
)
from vramgate.costmodel.families.style import DecoderStyle, MaskBuffer

MixerMaker = Callable[[LayerKind], Mixer]
"""Makes what mixes the tokens in layers of one kind."""


class DecoderSizes(NamedTuple):
    """The sizes a decoder config states outside its blocks."""

    hidden: int
    layers: int
    vocabulary: int
    positions: int | None


def read_sizes(config: Config) -> DecoderSizes:
    """Return width, depth, vocabulary and longest sequence.

    Raises:
        InvalidModelConfigError: one is missing or out of bounds.
    """
    return DecoderSizes(
        hidden_size(config), layer_count(config), vocabulary(config), max_positions(config)
    )


def build_decoder(
    config: Config,
    style: DecoderStyle,
    *,
    mixer: MixerMaker | None = None,
    mixers: tuple[str, ...] | None = None,
) -> ModelArchitecture:
    """Return a decoder-only model.

    ``mixer`` makes what mixes the tokens in each kind of layer (default: the style's attention),
    ``mixers`` names the mixer of each layer where they differ.

    Raises:
        InvalidModelConfigError: a key the family needs is missing or contradicts another.
    """
    sizes = read_sizes(config)
    kinds = layer_kinds(config, style, sizes.layers)
    if mixers is not None:
        kinds = tuple(k._replace(mixer=m) for k, m in zip(kinds, mixers, strict=True))
    if mixer is None:
        mixer = SoftmaxMixers(config, style, sizes.hidden).mixer
    maker = BlockMaker(config, style, sizes.hidden, mixer)
    layers = stack("decoder", style.root + style.layers, sizes.hidden, kinds, maker.block)
    return decoder_around(config, style, sizes, layers)


def decoder_around(
    config: Config,
    style: DecoderStyle,
    sizes: DecoderSizes,
    layers: Stack,
    *,
    beside: tuple[Module, ...] = (),
) -> ModelArchitecture:
    """Return the model around its layers: embeddings, final norm, head, what stands ``beside``.

    Raises:
        InvalidModelConfigError: a key is of the wrong type, or the model is beyond any bounds.
    """
    tied = config.flag(style.tied_switch)
    vocabulary_head = language_model_head(
        style.head,
        sizes.hidden,
        sizes.vocabulary,
        tied=tied,
        bias=config.flag(style.head_bias),
        former_path=style.former_head,
    )
    head = decoder_head(config, sizes.hidden, vocabulary_head)
    rotary_dim = max((b.attention.rotary_dim for b in layers.blocks if b.attention), default=0)
    architecture = ModelArchitecture(
        model_type=config.word("model_type", default=style.family),
        model_class=head.model_class,
        hidden_size=sizes.hidden,
        vocab_size=sizes.vocabulary,
        tie_word_embeddings=tied,
        stacks=(layers,),
        outside=(*embedding_modules(config, style, sizes), *beside, *head.modules),
        final_norm=style.norm if style.final_norm else NormKind.NONE,
        embedding_dropout=config.fraction(style.embedding_dropout),
        embedding_norm=style.norm if style.embedding_norm else NormKind.NONE,
        embedding_scaled=style.embedding_scaled,
        logits_softcap=logits_softcap(config, style),
        max_position_embeddings=sizes.positions,
        buffer_elements=buffer_words(style, sizes, rotary_dim),
        family=style.family,
        approximate=style.approximate,
    )
    return finished(config, architecture)


def buffer_words(style: DecoderStyle, sizes: DecoderSizes, rotary_dim: int) -> int:
    """Return the buffers in words of 4 bytes, as transformers 5.24 registers them.

    Each rotary table is ``inv_freq`` and its original, half a head each.
    """
    positions = sizes.positions or 0
    masks = {MaskBuffer.ONCE: 1, MaskBuffer.EACH_LAYER: sizes.layers}.get(style.mask_buffer, 0)
    mask = masks * (positions * positions // 4)
    if style.rotary_table_rows:
        return mask + positions * rotary_dim
    return mask + rotary_dim * style.rotary_tables


def embedding_modules(
    config: Config, style: DecoderStyle, sizes: DecoderSizes
) -> tuple[Module, ...]:
    """Return embedding, position table, embedding norm and final norm.

    Raises:
        InvalidModelConfigError: positions are learned and their number is missing.
    """
    hidden, bias = sizes.hidden, config.flag(style.norm_bias)
    modules = [embedding(style.root + style.embedding, sizes.vocabulary, hidden)]
    if style.position_embedding is not None:
        if sizes.positions is None:
            config.require("max_position_embeddings", "n_positions")
        rows = sizes.positions + style.extra_positions
        path = style.root + style.position_embedding
        modules.append(embedding(path, rows, hidden, role="position_embedding"))
    if style.embedding_norm is not None:
        path = style.root + style.embedding_norm
        modules.append(norm(path, "embedding_norm", hidden, bias=bias, weight=style.norm_weight))
    if style.final_norm:
        path = style.root + style.final_norm
        modules.append(norm(path, "final_norm", hidden, bias=bias, weight=style.norm_weight))
    return tuple(modules)


class SoftmaxMixers:
    """Makes the softmax attention of each kind of layer."""

    def __init__(self, config: Config, style: DecoderStyle, hidden: int) -> None:
        """Read the heads and make the projections, which all kinds share.

        Raises:
            InvalidModelConfigError: the heads are missing or contradict the hidden size.
        """
        self.config = config
        self.style = style.attention
        self.heads = read_heads(
            config,
            hidden,
            kv_heads_default=style.attention.kv_heads_default,
            head_dim_default=style.attention.head_dim_default,
        )
        self.modules = attention_modules(config, style, hidden, self.heads)

    def mixer(self, kind: LayerKind) -> Mixer:
        """Return the attention of layers of one kind."""
        return Mixer(attention_shape(self.config, self.style, self.heads, kind), self.modules)


class BlockMaker:
    """Makes the blocks of one decoder, each kind of layer once."""

    def __init__(self, config: Config, style: DecoderStyle, hidden: int, mixer: MixerMaker) -> None:
        """Prepare what all kinds of layer share."""
        self.config = config
        self.style = style
        self.hidden = hidden
        self.mixer = mixer
        self.residual_dropout = config.fraction(style.residual_dropout)

    def block(self, kind: LayerKind) -> Block:
        """Return the block of layers of one kind.

        Raises:
            InvalidModelConfigError: a key of the feed-forward is missing or contradicts another.
        """
        style = self.style
        mixer = self.mixer(kind)
        halves = self.feed_forward(kind)
        modules = (
            *mixer.modules,
            *halves.modules,
            *self.norms(mixer.shape, halves.dense),
            *(parameter(e.path, Part.MLP, e.role, e.size) for e in style.extras),
        )
        return Block(
            name=block_name(kind),
            modules=modules,
            attention=mixer.shape,
            feed_forward=halves.dense,
            experts=halves.experts,
            norm=style.norm,
            layout=style.layout,
            parallel_norms=len(style.norms) if style.layout is BlockLayout.PARALLEL else 1,
            residual_dropout=self.residual_dropout,
        )

    def feed_forward(self, kind: LayerKind) -> FeedForwardPart:
        """Return the dense feed-forward or the experts."""
        style = self.style
        if kind.sparse and style.experts is not None:
            return expert_feed_forward(self.config, style.experts, style.feed_forward, self.hidden)
        return dense_feed_forward(self.config, style.feed_forward, self.hidden, style.linear)

    def norms(self, attention: Attention, dense: FeedForward | None) -> tuple[Module, ...]:
        """Return the norms of a block."""
        style = self.style
        widths = {
            "hidden": self.hidden,
            "query": attention.query_size,
            "intermediate": dense.intermediate_size if dense is not None else 0,
        }
        bias = self.config.flag(style.norm_bias)
        return tuple(
            norm(n.path, n.role, widths[n.width], bias=bias, weight=style.norm_weight)
            for n in style.norms
        )


def block_name(kind: LayerKind) -> str:
    """Return what distinguishes a kind of layer, for people.

    >>> block_name(LayerKind(window=4096, sparse=True))
    'sliding_attention_experts'
    """
    mixer = f"sliding_{kind.mixer}" if kind.window else kind.mixer
    return f"{mixer}_experts" if kind.sparse else mixer
