"""Bytes of quantised weights at rest, and what dequantisation makes on the way.

Sources: Dettmers et al. 2023 (QLoRA, arXiv 2305.14314) and bitsandbytes ``functional.py`` (block 64 for 4 bits, double
quantisation in blocks of 256); AutoGPTQ and AWQ storage layouts (``qweight``, ``qzeros``, ``scales``, ``g_idx``);
OCP microscaling (mxfp4: one shared exponent per 32).
"""

from typing import NamedTuple

from vramgate.units import ceil_div

NF4_BLOCK = 64
DOUBLE_QUANT_BLOCK = 256
NF4_CODE_BYTES = 16 * 4
DOUBLE_QUANT_CODE_BYTES = 256 * 4 + 4
"""The 8-bit code book of the second level and its offset."""
GPTQ_GROUP = 128
MXFP4_BLOCK = 32

FOUR_BIT = frozenset({"nf4", "fp4", "gptq-int4", "awq-int4", "mxfp4"})
UNPACKS_IN_PYTORCH = frozenset({"gptq-int4", "gptq-int8"})
"""Formats whose kernels for long inputs unpack in PyTorch operations (AutoGPTQ ``qlinear_cuda_old``)."""
BITSANDBYTES_FOUR_BIT = frozenset({"nf4", "fp4"})


class Storage(NamedTuple):
    """Bytes of one quantised weight: all of it, and the part that sharding does not split."""

    total: int
    replicated: int


def quantized_storage(
    quantization: str, *, in_features: int, out_features: int, double_quant: bool
) -> Storage:
    """Return the bytes one quantised weight takes, its scales and code books included.

    FSDP splits the packed weights (GPTQ's zero points too); scales, code books and ``g_idx`` stay whole on every rank.

    >>> quantized_storage("nf4", in_features=4096, out_features=4096, double_quant=True).total
    8655940
    """
    elements = in_features * out_features
    half = ceil_div(elements, 2)
    if quantization in BITSANDBYTES_FOUR_BIT:
        blocks = ceil_div(elements, NF4_BLOCK)
        scales = NF4_CODE_BYTES + 4 * blocks
        if double_quant:
            nested = 4 * ceil_div(blocks, DOUBLE_QUANT_BLOCK) + DOUBLE_QUANT_CODE_BYTES
            scales = NF4_CODE_BYTES + blocks + nested
        return Storage(half + scales, scales)
    if quantization == "int8":
        return Storage(elements + 4 * out_features, 4 * out_features)
    groups = ceil_div(in_features, GPTQ_GROUP) * out_features
    group_index = 4 * in_features
    if quantization == "gptq-int4":
        scales = 2 * groups + group_index
        return Storage(half + ceil_div(groups, 2) + scales, scales)
    if quantization == "gptq-int8":
        scales = 2 * groups + group_index
        return Storage(elements + groups + scales, scales)
    if quantization == "awq-int4":
        return Storage(half + ceil_div(groups, 2) + 2 * groups, 2 * groups)
    if quantization == "mxfp4":
        scales = ceil_div(elements, MXFP4_BLOCK)
        return Storage(half + scales, scales)
    message = f"unknown quantisation {quantization!r}"
    raise ValueError(message)


def unpacked_scale_bytes(quantization: str, elements: int, *, double_quant: bool) -> int:
    """Return the bytes of block scales that are unpacked to fp32 before the weight is (double quantisation)."""
    if quantization in BITSANDBYTES_FOUR_BIT and double_quant:
        return 4 * ceil_div(elements, NF4_BLOCK)
    return 0
