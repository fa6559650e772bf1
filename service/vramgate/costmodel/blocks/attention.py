"""One block's attention: projections, positions, the kernel the framework would choose, and the output projection.

The rules that changed with a version of transformers are named here, each with its first or last version.
Source: traces of eleven versions (4.45 to 5.24) and their modeling code.
"""

import numpy as np

from vramgate.costmodel.architecture import Attention, Position
from vramgate.costmodel.blocks.norms import head_norm
from vramgate.costmodel.blocks.projections import (
    GATED_OUTPUT,
    Heads,
    compressed_heads,
    gated_output,
    narrowed_output,
    other_layers_heads,
    split_gate,
)
from vramgate.costmodel.blocks.relative_bias import layer_bias, make_bias
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.blocks.sinks import eager_attention_with_sinks
from vramgate.costmodel.job import AttentionImplementation
from vramgate.costmodel.kernels import (
    Kernel,
    Scores,
    eager_attention,
    fused_attention,
    fused_rotate,
    math_attention,
    repeat_heads,
    rotate,
)
from vramgate.costmodel.operations import (
    FP32,
    cast,
    concatenate,
    copy,
    keep_with,
    linear,
    scale,
    split,
    vector_gradient,
)
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Count

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
LAYER_TABLES_UNTIL = {"mistral": (4, 47), "mixtral": (4, 47), "gemma2": (4, 46)}
"""Families whose attention layers computed rotary tables of their own, up to this version."""
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
BROADCASTS_ONE_KEY_HEAD = frozenset({"falcon"})
"""Families that hand one key-value head to sdpa as it is, which no fused kernel takes."""
FP32_SCORES = frozenset({"gptj", "codegen", "gpt_neo"})
"""Families whose eager code casts queries and keys to fp32 before their product."""
FP32_ROTARY = frozenset({"cohere", "cohere2", "cohere2_moe", "ernie4_5", "ernie4_5_moe", "modernbert"})
"""Families that rotate in fp32 and cast back."""
ROTATES_BEFORE_TRANSPOSE = frozenset({"gptj", "codegen"})
"""Families that rotate while heads still follow tokens, so that a kernel's output follows tokens too."""
ALWAYS_MASKED = frozenset({"falcon", "bart", "mbart", "m2m_100"})
"""Families whose causal layers hand sdpa a mask tensor where others hand it a flag."""
CONCATENATED_ROTARY = frozenset({"phi3"})
"""Families whose rotary code splits and concatenates heads even where all of a head is rotated."""
COPIES_GROUPED_HEADS = frozenset({"falcon"})
"""Families that index keys and values, where fewer than queries, out of the fused projection, which copies them."""
COPIES_HEADS = frozenset({"codegen"})
"""Families that reshape heads out of a projection split for other hardware, which copies them."""
VALUE_IS_VIEW = frozenset({"litgpt"})
"""Frameworks that project queries, keys and values at once: values, kept as a view, keep the whole product."""
INDEX_BYTES = 8
"""Bytes of a token's index, kept by padded FlashAttention."""


def attention(
    tape: Tape, setting: Setting, shape: Attention, weights: dict[str, Weight], hidden: Tensor
) -> Tensor:
    """Return the attention's output after its projection; ``hidden`` stays the caller's."""
    heads, gate = _projected(tape, setting, shape, weights, hidden)
    if shape.position is Position.ROTARY and shape.rotary_dim:
        _rotated(tape, setting, shape, heads)
    if shape.position is Position.RELATIVE:
        heads.bias_trains = weights["attention_output"].trainable
        make_bias(tape, setting, weights.get("relative_bias"))
    mixed = mixed_heads(tape, setting, shape, heads, weights)
    if gate is not None:
        mixed = gated_output(tape, mixed, gate)
    mixed = narrowed_output(tape, setting, weights.get("output_down"), mixed)
    out = linear(tape, mixed, weights["attention_output"])
    tape.drop(mixed)
    return out


def _projected(
    tape: Tape, setting: Setting, shape: Attention, weights: dict[str, Weight], hidden: Tensor
) -> tuple[Heads, Tensor | None]:
    """Return the heads, and the gate of the attention's output where the family has one."""
    if "qkv" in weights:
        return _fused_heads(tape, setting, shape, weights["qkv"], hidden), None
    if "kv_down" in weights:
        return compressed_heads(tape, setting, weights, hidden), None
    query = linear(tape, hidden, weights["query"], transposed_gradient=_query_is_copied(shape))
    gate = None
    if setting.model_type in GATED_OUTPUT:
        query, gate = split_gate(tape, query)
    query = _head_norm(tape, setting, weights.get("query_norm"), query)
    key, value = _keys_and_values(tape, setting, shape, weights, hidden, query)
    if setting.model_type == "opt":
        scaled = scale(tape, query)
        tape.drop(query)
        query = scaled
    return Heads(query=query, key=key, value=value, query_is_packed=False), gate


def _keys_and_values(
    tape: Tape,
    setting: Setting,
    shape: Attention,
    weights: dict[str, Weight],
    hidden: Tensor,
    query: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return keys and values: projected, an earlier layer's, or values that are the keys."""
    if "key" not in weights:
        key, value = (other_layers_heads(setting, shape, query) for _ in range(2))
        tape.hold(key)
        tape.hold(value)
        return key, value
    key = linear(tape, hidden, weights["key"], transposed_gradient=_query_is_copied(shape))
    normed = _head_norm(tape, setting, weights.get("key_norm"), key)
    if "value" not in weights:
        tape.hold(normed)
        return normed, normed
    return normed, linear(tape, hidden, weights["value"])


def _fused_heads(
    tape: Tape, setting: Setting, shape: Attention, weight: Weight, hidden: Tensor
) -> Heads:
    """Return views of one product for queries, keys and values."""
    tokens = setting.tokens
    fused = linear(tape, hidden, weight)
    sizes = (tokens * shape.query_size, tokens * shape.key_size, tokens * shape.value_size)
    query, key, value = split(tape, fused, sizes)
    tape.drop(fused)
    if _copies_heads(setting, shape):
        times = 1 if shape.kv_heads == 1 else shape.heads // shape.kv_heads
        views = key, value
        key, value = (repeat_heads(tape, view, times) for view in views)
        tape.drop(*views)
    return Heads(query=query, key=key, value=value, query_is_packed=False)


def _copies_heads(setting: Setting, shape: Attention) -> bool:
    """Return whether keys and values are copied out of the fused projection."""
    grouped = shape.kv_heads != shape.heads
    return setting.model_type in COPIES_HEADS or (
        grouped and setting.model_type in COPIES_GROUPED_HEADS
    )


def _query_is_copied(shape: Attention) -> bool:
    """Return whether the gradient of queries and keys comes back heads-first (through the rotary code)."""
    return shape.position is Position.ROTARY


def _head_norm(tape: Tape, setting: Setting, weight: Weight | None, x: Tensor) -> Tensor:
    if weight is None:
        return x
    out = head_norm(tape, setting, x, weight)
    tape.drop(x)
    return out


def _rotated(tape: Tape, setting: Setting, shape: Attention, heads: Heads) -> None:
    """Rotate queries and keys; the old ones live until both are done."""
    partial = shape.rotary_dim < shape.head_dim or setting.model_type in CONCATENATED_ROTARY
    width = setting.table_width
    if setting.transformers <= LAYER_TABLES_UNTIL.get(setting.model_type, (0, 0)):
        width = heads.value.width
        _keep_own_tables(tape, setting, shape, heads)
    fused = "rope" in setting.fused_kernels
    old = (heads.query, heads.key)
    turned = []
    for x in old:
        if fused:
            turned.append(fused_rotate(tape, x))
        elif setting.model_type in FP32_ROTARY:
            turned.append(_rotated_wide(tape, x))
        elif partial:
            turned.append(_rotated_part(tape, shape, x, width))
        else:
            turned.append(rotate(tape, x, width))
    if setting.software.framework in VALUE_IS_VIEW and shape.heads == shape.kv_heads:
        keep_with(tape, heads.value, *old)
    tape.drop(*old)
    heads.query, heads.key = turned
    follows_tokens = fused or setting.model_type in ROTATES_BEFORE_TRANSPOSE
    heads.query_is_packed = partial and not follows_tokens


def _rotated_wide(tape: Tape, x: Tensor) -> Tensor:
    """Rotate an fp32 copy and cast it back."""
    wide = cast(tape, x, FP32)
    turned = rotate(tape, wide, FP32)
    out = cast(tape, turned, x.width)
    tape.drop(wide, turned)
    return out


def _keep_own_tables(tape: Tape, setting: Setting, shape: Attention, heads: Heads) -> None:
    """Keep the cos and sin that this layer computes for itself."""
    elements = 2 * setting.sequence * shape.rotary_dim
    tables = tape.new(elements, heads.value.width, requires_grad=False)
    if heads.query.requires_grad or heads.key.requires_grad:
        tape.save(tables)
    tape.drop(tables)


def _rotated_part(tape: Tape, shape: Attention, x: Tensor, table_width: int) -> Tensor:
    """Rotate the first ``rotary_dim`` of every head and put the rest behind it again."""
    front = x.elements // shape.head_dim * shape.rotary_dim
    rotary, rest = split(tape, x, (front, x.elements - front))
    turned = rotate(tape, rotary, table_width)
    out = concatenate(tape, turned, rest)
    tape.drop(turned, rotary, rest)
    return out


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
    """Return whether sdpa is handed a mask tensor instead of a causal flag."""
    if setting.padded or shape.position in {Position.RELATIVE, Position.ALIBI}:
        return True
    if setting.model_type == "gemma2":
        return setting.transformers <= (4, 51)
    if setting.model_type in ALWAYS_MASKED:
        return shape.causal
    window = shape.sliding_window
    return window is not None and bool(np.any(setting.sequence >= window))


def mixed_heads(
    tape: Tape,
    setting: Setting,
    shape: Attention,
    heads: Heads,
    weights: dict[str, Weight],
) -> Tensor:
    """Return the heads' mix, laid out for the output projection; the heads are let go."""
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
    )
    tape.drop(*sides)
    if bias is not None:
        tape.drop(bias)
    copied = not package and kernel is Kernel.FLASH and _copies_output(setting, heads)
    if unpadded or copied:
        laid_out = copy(tape, out)
        tape.drop(out)
        out = laid_out
    if unpadded and out.requires_grad:
        indices = tape.new(setting.tokens, INDEX_BYTES, requires_grad=False)
        tape.save(indices)
        tape.drop(indices)
    return out


def _copies_output(setting: Setting, heads: Heads) -> bool:
    """Return whether flash's output follows a heads-first query and is copied for its projection."""
    first, last = CONTIGUOUS_QUERY
    return heads.query_is_packed or first <= setting.transformers <= last


def _bias(tape: Tape, setting: Setting, shape: Attention, heads: Heads) -> Tensor | None:
    """Return the additive mask one layer makes and keeps, None where all layers share one."""
    if shape.position is Position.RELATIVE:
        scores = scores_of(setting, shape)
        masked = shape.causal
        return layer_bias(tape, setting, scores, masked=masked, trains=heads.bias_trains)
    if not needs_mask(setting, shape):
        return None
    if shape.position is Position.ALIBI:
        return _cast_alibi(tape, setting, shape)
    boolean_since = BOOLEAN_MASK_LATER.get(setting.model_type, BOOLEAN_MASK_SINCE)
    is_cast = setting.autocast and setting.table_width != setting.compute_width
    own = setting.transformers >= boolean_since or is_cast
    if setting.model_type == "gemma2" and not setting.padded:
        own = shape.sliding_window is not None or is_cast
    if not own:
        return None
    return tape.new(
        setting.tokens * setting.sequence, setting.compute_width, requires_grad=False
    )


REPEATS_HEADS = frozenset({"torchtitan", "litgpt"})
"""Frameworks whose own attention copies keys and values to the full head count."""


def _cast_alibi(tape: Tape, setting: Setting, shape: Attention) -> Tensor | None:
    """Return autocast's copy of the biases per head, which a layer keeps; without autocast all layers share them."""
    if not (setting.autocast and setting.table_width != setting.compute_width):
        return None
    return tape.new(
        scores_of(setting, shape).elements, setting.compute_width, requires_grad=False
    )


def _repeats(setting: Setting, shape: Attention, kernel: Kernel) -> bool:
    if shape.kv_heads == shape.heads or _copies_heads(setting, shape):
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
        softmax_fp32=setting.model_type not in SOFTMAX_IN_OWN_FORMAT,
        softcap=shape.softcap,
        scales=shape.position is not Position.ALIBI,
        dropout_probability=shape.dropout,
        probability_width=sides[2].width if setting.model_type in FP32_SCORES else None,
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
