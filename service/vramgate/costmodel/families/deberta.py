"""DeBERTa 1 to 3: attention with separate terms for relative positions.

Source: He et al. 2021 and the modeling files in transformers 5.24.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    Block,
    ModelArchitecture,
    Module,
    Part,
    linear,
)
from vramgate.costmodel.families.config import (
    MAX_POSITIONS,
    MAX_SMALL,
    Config,
    Switch,
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
from vramgate.costmodel.families.parts import (
    convolution,
    embedding,
    norm,
    parameter,
    stack,
)

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
    attention = block.attention and replace(block.attention, fused_qkv=True)
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
