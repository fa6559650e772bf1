"""What the norms keep and how high their backward goes, by ORACLE.md (surprising fact 1, and its closed forms)."""

import pytest

from tests.costmodel.engine_jobs import a_job, a_tape, a_weight, an_input, run_backward
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.norm_operations import (
    fused_rms_norm,
    layer_norm,
    rms_norm,
    rms_norm_plus_one,
    vector_gradient,
)
from vramgate.costmodel.tape import GRADIENT, Tape
from vramgate.costmodel.weights import Weight

WIDTH, ROWS = 64, 16
SIZE = WIDTH * ROWS
FULL = a_job()
FROZEN = a_job(method={"kind": "lora", "target_modules": ["v_proj"]})


def _scale(job: TrainingJob) -> Weight:
    """Return a norm's weight: one number a column."""
    return a_weight(job, WIDTH, 1)


def _kept(job: TrainingJob, *, width: int = 2) -> int:
    tape = a_tape()
    x = an_input(tape, SIZE, width)
    out = rms_norm(tape, x, _scale(job))
    tape.drop(x, out)
    return int(tape.live)


def test_rms_norm_keeps_an_fp32_copy_the_normalised_input_and_a_number_a_row() -> None:
    assert _kept(FULL) == (4 + 2) * SIZE + 4 * ROWS


def test_a_frozen_rms_norm_keeps_no_normalised_input() -> None:
    assert _kept(FROZEN) == 4 * SIZE + 4 * ROWS


def test_in_fp32_the_input_itself_is_the_copy() -> None:
    fp32 = a_job(precision="fp32")
    assert _kept(fp32, width=4) == (4 + 4) * SIZE + 4 * ROWS


def test_backward_of_rms_norm_has_five_fp32_tensors_at_its_worst() -> None:
    # Beside the fp32 copy: the direct gradient, the mean's spread, the power of one, times two, their product.
    tape = a_tape()
    x = an_input(tape, SIZE)
    out = rms_norm(tape, x, _scale(FULL))
    tape.drop(x)
    run_backward(tape, out)
    assert tape.peak == 4 * SIZE + 5 * 4 * SIZE + 2 * WIDTH
    assert tape.by[GRADIENT] == 2 * WIDTH
    assert tape.live == 2 * SIZE + 2 * WIDTH


def test_gemmas_norm_stays_in_fp32_and_keeps_one_plus_the_weight() -> None:
    tape = a_tape()
    x = an_input(tape, SIZE)
    out = rms_norm_plus_one(tape, x, _scale(FULL))
    assert out.width == 2
    tape.drop(x, out)
    # fp32 copy, normalised input in fp32, a number a row, 1 + weight.
    assert tape.live == (4 + 4) * SIZE + 4 * ROWS + 4 * WIDTH


def test_a_fused_rms_norm_keeps_its_input_and_a_number_a_row() -> None:
    # FORMULAS.md 1.2: it reuses the residual tensor; in place, the gradient is overwritten.
    for in_place, high in ((True, 4), (False, 6)):
        tape = a_tape()
        x = an_input(tape, SIZE)
        out = fused_rms_norm(tape, x, _scale(FULL), in_place=in_place)
        tape.drop(x)
        kept = tape.live - out.size
        assert kept == 2 * SIZE + 4 * ROWS
        run_backward(tape, out)
        assert tape.peak == high * SIZE + 4 * ROWS + 2 * WIDTH
        assert tape.live == 2 * SIZE + 2 * WIDTH


@pytest.mark.parametrize(
    ("autocast", "width", "kept"),
    [
        pytest.param(False, 2, 2, id="in bf16: its input"),
        pytest.param(False, 4, 4, id="in fp32: its input"),
        pytest.param(True, 2, 4, id="autocast raises it to fp32"),
    ],
)
def test_layer_norm_keeps_its_input_and_two_numbers_a_row(
    autocast: bool, width: int, kept: int
) -> None:
    tape = a_tape(autocast=autocast)
    x = an_input(tape, SIZE, width)
    out = layer_norm(tape, x, _scale(FULL))
    tape.drop(x, out)
    assert tape.live == kept * SIZE + 8 * ROWS


def test_backward_of_layer_norm_is_one_kernel() -> None:
    # Input, statistics, the gradient that arrives, the one it makes, the weight's.
    tape = a_tape()
    x = an_input(tape, SIZE)
    out = layer_norm(tape, x, _scale(FULL))
    tape.drop(x)
    run_backward(tape, out)
    assert tape.peak == 3 * 2 * SIZE + 8 * ROWS + 2 * WIDTH


def test_a_side_parameter_leaves_a_gradient_only_where_it_trains() -> None:
    for job, gradient in ((FULL, 2 * WIDTH), (FROZEN, 0)):
        tape = a_tape()
        vector_gradient(tape, _scale(job))
        tape.backward()
        assert tape.by[GRADIENT] == gradient
    quiet = Tape(autocast=False, compute_width=2, recording=False)
    vector_gradient(quiet, _scale(FULL))
    assert not quiet.operations
