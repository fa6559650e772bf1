"""Mixing heads: the kernel the framework would choose for an attention, its mask, and the eager code beside it.

The rules that changed with a version of transformers are named here, each with its first or last version.
Source: traces of eleven versions (4.45 to 5.24) and their modeling code; PyTorch ``sdp_utils``.
"""

from vramgate.costmodel.architecture import Attention, Position
from vramgate.costmodel.blocks.projections import (
    COPIES_GROUPED_HEADS,
    Heads,
    copies_heads,
)
from vramgate.costmodel.blocks.relative_bias import layer_bias
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.blocks.sinks import eager_attention_with_sinks
from vramgate.costmodel.conditions import somewhere
from vramgate.costmodel.job import AttentionImplementation
from vramgate.costmodel.kernels import (
    Kernel,
    Scores,
    eager_attention,
    fused_attention,
    math_attention,
    repeat_heads,
)
from vramgate.costmodel.norm_operations import vector_gradient
from vramgate.costmodel.operations import FP32, cast, copy
from vramgate.costmodel.recomputation import recompute
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes, Count, round_up

ENABLE_GQA_SINCE = (4, 54)
"""transformers hands grouped keys and values to the kernel (``enable_gqa``) from here on, with torch >= 2.5."""
ENABLE_GQA_TORCH = (2, 5)
CONTIGUOUS_QUERY = ((4, 48), (4, 55))
"""Versions whose sdpa makes queries contiguous, so that the output is copied for its projection."""
BOOLEAN_MASK_SINCE = (4, 53)
"""The padding mask is boolean from here on, and cast to a bias inside every layer's sdpa call."""
BOOLEAN_MASK_LATER = {"gpt2": (4, 54)}
FLASH_REPEATS_UNTIL = (4, 47)
"""Mistral's and Qwen2's FlashAttention classes repeat keys and values up to here."""
MAX_FLASH_HEAD = 256
SOFTMAX_IN_OWN_FORMAT = frozenset(
    {
        "gpt2",
        "bert",
        "roberta",
        "xlm-roberta",
        "electra",
        "albert",
        "distilbert",
        "deberta",
        "deberta-v2",
        "t5",
        "mt5",
        "falcon",
        "bart",
        "mbart",
        "m2m_100",
        "marian",
        "pegasus",
        "whisper",
        "gpt_oss",
    }
)
"""Families whose eager code leaves the softmax in the scores' format; the others ask for fp32."""
CLAMPS_SCORES_UNTIL = {"opt": (4, 48)}
"""Families that left the softmax in the scores' format and cut masked scores off below, up to this version."""
BROADCASTS_ONE_KEY_HEAD = frozenset({"falcon"})
"""Families that hand one key-value head to sdpa as it is, which no fused kernel takes."""
FP32_SCORES = frozenset({"gptj", "codegen", "gpt_neo"})
"""Families whose eager code casts queries and keys to fp32 before their product."""
ALWAYS_MASKED = frozenset({"falcon", "bart", "mbart", "m2m_100"})
"""Families whose causal layers hand sdpa a mask tensor where others hand it a flag."""
INDEX_BYTES = 8
"""Bytes of a token's index, kept by padded FlashAttention."""


def kernel_of(setting: Setting, shape: Attention, width: int) -> Kernel:
    """Return the kernel that computes this attention, for queries of ``width`` bytes an element.

    Copies PyTorch's choice (flash, then memory-efficient, then math) on the rules of its ``sdp_utils``.
    """
    if setting.attention is AttentionImplementation.EAGER:
        return Kernel.EAGER
    if setting.attention is not AttentionImplementation.SDPA:
        return Kernel.FLASH
    grouped = shape.heads != shape.kv_heads
    hands_groups_on = grouped and _enables_gqa(setting, shape)
    if shape.kv_heads == 1 and setting.model_type in BROADCASTS_ONE_KEY_HEAD:
        return Kernel.MATH
    plain = width < FP32 and shape.head_dim == shape.value_head_dim <= MAX_FLASH_HEAD
    if plain and not needs_mask(setting, shape):
        return Kernel.FLASH
    return Kernel.MATH if hands_groups_on else Kernel.EFFICIENT


def _enables_gqa(setting: Setting, shape: Attention) -> bool:
    return (
        setting.software.framework not in REPEATS_HEADS
        and setting.transformers >= ENABLE_GQA_SINCE
        and setting.software.torch >= ENABLE_GQA_TORCH
        and not needs_mask(setting, shape)
    )


def needs_mask(setting: Setting, shape: Attention) -> bool:
    """Return whether sdpa is handed a mask tensor instead of a causal flag.

    Where a window changes anything here, ``kinds`` must know: it replays layers that differ in it alone once.
    """
    if setting.padded or shape.position in {Position.RELATIVE, Position.ALIBI}:
        return True
    if setting.model_type == "gemma2":
        return setting.transformers <= (4, 51)
    if setting.model_type in ALWAYS_MASKED:
        return shape.causal
    window = shape.sliding_window
    return window is not None and somewhere(setting.sequence >= window)


def mixed_heads(
    tape: Tape,
    setting: Setting,
    shape: Attention,
    heads: Heads,
    weights: dict[str, Weight],
) -> Tensor:
    """Return the heads' mix, laid out for the output projection; the heads are let go."""
    if "core_attn" not in setting.recomputes:
        return _mixed(tape, setting, shape, heads, weights)
    inputs = (heads.query, heads.key, heads.value)

    def run() -> Tensor:
        for side in inputs:
            tape.hold(side)
        return _mixed(tape, setting, shape, heads, weights)

    out = recompute(tape, inputs, run)
    tape.drop(*inputs)
    return out


def _mixed(
    tape: Tape,
    setting: Setting,
    shape: Attention,
    heads: Heads,
    weights: dict[str, Weight],
) -> Tensor:
    width = setting.compute_width if setting.autocast else heads.query.width
    kernel = kernel_of(setting, shape, width)
    if kernel is Kernel.EAGER:
        return _eager(tape, setting, shape, heads, weights.get("sinks"))
    vector_gradient(tape, weights.get("sinks"))
    sides = [cast(tape, side, width) for side in (heads.query, heads.key, heads.value)]
    tape.drop(heads.query, heads.key, heads.value)
    if _repeats(setting, shape, kernel):
        for index in (1, 2):
            repeated = repeat_heads(tape, sides[index], shape.heads // shape.kv_heads)
            tape.drop(sides[index])
            sides[index] = repeated
    if kernel is Kernel.MATH:
        out = math_attention(
            tape,
            *sides,
            scores=scores_of(setting, shape),
            out_elements=_out_elements(setting, shape),
            one_row=setting.one_row,
        )
        tape.drop(*sides)
        return out
    return _fused(tape, setting, shape, sides, kernel, heads)


def _fused(
    tape: Tape,
    setting: Setting,
    shape: Attention,
    sides: list[Tensor],
    kernel: Kernel,
    heads: Heads,
) -> Tensor:
    package = setting.attention is not AttentionImplementation.SDPA
    unpadded = package and setting.padded
    if unpadded:  # rows without their padding: copies take the place of the originals
        gathered = [copy(tape, side) for side in sides]
        tape.drop(*sides)
        sides = gathered
    scores = scores_of(setting, shape)
    bias = _bias(tape, setting, shape, heads) if kernel is Kernel.EFFICIENT else None
    out = fused_attention(
        tape,
        *sides,
        scores=scores,
        out_elements=_out_elements(setting, shape),
        kernel=kernel,
        bias=bias,
        bias_gradient=bias.size if bias is not None and heads.bias_trains else 0,
        travelling=_travelling_bytes(setting, sides),
    )
    tape.drop(*sides)
    if bias is not None:
        tape.drop(bias)
    copied = kernel is Kernel.FLASH and _copies_output(setting, heads)
    if unpadded or copied:
        laid_out = copy(tape, out)
        tape.drop(out)
        out = laid_out
    if unpadded and out.requires_grad:
        tape.new_saved(setting.tokens, INDEX_BYTES)
    return out


def _travelling_bytes(setting: Setting, sides: list[Tensor]) -> Bytes:
    """Return keys and values on their way round a context-parallel ring: those in use and those to come.

    Source: Liu et al. 2023 (Ring Attention, arXiv 2310.01889); ``torch/distributed/tensor/experimental``.
    """
    if setting.context_ranks == 1:
        return 0
    _, key, value = sides
    return 2 * (key.size + value.size)


def _copies_output(setting: Setting, heads: Heads) -> bool:
    """Return whether flash's output is copied for its projection: in sdpa, where it follows a heads-first query."""
    if setting.attention is not AttentionImplementation.SDPA:
        return setting.model_type in COPIES_FLASH_OUTPUT
    first, last = CONTIGUOUS_QUERY
    return heads.query_is_packed or first <= setting.transformers <= last


def _bias(tape: Tape, setting: Setting, shape: Attention, heads: Heads) -> Tensor | None:
    """Return the additive mask one layer makes and keeps, None where all layers share one."""
    if shape.position is Position.RELATIVE:
        scores = scores_of(setting, shape)
        return layer_bias(tape, setting, scores, masked=shape.causal, trains=heads.bias_trains)
    if not needs_mask(setting, shape):
        return None
    if shape.position is Position.ALIBI:
        return _cast_alibi(tape, setting, shape)
    boolean_since = BOOLEAN_MASK_LATER.get(setting.model_type, BOOLEAN_MASK_SINCE)
    is_cast = setting.autocast and setting.table_width != setting.compute_width
    own = setting.transformers >= boolean_since or is_cast
    if setting.model_type == "gemma2" and not setting.padded:
        own = shape.sliding_window is not None or is_cast
    columns = round_up(setting.sequence, BIAS_ALIGNMENT)
    elements = setting.tokens * columns
    if not own:  # shared, but for rows that the kernel wants padded: a copy in every layer
        padded = columns != setting.sequence
        if not somewhere(padded):
            return None
        elements *= padded
    return tape.new(elements, setting.compute_width, requires_grad=False)


BIAS_ALIGNMENT = 16
"""Elements a bias's row is padded to, before it is expanded over heads (PyTorch ``preprocess_mask``; once 8)."""
COPIES_FLASH_OUTPUT = frozenset({"gpt_neox"})
"""Families that copy what the flash-attention package returns."""
REPEATS_HEADS = frozenset({"torchtitan", "litgpt"})
"""Frameworks whose own attention copies keys and values to the full head count."""


def _cast_alibi(tape: Tape, setting: Setting, shape: Attention) -> Tensor | None:
    """Return autocast's copy of the biases per head, which a layer keeps; without autocast all layers share them."""
    if not (setting.autocast and setting.table_width != setting.compute_width):
        return None
    return tape.new(scores_of(setting, shape).elements, setting.compute_width, requires_grad=False)


def _repeats(setting: Setting, shape: Attention, kernel: Kernel) -> bool:
    if shape.kv_heads == shape.heads or copies_heads(setting, shape):
        return False
    if setting.software.framework in REPEATS_HEADS:
        return True
    if setting.attention is AttentionImplementation.SDPA:
        return kernel is not Kernel.MATH and not _enables_gqa(setting, shape)
    return (
        setting.model_type in {"mistral", "qwen2"} and setting.transformers <= FLASH_REPEATS_UNTIL
    )


def _out_elements(setting: Setting, shape: Attention) -> Count:
    return setting.tokens * shape.heads * shape.value_head_dim


def scores_of(setting: Setting, shape: Attention) -> Scores:
    """Return the size of this attention over the rows of the micro-batch."""
    return Scores(
        batch=setting.batch,
        queries=setting.sequence,
        keys=setting.sequence,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
    )


def softmax_in_own_format(setting: Setting) -> bool:
    """Return whether eager code leaves the softmax in the scores' format."""
    return setting.model_type in SOFTMAX_IN_OWN_FORMAT or _before_refactoring(setting)


def _before_refactoring(setting: Setting) -> bool:
    last = CLAMPS_SCORES_UNTIL.get(setting.model_type)
    return last is not None and setting.transformers <= last


def _eager(
    tape: Tape, setting: Setting, shape: Attention, heads: Heads, sinks: Weight | None
) -> Tensor:
    sides = [heads.query, heads.key, heads.value]
    one_head = shape.kv_heads == 1 and setting.model_type in BROADCASTS_ONE_KEY_HEAD
    repeats = shape.kv_heads != shape.heads and not (one_head and setting.one_row)
    already = setting.model_type in COPIES_GROUPED_HEADS and not one_head
    if repeats and not already:
        for index in (1, 2):
            repeated = repeat_heads(tape, sides[index], shape.heads // shape.kv_heads)
            tape.drop(sides[index])
            sides[index] = repeated
    if setting.model_type in FP32_SCORES and not setting.autocast:
        for index in (0, 1):
            wide = cast(tape, sides[index], FP32)
            tape.drop(sides[index])
            sides[index] = wide
    if not setting.one_row:
        sides = [_own_storage(tape, side) for side in sides]
    if sinks is not None:
        out = eager_attention_with_sinks(
            tape,
            sides,
            sinks,
            scores=scores_of(setting, shape),
            out_elements=_out_elements(setting, shape),
            mask_width=setting.table_width,
            dropout_probability=shape.dropout,
        )
        tape.drop(*sides)
        return out
    out = eager_attention(
        tape,
        *sides,
        scores=scores_of(setting, shape),
        out_elements=_out_elements(setting, shape),
        mask_width=setting.table_width if shape.causal or setting.padded else None,
        softmax_fp32=not softmax_in_own_format(setting),
        softcap=shape.softcap,
        scales=shape.position is not Position.ALIBI,
        dropout_probability=shape.dropout,
        probability_width=sides[2].width if setting.model_type in FP32_SCORES else None,
        clamps=_before_refactoring(setting),
    )
    tape.drop(*sides)
    return out


def _own_storage(tape: Tape, side: Tensor) -> Tensor:
    """Return a view copied out of its fused projection, as a batched product over several rows needs it."""
    if side.base is None:
        return side
    copied = copy(tape, side)
    tape.drop(side)
    return copied
