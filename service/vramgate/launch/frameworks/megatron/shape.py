"""The model that Megatron's arguments describe, in Megatron's own sizes, and its exact parameters.

Sources, Megatron-LM d98e8a64: ``training/arguments.py`` (defaults), ``core/transformer``
(``attention.py``, ``mlp.py``, ``multi_latent_attention.py``, ``moe/``, ``multi_token_prediction.py``),
``core/ssm/mamba_mixer.py``; ``training/theoretical_memory_usage.py`` counts likewise, without
biases, position tables and the projections of prediction layers.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentShape:
    """Multi-latent attention."""

    query_rank: int | None
    kv_rank: int
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertShape:
    """A mixture of experts."""

    count: int
    per_token: int
    size: int
    sparse: tuple[bool, ...]
    """Which layers hold experts; one entry a layer."""
    shared_size: int = 0
    shared_gate: bool = False
    latent_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaShape:
    """A hybrid's pattern of M, *, - and E, and its state-space mixers."""

    pattern: str
    heads: int
    head_dim: int
    state: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A decoder, or BERT's encoder, as ``GPTModel``, ``HybridModel`` and ``BertModel`` build it."""

    layers: int
    hidden: int
    heads: int
    groups: int
    head_dim: int
    intermediate: int
    vocabulary: int
    positions: int
    learned_positions: bool
    rotary_percent: float
    rms: bool
    gated: bool
    activation: str
    bias: bool
    """Of every linear layer; ``qkv_bias`` alone is of query, key and value."""
    qkv_bias: bool
    qk_norm: bool
    tied: bool
    hidden_dropout: float
    attention_dropout: float
    window: int | None = None
    """Width of the sliding window, where every layer has it."""
    sinks: bool = False
    """Learned offsets of the softmax, one a head (gpt-oss)."""
    experts: ExpertShape | None = None
    latent: LatentShape | None = None
    mamba: MambaShape | None = None
    prediction_layers: int = 0
    is_bert: bool = False
    binary_head: bool = True

    @property
    def norm_parameters(self) -> int:
        """Parameters of a norm, for each unit of its width."""
        return 1 if self.rms else 2


def parameters(shape: Shape) -> int:
    """Return the parameters of the whole model, each once."""
    if shape.mamba is not None:
        layers = sum(_hybrid_layer(shape, shape.mamba, letter) for letter in shape.mamba.pattern)
    else:
        layers = sum(_layer(shape, sparse=sparse) for sparse in _sparse(shape))
    last = _sparse(shape)[-1] if shape.layers else False
    hidden, norm = shape.hidden, shape.norm_parameters
    prediction = shape.prediction_layers * (
        _layer(shape, sparse=last) + 2 * hidden * hidden + 3 * norm * hidden
    )
    tables = shape.vocabulary * hidden * (1 if shape.tied else 2)
    positions = shape.positions * hidden if shape.learned_positions else 0
    around = tables + positions + norm * hidden
    return layers + prediction + around + (_bert_heads(shape) if shape.is_bert else 0)


def _sparse(shape: Shape) -> tuple[bool, ...]:
    return shape.experts.sparse if shape.experts is not None else (False,) * shape.layers


def _layer(shape: Shape, *, sparse: bool) -> int:
    norms = 2 * shape.norm_parameters * shape.hidden
    half = _expert_layer(shape) if sparse else _feed_forward(shape, shape.intermediate)
    return _attention(shape) + half + norms


def _hybrid_layer(shape: Shape, mamba: MambaShape, letter: str) -> int:
    """Return the parameters of a layer that is one thing only, with its norm."""
    own_norm = shape.norm_parameters * shape.hidden
    if letter == "M":
        return _mamba(shape, mamba) + own_norm
    if letter == "*":
        return _attention(shape) + own_norm
    return own_norm + (
        _expert_layer(shape) if letter == "E" else _feed_forward(shape, shape.intermediate)
    )


def _attention(shape: Shape) -> int:
    if shape.latent is not None:
        return _latent_attention(shape, shape.latent)
    query, key_value = shape.heads * shape.head_dim, shape.groups * shape.head_dim
    into = query + 2 * key_value
    size = shape.hidden * into + query * shape.hidden
    size += into if shape.qkv_bias or shape.bias else 0
    size += shape.hidden if shape.bias else 0
    size += shape.heads if shape.sinks else 0
    return size + (2 * shape.norm_parameters * shape.head_dim if shape.qk_norm else 0)


def _latent_attention(shape: Shape, latent: LatentShape) -> int:
    hidden, heads = shape.hidden, shape.heads
    queries = heads * (latent.plain + latent.rotary)
    norm = shape.norm_parameters if shape.qk_norm else 0
    rank = latent.query_rank
    query = hidden * queries if rank is None else rank * (hidden + queries + norm)
    down = hidden * (latent.kv_rank + latent.rotary)
    up = latent.kv_rank * (heads * (latent.plain + latent.value) + norm)
    out = heads * latent.value * hidden + (hidden if shape.bias else 0)
    return query + down + up + out


def _feed_forward(shape: Shape, size: int, hidden: int | None = None) -> int:
    width = shape.hidden if hidden is None else hidden
    into = size * (2 if shape.gated else 1)
    return width * (into + size) + (into + width if shape.bias else 0)


def _expert_layer(shape: Shape) -> int:
    experts = shape.experts
    if experts is None:
        return 0
    hidden = shape.hidden
    router = (hidden + (1 if shape.bias else 0)) * experts.count
    routed = experts.count * _feed_forward(shape, experts.size, experts.latent_size)
    latent = 2 * hidden * (experts.latent_size or 0)
    shared = _feed_forward(shape, experts.shared_size) if experts.shared_size else 0
    gate = hidden if experts.shared_size and experts.shared_gate else 0
    return router + routed + latent + shared + gate


_CONVOLUTION_TAPS = 4


def _mamba(shape: Shape, mamba: MambaShape) -> int:
    inner, states = mamba.heads * mamba.head_dim, 2 * mamba.groups * mamba.state
    into = shape.hidden * (2 * inner + states + mamba.heads)
    convolution = (inner + states) * (_CONVOLUTION_TAPS + 1)
    return into + convolution + 3 * mamba.heads + inner + inner * shape.hidden


def _bert_heads(shape: Shape) -> int:
    """Return token types, the masked-language head, the pooler and the next-sentence head.

    Source: ``core/models/bert/bert_model.py``; the head's norm is a layer norm.
    """
    hidden = shape.hidden
    masked = hidden * hidden + hidden + 2 * hidden + shape.vocabulary
    if not shape.binary_head:
        return masked
    return masked + 2 * hidden + hidden * hidden + hidden + 2 * hidden + 2
