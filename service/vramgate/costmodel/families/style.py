"""What one family's decoder blocks have that Llama's have not: names, biases, norms, experts.

A family is a ``DecoderStyle``; ``decoder.py`` builds the architecture from it. Names are those of
transformers 5.24 inside a block; of experts those of transformers 4, without the expert's index.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from vramgate.costmodel.architecture import BlockLayout, ModuleKind, NormKind, Position
from vramgate.costmodel.families.config import (
    ATTENTION_DROPOUT,
    NO_DROPOUT,
    Config,
    Rate,
    Switch,
    Trait,
)

LayerRule = Callable[[Config, int], tuple[bool, ...]]
"""Which of so many layers hold experts, or have a window."""


class NormWeight(StrEnum):
    """The weights of a query or key norm."""

    HEAD = "head"  # one vector of head_dim
    FULL = "full"  # one vector over all heads, normalised together
    PER_HEAD = "per_head"  # normalised head by head, a vector each


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryKeyNorm:
    """Norms of queries and keys before attention."""

    paths: tuple[str, str] = ("q_norm", "k_norm")
    weight: NormWeight = NormWeight.HEAD
    bias: bool = False
    when: Trait = True
    separate: bool = False
    """A module per head (StableLM), not one with a row per head."""


class RotaryLayers(StrEnum):
    """Which layers rotate queries and keys."""

    ALL = "all"
    SLIDING = "sliding"  # Cohere 2, EXAONE 4: full attention has no positions
    LISTED = (
        "listed"  # SmolLM3, Llama 4: no_rope_layers, or every no_rope_layer_interval-th without
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Sliding-window attention: its width and which layers have it (``layer_types`` overrides)."""

    default: int | None = None
    period: int = 0
    """Every ``period``-th layer is full attention; 0: none is."""
    period_key: str = "sliding_window_pattern"
    when: Trait = True
    first_layer_key: str | None = None
    """Layers below this number are full attention (Qwen 2)."""
    key: str = "sliding_window"
    rule: LayerRule | None = None
    """Which layers have it where neither a period nor a first layer says so (GPT-Neo)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionStyle:
    """Names and traits of the attention. Two projections mean fused query, key and value."""

    path: str = "self_attn."
    projections: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    bias: Trait = False
    output_bias: Trait = False
    norm: QueryKeyNorm | None = None
    position: Position = Position.ROTARY
    partial_rotary: float = 1.0
    rotary_dim_default: int | None = None
    """What an absent ``rotary_dim`` means (GPT-J); null is the whole head."""
    rotary_layers: RotaryLayers = RotaryLayers.ALL
    dropout: Rate = ATTENTION_DROPOUT
    softcap_key: str | None = None
    softcap_default: bool = False
    sinks: bool = False
    window: Window | None = None
    kv_heads_default: int | None = None
    """What an absent ``num_key_value_heads`` means; None: one for each head."""
    head_dim_default: int | None = None
    """What an absent ``head_dim`` means; None: hidden size over heads."""
    output_gate: bool = False
    """The query projection is twice as wide and gates the output (Qwen3-Next)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardStyle:
    """Names and traits of the dense feed-forward.

    ``names``: gate, up, down; or gate_up, down where gated and fused; or up, down.
    """

    path: str = "mlp."
    names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    gated: bool = True
    bias: Trait = False
    output_bias: Trait | None = None
    """None: as ``bias``."""
    activation: str = "silu"
    activation_keys: tuple[str, ...] = ("hidden_act", "activation_function")
    dropout: Rate = NO_DROPOUT
    size_keys: tuple[str, ...] = (
        "intermediate_size",
        "ffn_hidden_size",
        "n_inner",
        "ffn_dim",
        "ffn_intermediate_size",
    )
    times_hidden: int | None = None
    """What an absent size means, in hidden sizes; None: it is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedExpertStyle:
    """Experts every token passes: a feed-forward beside the routed ones."""

    path: str
    names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    """gate, up, down; or gate_up, down; or, where the experts are not gated, up, down."""
    size_keys: tuple[str, ...] = ()
    """Keys of its width; without them it is the routed width times the count."""
    count_keys: tuple[str, ...] = ()
    count_default: int = 0
    bias: Trait = False
    gate: str | None = None
    """A scalar gate over its output (Qwen)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertStyle:
    """Names and traits of a mixture of experts."""

    router: str = "mlp.gate"
    router_kind: ModuleKind = ModuleKind.PARAMETER
    router_bias: bool = False
    path: str = "mlp.experts."
    names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    """gate, up, down; or gate_up, down; or up, down where not gated."""
    gated: bool = True
    bias: bool = False
    count_keys: tuple[str, ...] = ("num_local_experts", "num_experts")
    count_default: int | None = None
    per_token_keys: tuple[str, ...] = ("num_experts_per_tok",)
    per_token_default: int | None = None
    size_keys: tuple[str, ...] = ("intermediate_size",)
    shared: SharedExpertStyle | None = None
    sparse: LayerRule | None = None
    """None: every layer holds experts."""
    correction_bias: str | None = None
    """A bias per expert that is a parameter, not a buffer (ERNIE 4.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormPlace:
    """One norm of a block. ``width`` is hidden, query or intermediate."""

    role: str
    path: str
    width: str = "hidden"


LLAMA_NORMS = (
    NormPlace(role="input_norm", path="input_layernorm"),
    NormPlace(role="pre_feed_forward_norm", path="post_attention_layernorm"),
)
GPT_NORMS = (
    NormPlace(role="input_norm", path="ln_1"),
    NormPlace(role="pre_feed_forward_norm", path="ln_2"),
)
ONE_NORM = (NormPlace(role="input_norm", path="input_layernorm"),)
SANDWICH_NORMS = (
    NormPlace(role="input_norm", path="input_layernorm"),
    NormPlace(role="post_attention_norm", path="post_attention_layernorm"),
    NormPlace(role="pre_feed_forward_norm", path="pre_feedforward_layernorm"),
    NormPlace(role="post_feed_forward_norm", path="post_feedforward_layernorm"),
)
OUTPUT_NORMS = (
    NormPlace(role="post_attention_norm", path="post_attention_layernorm"),
    NormPlace(role="post_feed_forward_norm", path="post_feedforward_layernorm"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterPlace:
    """Loose weights of a block that are no layer (a learned activation)."""

    role: str
    path: str
    size: int


class MaskBuffer(StrEnum):
    """Whether a boolean mask of max_position_embeddings² is registered, in every version."""

    NONE = "none"
    ONCE = "once"  # GPTBigCode
    EACH_LAYER = "each_layer"  # GPT-Neo


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderStyle:
    """One family of decoder-only models; the defaults are Llama's."""

    family: str
    root: str = "model."
    layers: str = "layers"
    embedding: str = "embed_tokens"
    position_embedding: str | None = None
    extra_positions: int = 0
    """Rows of the position table beyond ``max_position_embeddings`` (OPT's padding)."""
    embedding_norm: str | None = None
    embedding_scaled: bool = False
    final_norm: str = "norm"
    head: str = "lm_head"
    former_head: str = ""
    head_bias: Trait = False
    tied: bool = False
    """What an absent ``tie_word_embeddings`` means."""
    logits_softcap_key: str | None = None
    logits_softcap_default: bool = False
    attention: AttentionStyle = field(default_factory=AttentionStyle)
    feed_forward: FeedForwardStyle = field(default_factory=FeedForwardStyle)
    experts: ExpertStyle | None = None
    norm: NormKind = NormKind.RMS
    norm_bias: Trait = False
    norm_weight: bool = True
    norms: tuple[NormPlace, ...] = LLAMA_NORMS
    layout: BlockLayout = BlockLayout.PRE_NORM
    extras: tuple[ParameterPlace, ...] = ()
    linear: ModuleKind = ModuleKind.LINEAR
    residual_dropout: Rate = NO_DROPOUT
    embedding_dropout: Rate = NO_DROPOUT
    mask_buffer: MaskBuffer = MaskBuffer.NONE
    rotary_tables: int = 1
    """Sets of frequencies: 2 where windowed layers have their own (Gemma 3)."""
    rotary_table_rows: bool = False
    """Sines and cosines are registered for every position (GPT-J)."""
    approximate: tuple[str, ...] = ()

    @property
    def tied_switch(self) -> Switch:
        """The switch of ``tie_word_embeddings``."""
        return Switch("tie_word_embeddings", self.tied)
