"""BERT-type encoders that share BERT's block: BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, DistilBERT.

Source: the modeling files in transformers 5.24.
"""

from dataclasses import dataclass, replace
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
    Position,
    Stack,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_POSITIONS,
    MAX_SMALL,
    Config,
    Rate,
    Switch,
    shown,
)
from vramgate.costmodel.families.encoder_heads import encoder_head
from vramgate.costmodel.families.feed_forward import feed_forward_modules
from vramgate.costmodel.families.gpt import refuse_cross_attention
from vramgate.costmodel.families.heads import class_name
from vramgate.costmodel.families.parts import (
    embedding,
    head_count,
    hidden_size,
    layer_count,
    norm,
    stack,
    vocabulary,
)

BERT_DROPOUT = Rate(("hidden_dropout_prob",), 0.1)
BERT_ATTENTION_DROPOUT = Rate(("attention_probs_dropout_prob",), 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderStyle:
    """Names and traits of one BERT-type family; the defaults are BERT's."""

    family: str = "bert"
    root: str = "bert."
    """Where the encoder stands inside a class with a head; the bare class has no root."""
    layers: str = "encoder.layer"
    projections: tuple[str, str, str, str] = (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
    )
    feed_forward: tuple[str, str] = ("intermediate.dense", "output.dense")
    norms: tuple[str, str] = ("attention.output.LayerNorm", "output.LayerNorm")
    size_keys: tuple[str, ...] = ("intermediate_size",)
    activation_keys: tuple[str, ...] = ("hidden_act",)
    token_types: int = 2
    """What an absent ``type_vocab_size`` means; 0 and no key: there are none."""
    token_type_keys: tuple[str, ...] = ("type_vocab_size",)
    dropout: Rate = BERT_DROPOUT
    attention_dropout: Rate = BERT_ATTENTION_DROPOUT
    id_buffers: int = 2
    """int64 tables of max_position_embeddings entries: position and token type ids."""
    heads: str = "bert"
    """Whose heads it has, see ``encoder_heads``."""


class EncoderSizes(NamedTuple):
    """The sizes an encoder's config states."""

    hidden: int
    embedding: int
    layers: int
    vocabulary: int
    positions: int
    token_types: int
    intermediate: int


BERT = EncoderStyle()
ROBERTA = replace(BERT, family="roberta", root="roberta.", heads="roberta")
DATA2VEC = replace(BERT, family="data2vec-text", root="data2vec_text.", heads="roberta")
ELECTRA = replace(BERT, family="electra", root="electra.", heads="electra")
DISTILBERT = EncoderStyle(
    family="distilbert",
    root="distilbert.",
    layers="transformer.layer",
    projections=("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
    feed_forward=("ffn.lin1", "ffn.lin2"),
    norms=("sa_layer_norm", "output_layer_norm"),
    size_keys=("hidden_dim",),
    activation_keys=("activation",),
    token_types=0,
    token_type_keys=(),
    dropout=Rate(("dropout",), 0.1),
    attention_dropout=Rate(("attention_dropout",), 0.1),
    id_buffers=1,
    heads="distilbert",
)


MPNET = replace(
    ROBERTA,
    family="mpnet",
    root="mpnet.",
    projections=(
        "attention.attn.q",
        "attention.attn.k",
        "attention.attn.v",
        "attention.attn.o",
    ),
    norms=("attention.LayerNorm", "output.LayerNorm"),
    token_types=0,
    token_type_keys=(),
    id_buffers=1,
)


def build_mpnet(config: Config) -> ModelArchitecture:
    """Return MPNet: BERT with one table of relative position biases for all layers.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    model = build_encoder(config, MPNET)
    heads = head_count(config, model.hidden_size)[0]
    rows = config.whole("relative_attention_num_buckets", at_most=MAX_SMALL, default=32)
    path = f"{root_of(config, MPNET.root)}encoder.relative_attention_bias"
    table = embedding(path, rows, heads, role="relative_bias")
    return finished(config, replace(model, outside=(*model.outside, table)))


def root_of(config: Config, root: str) -> str:
    """Return where the encoder stands: nowhere in the bare class, whose name ends in ``Model``."""
    name = class_name(config)
    return "" if name.endswith("Model") and "Head" not in name else root


def encoder_sizes(config: Config, style: EncoderStyle) -> EncoderSizes:
    """Return the sizes.

    Raises:
        InvalidModelConfigError: one is missing or out of bounds, or the config names a variant
            that is not counted.
    """
    refuse_cross_attention(config)
    positions = config.word("position_embedding_type", default="absolute")
    if positions != "absolute":
        config.refuse("position_embedding_type", f"{shown(positions)}: only absolute is counted")
    hidden = hidden_size(config)
    keys = style.token_type_keys
    return EncoderSizes(
        hidden=hidden,
        embedding=config.whole("embedding_size", default=hidden),
        layers=layer_count(config),
        vocabulary=vocabulary(config),
        positions=config.whole("max_position_embeddings", at_most=MAX_POSITIONS),
        token_types=(
            config.whole(*keys, at_least=0, at_most=MAX_SMALL, default=style.token_types)
            if keys
            else 0
        ),
        intermediate=config.whole(*style.size_keys, at_most=MAX_INTERMEDIATE),
    )


def build_encoder(config: Config, style: EncoderStyle) -> ModelArchitecture:
    """Return a BERT-type encoder with the head of its class (none named: a masked language model).

    Raises:
        InvalidModelConfigError: a key is missing or malformed, or names a variant that is not
            counted.
    """
    sizes = encoder_sizes(config, style)
    root = root_of(config, style.root)
    block = encoder_block(config, style, sizes)
    outside = embedding_modules(root, sizes)
    if sizes.embedding != sizes.hidden:
        path = f"{root}embeddings_project"
        into = linear(
            path, Part.EMBEDDING, "embedding_project_in", sizes.embedding, sizes.hidden, bias=True
        )
        outside = (*outside, into)
    layers = stack(
        "encoder", root + style.layers, sizes.hidden, (0,) * sizes.layers, lambda _: block
    )
    return encoder_around(config, style, sizes, layers, outside)


def encoder_around(
    config: Config,
    style: EncoderStyle,
    sizes: EncoderSizes,
    layers: Stack,
    outside: tuple[Module, ...],
    *,
    approximate: tuple[str, ...] = (),
) -> ModelArchitecture:
    """Return the model around its layers: ``outside`` and the head of its class.

    Raises:
        InvalidModelConfigError: a key is malformed, or the class is not known.
    """
    tied = config.flag(Switch("tie_word_embeddings", default=True))
    head = encoder_head(
        config,
        style.heads,
        hidden=sizes.hidden,
        embedding=sizes.embedding,
        rows=sizes.vocabulary,
        tied=tied,
    )
    return finished(
        config,
        ModelArchitecture(
            model_type=config.word("model_type", default=style.family),
            model_class=head.model_class,
            hidden_size=sizes.hidden,
            vocab_size=sizes.vocabulary,
            tie_word_embeddings=tied,
            stacks=(layers,),
            outside=(*outside, *head.modules),
            final_norm=NormKind.NONE,
            embedding_dropout=config.fraction(style.dropout),
            embedding_norm=NormKind.LAYER,
            head_dense=any(m.role == "head_dense" for m in head.modules),
            max_position_embeddings=sizes.positions,
            # int64 ids, two words each.
            buffer_elements=2 * style.id_buffers * sizes.positions,
            family=style.family,
            approximate=approximate,
        ),
    )


def embedding_modules(root: str, sizes: EncoderSizes) -> tuple[Module, ...]:
    """Return word, position and token type tables and their norm."""
    at, width = f"{root}embeddings.", sizes.embedding
    modules = [
        embedding(f"{at}word_embeddings", sizes.vocabulary, width),
        embedding(f"{at}position_embeddings", sizes.positions, width, role="position_embedding"),
    ]
    if sizes.token_types:
        path = f"{at}token_type_embeddings"
        modules.append(embedding(path, sizes.token_types, width, role="token_type_embedding"))
    modules.append(norm(f"{at}LayerNorm", "embedding_norm", width, bias=True))
    return tuple(modules)


def encoder_block(config: Config, style: EncoderStyle, sizes: EncoderSizes) -> Block:
    """Return BERT's block: attention and feed-forward, a norm after each residual.

    Raises:
        InvalidModelConfigError: the heads do not divide the hidden size.
    """
    hidden = sizes.hidden
    heads, head_dim = head_count(config, hidden)
    roles = ("query", "key", "value", "attention_output")
    modules = (
        *(
            linear(path, Part.ATTENTION, role, hidden, hidden, bias=True)
            for path, role in zip(style.projections, roles, strict=True)
        ),
        norm(style.norms[0], "post_attention_norm", hidden, bias=True),
        *feed_forward_modules(
            "",
            style.feed_forward,
            hidden,
            sizes.intermediate,
            gated=False,
            biases=(True, True),
        ),
        norm(style.norms[1], "post_feed_forward_norm", hidden, bias=True),
    )
    return Block(
        name="attention",
        modules=modules,
        attention=encoder_attention(config, style, heads, head_dim),
        feed_forward=FeedForward(
            intermediate_size=sizes.intermediate,
            gated=False,
            activation=config.word(*style.activation_keys, default="gelu"),
        ),
        norm=NormKind.LAYER,
        layout=BlockLayout.POST_NORM,
        residual_dropout=config.fraction(style.dropout),
    )


def encoder_attention(config: Config, style: EncoderStyle, heads: int, head_dim: int) -> Attention:
    """Return full, unmasked attention."""
    return Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        value_head_dim=head_dim,
        position=Position.LEARNED,
        dropout=config.fraction(style.attention_dropout),
        causal=config.flag(Switch("is_decoder", default=False)),
    )
