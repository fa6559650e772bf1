"""Bytes of quantised weights at rest, and what dequantisation makes on the way.

Sources: Dettmers et al. 2023 (QLoRA, arXiv 2305.14314) and bitsandbytes ``functional.py`` (block 64 for 4 bits, double
quantisation in blocks of 256); AutoGPTQ and AWQ storage layouts (``qweight``, ``qzeros``, ``scales``, ``g_idx``);
OCP microscaling (mxfp4: one shared exponent per 32).
"""

from vramgate.units import Bytes, Count, ceil_div

NF4_BLOCK = 64
DOUBLE_QUANT_BLOCK = 256
NF4_CODE_BYTES = 16 * 4
DOUBLE_QUANT_CODE_BYTES = 256 * 4 + 4
"""The 8-bit code book of the second level and its offset."""
GPTQ_GROUP = 128
MXFP4_BLOCK = 32

FOUR_BIT = frozenset({"nf4", "fp4", "gptq-int4", "awq-int4", "mxfp4"})
BITSANDBYTES_FOUR_BIT = frozenset({"nf4", "fp4"})


def quantized_bytes(
    quantization: str, *, in_features: Count, out_features: Count, double_quant: bool
) -> Bytes:
    """Return the bytes one quantised weight takes, its scales and code books included.

    >>> quantized_bytes("nf4", in_features=4096, out_features=4096, double_quant=True)
    8655940
    """
    elements = in_features * out_features
    if quantization in BITSANDBYTES_FOUR_BIT:
        blocks = ceil_div(elements, NF4_BLOCK)
        packed = ceil_div(elements, 2) + NF4_CODE_BYTES
        if not double_quant:
            return packed + 4 * blocks
        return packed + blocks + 4 * ceil_div(blocks, DOUBLE_QUANT_BLOCK) + DOUBLE_QUANT_CODE_BYTES
    if quantization == "int8":
        return elements + 4 * out_features
    groups = ceil_div(in_features, GPTQ_GROUP) * out_features
    if quantization == "gptq-int4":
        return ceil_div(elements, 2) + ceil_div(groups, 2) + 2 * groups + 4 * in_features
    if quantization == "gptq-int8":
        return elements + groups + 2 * groups + 4 * in_features
    if quantization == "awq-int4":
        return ceil_div(elements, 2) + ceil_div(groups, 2) + 2 * groups
    if quantization == "mxfp4":
        return ceil_div(elements, 2) + ceil_div(elements, MXFP4_BLOCK)
    message = f"unknown quantisation {quantization!r}"
    raise ValueError(message)


def unpacked_scale_bytes(quantization: str, elements: Count, *, double_quant: bool) -> Bytes:
    """Return the bytes of block scales that are unpacked to fp32 before the weight is (double quantisation)."""
    if quantization in BITSANDBYTES_FOUR_BIT and double_quant:
        return 4 * ceil_div(elements, NF4_BLOCK)
    return 0
