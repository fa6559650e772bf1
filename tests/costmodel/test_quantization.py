"""Bytes of quantised weights at rest, by the storage layouts of bitsandbytes, AutoGPTQ, AWQ and OCP microscaling.

QLoRA (arXiv 2305.14314), section 3: 32-bit scales for blocks of 64 are 0.5 bits a parameter, double quantisation makes
them 8/64 + 32/(64 · 256) = 0.127 bits.
"""

import pytest

from tests.costmodel.engine_jobs import (
    ATTENTION_WEIGHTS,
    HIDDEN,
    LAYERS,
    TABLE,
    a_job,
    a_step,
    held,
)
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.quantization import quantized_storage, unpacked_scale_bytes

INPUTS, OUTPUTS = 4096, 11008
N = INPUTS * OUTPUTS
GROUPS = INPUTS // 128 * OUTPUTS
CODE_BOOK = 16 * 4
NESTED_CODE_BOOK = 256 * 4 + 4
"""The second level's 256 codes, and its offset."""

SCALES = {
    # Format, double quantisation: packed bytes, scales and tables.
    ("nf4", False): (N // 2, CODE_BOOK + 4 * N // 64),
    ("nf4", True): (N // 2, CODE_BOOK + N // 64 + 4 * N // (64 * 256) + NESTED_CODE_BOOK),
    ("fp4", False): (N // 2, CODE_BOOK + 4 * N // 64),
    # A byte a weight, an fp32 scale a row.
    ("int8", False): (N, 4 * OUTPUTS),
    # 16-bit scales of groups of 128, the group of each input as an int32; zero points are packed like weights.
    ("gptq-int4", False): (N // 2 + GROUPS // 2, 2 * GROUPS + 4 * INPUTS),
    ("gptq-int8", False): (N + GROUPS, 2 * GROUPS + 4 * INPUTS),
    ("awq-int4", False): (N // 2 + GROUPS // 2, 2 * GROUPS),
    # One shared exponent for 32.
    ("mxfp4", False): (N // 2, N // 32),
}


@pytest.mark.parametrize(("quantization", "double_quant"), list(SCALES))
def test_storage_of_one_weight(quantization: str, double_quant: bool) -> None:
    storage = quantized_storage(
        quantization, in_features=INPUTS, out_features=OUTPUTS, double_quant=double_quant
    )
    packed, scales = SCALES[quantization, double_quant]
    assert storage.total == packed + scales
    assert storage.replicated == scales


@pytest.mark.parametrize(
    ("quantization", "double_quant", "bits"),
    [
        ("nf4", False, 4.5),
        ("nf4", True, 4.127),
        ("int8", False, 8.0),
        ("mxfp4", False, 4.25),
        ("awq-int4", False, 4 + 20 / 128),
    ],
)
def test_bits_a_parameter(quantization: str, double_quant: bool, bits: float) -> None:
    storage = quantized_storage(
        quantization, in_features=INPUTS, out_features=OUTPUTS, double_quant=double_quant
    )
    assert 8 * storage.total / N == pytest.approx(bits, rel=0.002)


def test_a_weight_that_fills_no_block_takes_a_whole_one() -> None:
    storage = quantized_storage("nf4", in_features=5, out_features=13, double_quant=False)
    assert storage.total == 33 + 4 * 2 + CODE_BOOK


def test_scales_are_unpacked_where_they_are_quantised_themselves() -> None:
    assert unpacked_scale_bytes("nf4", N, double_quant=True) == 4 * N // 64
    assert unpacked_scale_bytes("nf4", N, double_quant=False) == 0
    assert unpacked_scale_bytes("int8", N, double_quant=True) == 0


def test_an_unknown_format_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="int3"):
        quantized_storage("int3", in_features=64, out_features=64, double_quant=False)


# -- on a whole model ----------------------------------------------------------------------------------------------

QLORA = {
    "kind": "qlora",
    "rank": 8,
    "target_modules": ["q_proj"],
    "quantization": "nf4",
    "double_quant": False,
    "adapter_dtype": "fp32",
}
MLP_WEIGHTS = 3 * 256 * 512
CODE_BOOKS = 7 * CODE_BOOK
"""Seven linear layers a block."""
OUTSIDE, NORMS = 2 * TABLE + HIDDEN, LAYERS * 2 * HIDDEN


@pytest.mark.parametrize(("prepare", "width"), [(False, 2), (True, 4)])
def test_only_the_blocks_linear_layers_are_quantised(prepare: bool, width: int) -> None:
    # prepare_model_for_kbit_training raises everything else to fp32.
    job = a_job(method={**QLORA, "prepare_for_kbit_training": prepare})
    linear = ATTENTION_WEIGHTS + MLP_WEIGHTS
    packed = LAYERS * (linear // 2 + 4 * linear // 64 + CODE_BOOKS)
    adapters = LAYERS * 8 * 2 * HIDDEN
    rotary = 2 * 32 * 4
    weights = packed + width * (OUTSIDE + NORMS) + 4 * adapters + rotary
    assert held(job, Phase.LOAD, Component.WEIGHTS) == weights


def test_loading_holds_the_largest_weight_unquantised() -> None:
    job = a_job(method={**QLORA, "prepare_for_kbit_training": False})
    assert held(job, Phase.LOAD, Component.DEQUANTIZATION) == 2 * 256 * 512


def test_fsdp_leaves_scales_on_every_rank() -> None:
    job = a_job(
        method={**QLORA, "prepare_for_kbit_training": False},
        hardware={"accelerator": "a100-sxm4-80gb", "devices": 4},
        sharding={"implementation": "fsdp"},
    )
    linear = ATTENTION_WEIGHTS + MLP_WEIGHTS
    assert a_step(job).model.states.replicated == LAYERS * (4 * linear // 64 + CODE_BOOKS)
