"""The shape of a model: what it holds (exact parameter counts) and what each block computes.

Built from a Hugging Face ``config.json`` by ``families/``. Everything the cost model needs of a model is here:
parameters by module, so that any LoRA target, freezing or quantisation can be counted exactly, and the shapes of
attention and feed-forward, from which ``blocks/`` lists the tensors autograd keeps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """Where a module's parameters are counted."""

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    MLP = "mlp"
    EXPERTS = "experts"
    ROUTER = "router"
    NORM = "norm"
    HEAD = "head"
    OTHER = "other"


class ModuleKind(StrEnum):
    """What a module is to a framework: decides LoRA's "all-linear", quantisation and the saved input."""

    LINEAR = "linear"
    CONV1D = "conv1d"  # GPT-2's transposed linear
    EXPERTS = "experts"  # stacked 3-D weights, no nn.Linear (transformers >= 5)
    EMBEDDING = "embedding"
    NORM = "norm"
    CONVOLUTION = "convolution"
    PARAMETER = "parameter"


LINEAR_KINDS = (ModuleKind.LINEAR, ModuleKind.CONV1D)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One parameter-holding module, named as the framework names it inside its block.

    ``role`` is what it does (query, key, value, qkv, attention_output, gate, up, gate_up, down, router, …; see
    ``families/``), the same word in every family, so that blocks can be written once.
    """

    path: str
    part: Part
    kind: ModuleKind
    role: str
    in_features: int = 0
    out_features: int = 0
    weight: int = 0
    bias: int = 0
    copies: int = 1
    """How many equal modules this entry stands for (experts)."""
    former_path: str = ""
    """The path in transformers 4 where version 5 renamed the module; LoRA targets may name either."""

    @property
    def parameters(self) -> int:
        """Parameters of all copies, bias included."""
        return (self.weight + self.bias) * self.copies

    @property
    def is_linear(self) -> bool:
        """Whether adapters and weight quantisation treat it as a linear layer."""
        return self.kind in LINEAR_KINDS


def linear(
    path: str,
    part: Part,
    role: str,
    in_features: int,
    out_features: int,
    *,
    bias: bool = False,
    copies: int = 1,
    kind: ModuleKind = ModuleKind.LINEAR,
    former_path: str = "",
) -> Module:
    """Return a linear layer of ``in_features × out_features`` weights and, with ``bias``, ``out_features`` more."""
    return Module(
        path=path,
        part=part,
        kind=kind,
        role=role,
        in_features=in_features,
        out_features=out_features,
        weight=in_features * out_features,
        bias=out_features if bias else 0,
        copies=copies,
        former_path=former_path,
    )


class AttentionKind(StrEnum):
    """How a block mixes tokens."""

    SOFTMAX = "softmax"
    LATENT = "latent"  # DeepSeek's MLA
    LINEAR = "linear"  # gated delta net, lightning attention
    STATE_SPACE = "state_space"  # Mamba 1 and 2
    CONVOLUTION = "convolution"  # LFM2
    RECURRENT = "recurrent"  # RWKV, RG-LRU
    NONE = "none"


class Position(StrEnum):
    """How positions enter the attention."""

    ROTARY = "rotary"
    LEARNED = "learned"
    ALIBI = "alibi"
    RELATIVE = "relative"  # T5's bias per head
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The shape of one attention (or of what stands in its place)."""

    kind: AttentionKind = AttentionKind.SOFTMAX
    heads: int
    kv_heads: int
    head_dim: int
    """Width of a query or key head, rotary part included."""
    value_head_dim: int
    position: Position = Position.ROTARY
    rotary_dim: int = 0
    """Elements of a head that are rotated; 0 where positions are not rotary."""
    fused_qkv: bool = False
    query_key_norm: str = "none"  # none | head (over head_dim) | full (over all heads)
    sliding_window: int | None = None
    softcap: bool = False
    sinks: bool = False
    dropout: float = 0.0
    causal: bool = True
    # latent attention
    q_lora_rank: int | None = None
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    # state-space, linear and recurrent mixers: width of the inner stream and of the state per channel
    inner_size: int = 0
    state_size: int = 0

    @property
    def query_size(self) -> int:
        """Width of the queries of all heads."""
        return self.heads * self.head_dim

    @property
    def key_size(self) -> int:
        """Width of the keys of all key-value heads."""
        return self.kv_heads * self.head_dim

    @property
    def value_size(self) -> int:
        """Width of the values of all key-value heads."""
        return self.kv_heads * self.value_head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForward:
    """The shape of a dense feed-forward: gated (SwiGLU, GeGLU) or two linears around an activation."""

    intermediate_size: int
    gated: bool = True
    fused_gate_up: bool = False
    activation: str = "silu"  # as ACT2FN names it
    dropout: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The shape of a mixture of experts; ``shared`` runs for every token beside the routed ones."""

    num_experts: int
    experts_per_token: int
    intermediate_size: int
    gated: bool = True
    activation: str = "silu"
    shared: FeedForward | None = None


class NormKind(StrEnum):
    """Which normalisation a block uses."""

    RMS = "rms"
    RMS_PLUS_ONE = "rms_plus_one"  # Gemma: fp32 all through, weight + 1
    LAYER = "layer"
    NONE = "none"


class BlockLayout(StrEnum):
    """Where the norms stand and how the two halves of a block are joined."""

    PRE_NORM = "pre_norm"
    POST_NORM = "post_norm"  # BERT: norm after each residual
    SANDWICH = "sandwich"  # Gemma 2: before and after each half
    OUTPUT_NORM = "output_norm"  # OLMo 2: only after each half, before the residual
    PARALLEL = (
        "parallel"  # GPT-J, NeoX, Falcon, Cohere: attention and feed-forward read the same stream
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One kind of transformer block: its modules and the shapes of its halves."""

    name: str
    modules: tuple[Module, ...]
    attention: Attention | None
    feed_forward: FeedForward | None = None
    experts: Experts | None = None
    cross_attention: Attention | None = None
    norm: NormKind = NormKind.RMS
    layout: BlockLayout = BlockLayout.PRE_NORM
    parallel_norms: int = 1
    """With the parallel layout: norms the two halves read from (1 shared, or 2)."""
    residual_dropout: float = 0.0

    @property
    def parameters(self) -> int:
        """Parameters of one block."""
        return sum(module.parameters for module in self.modules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A run of blocks in order: the decoder, the encoder, a vision tower."""

    name: str  # decoder | encoder | vision | audio | projector
    hidden_size: int
    blocks: tuple[Block, ...]
    """The distinct kinds of block."""
    layers: tuple[int, ...]
    """For each layer, in order, the index of its kind in ``blocks``."""
    path: str = ""
    """Where the layers live: layer 3's query is ``{path}.3.{module.path}``."""
    shared: bool = False
    """Layers of one kind are the same weights (ALBERT): each kind is counted once."""

    def __iter__(self) -> Iterator[Block]:
        """Yield the block of each layer in order."""
        return (self.blocks[index] for index in self.layers)

    def repeats(self, index: int) -> int:
        """Return how many sets of weights the kind ``index`` has: its layers, or 1 where they share one."""
        return 1 if self.shared else self.layers.count(index)

    @property
    def parameters(self) -> int:
        """Parameters of all layers, each weight once."""
        return sum(block.parameters * self.repeats(i) for i, block in enumerate(self.blocks))


class ModelClass(StrEnum):
    """What the model's head computes, which decides the loss phase."""

    CAUSAL = "causal"
    MASKED = "masked"
    ENCODER_DECODER = "encoder_decoder"
    IMAGE_CLASSIFIER = "image_classifier"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArchitecture:
    """A whole model. ``outside`` holds what is in no block: embeddings, final norm, head, projector.

    With ``tie_word_embeddings`` the head's weight is the embedding's and is counted once (the head module is then
    absent from ``outside``). ``stacks[-1]`` is the stack whose output meets the head.
    """

    model_type: str
    model_class: ModelClass
    hidden_size: int
    vocab_size: int
    tie_word_embeddings: bool
    stacks: tuple[Stack, ...]
    outside: tuple[Module, ...]
    final_norm: NormKind = NormKind.RMS
    embedding_dropout: float = 0.0
    embedding_norm: NormKind = NormKind.NONE
    embedding_scaled: bool = False
    """The embedding is multiplied by a constant or normaliser in a separate op (Gemma, Granite)."""
    head_dense: bool = False
    """A dense + activation + norm stands before the decoder of the head (BERT's MLM head)."""
    logits_softcap: bool = False
    max_position_embeddings: int | None = None
    image_tokens: int | None = None
    buffer_elements: int = 0
    """Buffers on the card, in words of 4 bytes, as the newest transformers registers them (``inv_freq`` twice).

    GPT-2's causal mask (one byte an element, ``layers × max_position_embeddings²``, before transformers 5.1)
    is not among them."""
    active_parameters: int | None = None
    """Parameters a token passes through, where it is less than all of them (experts)."""
    family: str = ""
    """The family whose block list is used; "generic" where the type is unknown and the shape was inferred."""
    approximate: tuple[str, ...] = ()
    """What about this model's activations is approximated, each a sentence for the answer's warnings."""

    @property
    def parameters(self) -> int:
        """All parameters, each once."""
        return sum(m.parameters for m in self.outside) + sum(s.parameters for s in self.stacks)

    @property
    def decoder(self) -> Stack:
        """The stack whose output meets the head."""
        return self.stacks[-1]

    @property
    def num_hidden_layers(self) -> int:
        """Layers of the stack that meets the head."""
        return len(self.decoder.layers)

    def parameters_by_part(self) -> dict[Part, int]:
        """Return the parameters of each part; the values add up to ``parameters``."""
        counts = dict.fromkeys(Part, 0)
        for module in self.outside:
            counts[module.part] += module.parameters
        for stack in self.stacks:
            for index, block in enumerate(stack.blocks):
                repeats = stack.repeats(index)
                for module in block.modules:
                    counts[module.part] += module.parameters * repeats
        return counts

    def modules(self) -> Iterator[Module]:
        """Yield every module of every layer (shared weights once), then those outside the blocks."""
        for stack in self.stacks:
            for block in stack.blocks if stack.shared else stack:
                yield from block.modules
        yield from self.outside
