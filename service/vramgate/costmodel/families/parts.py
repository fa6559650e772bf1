"""The modules every family is made of, and the sizes every config states."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vramgate.costmodel.architecture import Block, Module, ModuleKind, Part, Stack
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_SMALL,
    MAX_VOCABULARY,
    Config,
)

_Kind = TypeVar("_Kind", bound=Hashable)

HIDDEN_KEYS = ("hidden_size", "n_embd", "d_model", "n_embed", "dim")
LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEAD_KEYS = ("num_key_value_heads", "num_kv_heads")
POSITION_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


@dataclass(frozen=True, slots=True)
class Heads:
    """How the hidden size is split into heads."""

    heads: int
    kv_heads: int
    head_dim: int

    @property
    def query_size(self) -> int:
        """Width of the queries of all heads."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of the keys (or values) of all key-value heads."""
        return self.kv_heads * self.head_dim


def norm(path: str, role: str, width: int, *, bias: bool = False, weight: bool = True) -> Module:
    """Return a norm over ``width`` elements; OLMo's has neither weight nor bias."""
    return Module(
        path=path,
        part=Part.NORM,
        kind=ModuleKind.NORM,
        role=role,
        in_features=width,
        out_features=width,
        weight=width if weight else 0,
        bias=width if bias else 0,
    )


def embedding(path: str, rows: int, width: int, *, role: str = "embedding") -> Module:
    """Return a table of ``rows`` vectors of ``width``."""
    return Module(
        path=path,
        part=Part.EMBEDDING,
        kind=ModuleKind.EMBEDDING,
        role=role,
        in_features=rows,
        out_features=width,
        weight=rows * width,
    )


def parameter(path: str, part: Part, role: str, size: int, *, copies: int = 1) -> Module:
    """Return ``size`` loose weights that belong to no layer."""
    return Module(
        path=path, part=part, kind=ModuleKind.PARAMETER, role=role, weight=size, copies=copies
    )


def convolution(
    path: str,
    role: str,
    channels: tuple[int, int],
    kernel: int,
    *,
    bias: bool = True,
    part: Part = Part.OTHER,
) -> Module:
    """Return a convolution of ``kernel`` taps; ``channels`` are those in (per group) and out."""
    return Module(
        path=path,
        part=part,
        kind=ModuleKind.CONVOLUTION,
        role=role,
        in_features=channels[0],
        out_features=channels[1],
        weight=channels[0] * channels[1] * kernel,
        bias=channels[1] if bias else 0,
    )


def stack(
    name: str,
    path: str,
    hidden_size: int,
    kinds: Sequence[_Kind],
    build: Callable[[_Kind], Block],
) -> Stack:
    """Return a stack with one block for each distinct kind; ``kinds`` lists the layers."""
    index = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    return Stack(
        name=name,
        path=path,
        hidden_size=hidden_size,
        blocks=tuple(build(kind) for kind in index),
        layers=tuple(index[kind] for kind in kinds) if len(index) > 1 else (0,) * len(kinds),
    )


def hidden_size(config: Config) -> int:
    """Return the width of the residual stream.

    Raises:
        InvalidModelConfigError: it is missing or out of bounds.
    """
    return config.whole(*HIDDEN_KEYS)


def layer_count(config: Config, *names: str) -> int:
    """Return the number of layers, from ``names`` or the usual keys.

    Raises:
        InvalidModelConfigError: it is missing or out of bounds.
    """
    return config.whole(*(names or LAYER_KEYS), at_most=MAX_LAYERS)


def vocabulary(config: Config) -> int:
    """Return the rows of the embedding.

    Raises:
        InvalidModelConfigError: it is missing or out of bounds.
    """
    return config.whole("vocab_size", "padded_vocab_size", at_most=MAX_VOCABULARY)


def max_positions(config: Config) -> int | None:
    """Return the longest sequence the config names, or None; the first of the usual keys counts."""
    for name in POSITION_KEYS:
        value = config.maybe_whole(name, at_most=MAX_POSITIONS)
        if value is not None:
            return value
    return None


def head_count(config: Config, hidden: int, *names: str) -> tuple[int, int]:
    """Return the heads and the width of one where they divide the hidden size.

    Raises:
        InvalidModelConfigError: they are missing or do not divide it.
    """
    heads = config.whole(*(names or HEAD_KEYS), at_most=MAX_HEADS)
    if hidden % heads:
        refuse_heads(config, heads, hidden)
    return heads, hidden // heads


def refuse_heads(config: Config, heads: int, hidden: int) -> None:
    """Raise the error of heads that do not divide the hidden size.

    Raises:
        InvalidModelConfigError: always.
    """
    name, _ = config.get(*HEAD_KEYS)
    detail = f"{heads} heads do not divide hidden_size {hidden}"
    hint = "Give head_dim, or a number of heads that divides the hidden size."
    config.refuse(name, detail, code="contradiction", hint=hint)


def read_heads(
    config: Config,
    hidden: int,
    *,
    kv_heads_default: int | None = None,
    head_dim_default: int | None = None,
) -> Heads:
    """Return heads, key-value heads and the width of a head.

    An absent ``num_key_value_heads`` means ``kv_heads_default`` or one for each head; an absent
    ``head_dim`` means ``head_dim_default`` or the hidden size divided by the heads.

    Raises:
        InvalidModelConfigError: a number is missing, out of bounds or does not divide another.
    """
    heads = config.whole(*HEAD_KEYS, at_most=MAX_HEADS)
    kv_heads = config.whole(*KV_HEAD_KEYS, at_most=MAX_HEADS, default=kv_heads_default or heads)
    head_dim = config.maybe_whole("head_dim", "kv_channels", at_most=MAX_SMALL)
    if head_dim is None:
        head_dim = head_dim_default
    if head_dim is None:
        if hidden % heads:
            refuse_heads(config, heads, hidden)
        head_dim = hidden // heads
    if heads % kv_heads:
        name, _ = config.get(*KV_HEAD_KEYS)
        detail = f"{kv_heads} key-value heads do not divide {heads} heads"
        if config.has(name):
            hint = "num_attention_heads must be a multiple of num_key_value_heads."
        else:
            hint = f"The key is absent, which means {kv_heads} in this family; write it out."
        config.refuse(name, detail, code="contradiction", hint=hint)
    return Heads(heads, kv_heads, head_dim)
