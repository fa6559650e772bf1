"""Products with a weight: plain, under autocast, quantised, adapted by LoRA and DoRA.

W = in × out elements of the weight, T rows. Counted by hand from ``addmm``'s derivative, autocast's weight cache,
bitsandbytes' ``MatMul4Bit`` (the input is not saved, the weight is unpacked twice) and peft ``lora/layer.py``.
"""

from typing import Any

import pytest

from tests.costmodel.engine_jobs import a_job, a_tape, a_weight, an_input, run_backward
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.products import cast_weight, linear, unpacked_bytes
from vramgate.costmodel.tape import (
    ACTIVATION,
    CAST,
    DEQUANTIZED,
    GRADIENT,
    Tape,
    Tensor,
)
from vramgate.costmodel.weights import Weight

ROWS, INPUTS, OUTPUTS, RANK = 16, 64, 32, 8
X, Y, W = ROWS * INPUTS, ROWS * OUTPUTS, INPUTS * OUTPUTS
"""Elements of input, output and weight."""
LOW = ROWS * RANK


def _forward(job: TrainingJob, tape: Tape, *, bias: bool = False, width: int = 2) -> Tensor:
    """Run one layer; nobody holds its input any longer."""
    weight = a_weight(job, INPUTS, OUTPUTS, bias=bias)
    x = an_input(tape, X, width)
    out = linear(tape, x, weight)
    tape.drop(x)
    return out


def _kept(job: TrainingJob, *, autocast: bool = False, width: int = 2) -> list[int]:
    """Return what is kept for backward when the output's name is gone, by category."""
    tape = a_tape(autocast=autocast)
    out = _forward(job, tape, width=width)
    tape.leave_autocast()
    tape.drop(out)
    return [int(size) for size in tape.by]


def _adapted(kind: str = "lora", **method: Any) -> TrainingJob:  # noqa: ANN401
    fields = {"rank": RANK, "target_modules": ["q_proj"], "adapter_dtype": "bf16", **method}
    return a_job(method={"kind": kind, **fields})


# -- plain ---------------------------------------------------------------------------------------------------------


def test_a_layer_that_trains_keeps_its_input() -> None:
    assert _kept(a_job())[ACTIVATION] == 2 * X


def test_a_frozen_layer_keeps_nothing() -> None:
    assert sum(_kept(a_job(method={"kind": "lora", "target_modules": ["v_proj"]}))) == 0


def test_backward_makes_the_weights_gradient_then_the_inputs() -> None:
    # Alive at the worst: the input 2X, the output's gradient 2Y, the weight's 2W, the input's 2X.
    tape = a_tape()
    out = _forward(a_job(), tape)
    run_backward(tape, out)
    assert tape.peak == 2 * X + 2 * Y + 2 * W + 2 * X
    assert tape.live == 2 * W + 2 * X
    assert tape.by[GRADIENT] == 2 * W


def test_a_bias_has_a_gradient_too() -> None:
    tape = a_tape()
    run_backward(tape, _forward(a_job(), tape, bias=True))
    assert tape.by[GRADIENT] == 2 * (W + OUTPUTS)


def test_a_transposed_gradient_is_copied_first() -> None:
    # Heads' gradients are made contiguous: for a frozen layer the two are more than what is made of them.
    frozen = a_weight(a_job(method={"kind": "lora", "target_modules": ["v_proj"]}), INPUTS, 4096)
    peaks = []
    for transposed in (False, True):
        tape = a_tape()
        x = an_input(tape, X)
        out = linear(tape, x, frozen, transposed_gradient=transposed)
        tape.drop(x)
        run_backward(tape, out)
        peaks.append(tape.peak)
    wide = 2 * ROWS * 4096
    assert peaks == [wide + 2 * X, 2 * wide]


# -- autocast ------------------------------------------------------------------------------------------------------

MIXED = {"precision": "bf16-mixed"}


def test_autocast_keeps_16_bit_copies_of_input_and_weight() -> None:
    kept = _kept(a_job(**MIXED), autocast=True, width=4)
    assert (kept[ACTIVATION], kept[CAST]) == (2 * X, 2 * W)


def test_one_cast_of_a_weight_serves_every_use_of_it() -> None:
    tape = a_tape(autocast=True)
    weight = a_weight(a_job(**MIXED), INPUTS, OUTPUTS)
    for _ in range(3):
        linear(tape, an_input(tape, X, 4), weight)
    assert tape.by[CAST] == 2 * W


def test_autocasts_cache_lives_until_autocast_is_left() -> None:
    # Nothing is recorded (checkpointing's forward), so only the cache holds the copy.
    tape = Tape(autocast=True, compute_width=2, recording=False)
    linear(tape, an_input(tape, X, 4), a_weight(a_job(**MIXED), INPUTS, OUTPUTS))
    assert tape.by[CAST] == 2 * W
    tape.leave_autocast()
    assert tape.by[CAST] == 0


def test_a_frozen_weight_is_cast_anew_each_time() -> None:
    frozen = a_job(
        precision="bf16-mixed",
        method={"kind": "lora", "target_modules": ["v_proj"], "frozen_dtype": "fp32"},
    )
    weight = a_weight(frozen, INPUTS, OUTPUTS)
    assert weight.width == 4
    tape = a_tape(autocast=True)
    for _ in range(2):
        tape.drop(linear(tape, an_input(tape, X, 4), weight))
    assert not tape.casts
    assert tape.by[CAST] == 2 * 2 * W  # each use saves its own copy


def test_a_weight_made_for_one_product_is_not_taken_for_the_next() -> None:
    # Python may give an object the address of one that is gone: the cache must not go by addresses.
    tape = a_tape(autocast=True)
    for outputs in range(1, 50):
        copy = cast_weight(tape, a_weight(a_job(**MIXED), INPUTS, outputs), 2)
        assert copy.elements == INPUTS * outputs


def test_the_gradient_of_a_cast_weight_becomes_fp32() -> None:
    tape = a_tape(autocast=True)
    out = _forward(a_job(**MIXED), tape, width=4)
    tape.leave_autocast()
    run_backward(tape, out)
    assert tape.by[GRADIENT] == 4 * W
    assert tape.by[CAST] == 0
    assert tape.live == 4 * W + 4 * X


# -- quantised -----------------------------------------------------------------------------------------------------

QLORA = {"prepare_for_kbit_training": False, "double_quant": True}


def _quantized(**method: Any) -> Weight:  # noqa: ANN401
    fields = {**QLORA, "target_modules": ["v_proj"], **method}
    return a_weight(_adapted("qlora", **fields), INPUTS, OUTPUTS)


def test_a_quantised_layer_keeps_nothing_and_unpacks_its_weight_twice() -> None:
    # Once per direction, 2 bytes an element; with double quantisation 4 bytes of scale per 64 weights before it.
    tape, weight = a_tape(), _quantized()
    x = an_input(tape, X)
    out = linear(tape, x, weight)
    scales = 4 * W // 64
    assert tape.peak == 2 * X + max(scales + 2 * W, 2 * W + 2 * Y)
    assert tape.by[DEQUANTIZED] == 0
    tape.drop(x)
    run_backward(tape, out)
    assert tape.peak == 2 * Y + 2 * W + max(scales, 2 * X)
    assert tape.live == 2 * X


def test_without_double_quantisation_no_scales_are_unpacked() -> None:
    weight = _quantized(double_quant=False)
    assert unpacked_bytes(a_tape(), weight) == 2 * W
    assert unpacked_bytes(a_tape(), _quantized()) == 2 * W + 4 * W // 64
    assert unpacked_bytes(a_tape(), a_weight(a_job(), INPUTS, OUTPUTS)) == 0


def test_old_bitsandbytes_keeps_inputs_and_unpacks_through_fp16() -> None:
    tape, weight = a_tape(), _quantized()
    tape.saves_quantized_inputs = True
    x = an_input(tape, X)
    out = linear(tape, x, weight)
    tape.drop(x, out)
    assert tape.live == 2 * X
    assert unpacked_bytes(tape, weight) == 2 * 2 * W + 4 * W // 64
    assert sum(tape.quantized_inputs.values()) == 2 * X


# -- adapters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        # A keeps the input, B keeps A's output.
        pytest.param({}, 2 * X + 2 * LOW, id="bf16 adapters share the input"),
        pytest.param({"adapter_dtype": "fp32"}, 4 * X + 4 * LOW, id="fp32 adapters copy it"),
        # The mask is one byte an element; what dropout left is A's input.
        pytest.param({"dropout": 0.05}, 2 * X + X + 2 * LOW, id="dropout keeps a mask"),
        pytest.param(
            {"dropout": 0.05, "adapter_dtype": "fp32"},
            4 * X + X + 4 * LOW,
            id="in fp32 with a mask",
        ),
    ],
)
def test_lora_keeps_the_inputs_of_a_and_b(method: dict[str, Any], kept: int) -> None:
    assert sum(_kept(_adapted(**method))) == kept


def test_lora_leaves_gradients_of_a_and_b_alone() -> None:
    tape = a_tape()
    run_backward(tape, _forward(_adapted(), tape))
    assert tape.by[GRADIENT] == 2 * RANK * (INPUTS + OUTPUTS)


def test_under_autocast_every_target_keeps_its_own_16_bit_input() -> None:
    # ORACLE.md, fact 11: fp32 adapters, cast as products go; their casts are cached with the weights.
    kept = _kept(_adapted(adapter_dtype="fp32"), autocast=True)
    assert kept[ACTIVATION] == 2 * X + 2 * LOW
    assert kept[CAST] == 2 * RANK * (INPUTS + OUTPUTS)


def test_dora_keeps_two_outputs_more_than_lora() -> None:
    # The magnitude's gradient reads the base's output and the adapter's (2 bytes an element each).
    assert sum(_kept(_adapted(dora=True))) - sum(_kept(_adapted())) == 2 * 2 * Y


def test_doras_norm_takes_three_weights_and_an_identity() -> None:
    # peft ``dora.py``: an identity of in × in through the adapter; the merged weight, three times at the worst.
    # Beside it: the input, the base's output, A's input is the same, the adapter's output; A's output is kept for B.
    tape = a_tape()
    _forward(_adapted(dora=True), tape)
    assert tape.peak == 2 * (X + Y + LOW + Y) + 2 * (INPUTS**2 + 3 * W)


def test_dora_with_dropout_runs_the_base_again() -> None:
    # Kept beside LoRA's: the base's second output and the adapter's. The frozen base keeps no input.
    dora, lora = _adapted(dora=True, dropout=0.05), _adapted(dropout=0.05)
    assert sum(_kept(dora)) - sum(_kept(lora)) == 2 * 2 * Y


def test_doras_magnitude_has_a_gradient() -> None:
    tape = a_tape()
    run_backward(tape, _forward(_adapted(dora=True), tape))
    assert tape.by[GRADIENT] == 2 * RANK * (INPUTS + OUTPUTS) + 2 * OUTPUTS


def test_outputs_of_weight_products_are_listed_for_selective_checkpointing() -> None:
    tape = a_tape()
    _forward(_adapted(), tape)
    assert tape.products == [2 * Y, 2 * LOW, 2 * Y]  # base, A, B
