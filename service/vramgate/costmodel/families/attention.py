"""The attention of a decoder block: its shape and its modules."""

from collections.abc import Mapping
from typing import NamedTuple

from vramgate.costmodel.architecture import Attention, Module, Part, Position, linear
from vramgate.costmodel.families.config import MAX_SMALL, Config, Rate
from vramgate.costmodel.families.layers import LayerKind
from vramgate.costmodel.families.parts import Heads, norm, parameter
from vramgate.costmodel.families.style import (
    AttentionStyle,
    DecoderStyle,
    NormWeight,
    QueryKeyNorm,
)

_SEPARATE = 4


class Mixer(NamedTuple):
    """What mixes the tokens of a block: its shape and its modules."""

    shape: Attention
    modules: tuple[Module, ...]


def rotary_width(config: Config, style: AttentionStyle, head_dim: int) -> int:
    """Return how many elements of a head are rotated.

    Raises:
        InvalidModelConfigError: more are rotated than a head has, or the share is outside 0 to 1.
    """
    width = config.maybe_whole("rotary_dim", at_most=MAX_SMALL)
    if width is None and not config.has("rotary_dim"):
        width = style.rotary_dim_default
    if width is None:
        return int(head_dim * rotary_share(config, style.partial_rotary))
    if width > head_dim:
        detail = f"rotary_dim {width} is wider than a head of {head_dim}"
        config.refuse("rotary_dim", detail, code="contradiction")
    return width


def rotary_share(config: Config, default: float) -> float:
    """Return the share of a head that is rotated, wherever the config keeps it."""
    _, nested = config.get("rope_parameters")
    section = config.section("rope_parameters") if isinstance(nested, Mapping) else None
    if section is not None and section.has("partial_rotary_factor"):
        return section.fraction(Rate(("partial_rotary_factor",), default))
    return config.fraction(Rate(("partial_rotary_factor", "rotary_pct", "rope_pct"), default))


def attention_shape(
    config: Config, style: AttentionStyle, heads: Heads, kind: LayerKind
) -> Attention:
    """Return the attention of layers of one kind.

    Raises:
        InvalidModelConfigError: a key is of the wrong type or out of bounds.
    """
    position = style.position
    if position is Position.ROTARY and not kind.rotary:
        position = Position.NONE
    rotary = rotary_width(config, style, heads.head_dim) if position is Position.ROTARY else 0
    return Attention(
        heads=heads.heads,
        kv_heads=heads.kv_heads,
        head_dim=heads.head_dim,
        value_head_dim=heads.head_dim,
        position=position,
        rotary_dim=rotary,
        fused_qkv=len(style.projections) != _SEPARATE,
        query_key_norm=_norm_word(config, style.norm),
        sliding_window=kind.window,
        softcap=_has_softcap(config, style.softcap_key, default=style.softcap_default),
        sinks=style.sinks,
        dropout=config.fraction(style.dropout),
    )


def _has_softcap(config: Config, key: str | None, *, default: bool) -> bool:
    """Return whether scores are capped: a key that is absent means the default, null means no."""
    if key is None:
        return False
    return config.sets(key) if config.has(key) else default


def logits_softcap(config: Config, style: DecoderStyle) -> bool:
    """Return whether the logits are capped."""
    return _has_softcap(config, style.logits_softcap_key, default=style.logits_softcap_default)


def _norm_word(config: Config, style: QueryKeyNorm | None) -> str:
    """Return how queries and keys are normalised, in the words of ``Attention``."""
    if style is None or not config.flag(style.when):
        return "none"
    return "full" if style.weight is NormWeight.FULL else "head"


def attention_modules(
    config: Config, style: DecoderStyle, hidden: int, heads: Heads
) -> tuple[Module, ...]:
    """Return the projections of the attention, then its query and key norms and sinks."""
    attention = style.attention
    modules = list(_projections(config, style, hidden, heads))
    if attention.norm is not None and config.flag(attention.norm.when):
        modules.extend(query_key_norms(attention.path, attention.norm, heads))
    if attention.sinks:
        path = f"{attention.path}sinks"
        modules.append(parameter(path, Part.ATTENTION, "sinks", heads.heads))
    return tuple(modules)


def _projections(
    config: Config, style: DecoderStyle, hidden: int, heads: Heads
) -> tuple[Module, ...]:
    """Return query, key, value and output, or the fused projection and output."""
    attention = style.attention
    bias = config.flag(attention.bias)
    query = heads.query_size * (2 if attention.output_gate else 1)
    names, prefix = attention.projections, attention.path
    if len(names) == _SEPARATE:
        widths: tuple[tuple[str, int], ...] = (
            ("query", query),
            ("key", heads.kv_size),
            ("value", heads.kv_size),
        )
    else:
        widths = (("qkv", query + 2 * heads.kv_size),)
    inputs = tuple(
        linear(prefix + name, Part.ATTENTION, role, hidden, width, bias=bias, kind=style.linear)
        for name, (role, width) in zip(names[:-1], widths, strict=True)
    )
    output = linear(
        prefix + names[-1],
        Part.ATTENTION,
        "attention_output",
        heads.query_size,
        hidden,
        bias=config.flag(attention.output_bias),
        kind=style.linear,
    )
    return (*inputs, output)


def query_key_norms(prefix: str, style: QueryKeyNorm, heads: Heads) -> tuple[Module, ...]:
    """Return the norms of queries and keys."""
    result = []
    roles = (("query_norm", heads.heads), ("key_norm", heads.kv_heads))
    for path, (role, count) in zip(style.paths, roles, strict=True):
        width = heads.head_dim if style.weight is NormWeight.HEAD else heads.head_dim * count
        copies = 1
        if style.separate:
            width, copies = heads.head_dim, count
        module = norm(prefix + path, role, width, bias=style.bias)
        result.append(module if copies == 1 else repeated(module, copies))
    return tuple(result)


def repeated(module: Module, copies: int) -> Module:
    """Return a module that stands for ``copies`` equal ones."""
    return Module(
        path=module.path,
        part=module.part,
        kind=module.kind,
        role=module.role,
        in_features=module.in_features,
        out_features=module.out_features,
        weight=module.weight,
        bias=module.bias,
        copies=copies,
    )
