"""What single operations keep for backward, and how high they go.

Which tensors an operation saves is PyTorch's ``derivatives.yaml``; the highest moment of its backward is counted by
hand: the gradient that arrives, what is saved, what is made.
"""

from collections.abc import Callable

import pytest

from tests.costmodel.engine_jobs import a_tape, an_input, run_backward
from vramgate.costmodel.operations import (
    activation,
    add,
    batched_product,
    bloom_gelu,
    cast,
    concatenate,
    copy,
    dropout,
    fused_gate,
    gather_sequence,
    keep_with,
    multiply,
    power,
    scale,
    scatter_sequence,
    split,
)
from vramgate.costmodel.tape import ACTIVATION, Tape, Tensor

SIZE = 1000
"""Elements of every input; 2 bytes each."""

Unary = Callable[[Tape, Tensor], Tensor]


def _saved(run: Unary) -> int:
    """Return the bytes kept once nobody holds the input and the output."""
    tape = a_tape()
    x = an_input(tape, SIZE)
    out = run(tape, x)
    tape.drop(x, out)
    return int(tape.live)


def _backward_peak(run: Unary) -> int:
    """Return the most that is alive in backward."""
    tape = a_tape()
    x = an_input(tape, SIZE)
    out = run(tape, x)
    tape.drop(x)
    run_backward(tape, out)
    return int(tape.peak)


@pytest.mark.parametrize(
    ("run", "kept", "high"),
    [
        pytest.param(scale, 0, 4000, id="times a number: nothing; both gradients"),
        pytest.param(copy, 0, 2000, id="copy: nothing; the gradient passes through"),
        pytest.param(activation, 2000, 6000, id="silu: its input; both gradients beside it"),
        pytest.param(
            lambda tape, x: activation(tape, x, saves_output=True),
            2000,
            6000,
            id="relu: its output",
        ),
        pytest.param(
            lambda tape, x: dropout(tape, x, 0.1), 1000, 5000, id="dropout: a mask of one byte"
        ),
        pytest.param(lambda tape, x: dropout(tape, x, 0.0), 0, 2000, id="no dropout: the input"),
        pytest.param(
            power, 2000, 10000, id="a power: its input; the lower power, it times the exponent"
        ),
        pytest.param(
            bloom_gelu, 2000, 14000, id="BLOOM's gelu: its input; five temporaries in Python"
        ),
        pytest.param(lambda tape, x: cast(tape, x, 4), 0, 6000, id="to fp32: nothing; 4 + 2 bytes"),
        pytest.param(lambda tape, x: cast(tape, x, 2), 0, 2000, id="to its own format: itself"),
        pytest.param(
            lambda tape, x: multiply(tape, x, x), 2000, 8000, id="a square: one tensor, twice saved"
        ),
        pytest.param(lambda tape, x: add(tape, x, x), 0, 4000, id="twice itself: the engine adds"),
    ],
)
def test_an_operation_keeps_what_its_derivative_reads(run: Unary, kept: int, high: int) -> None:
    assert _saved(run) == kept
    assert _backward_peak(run) == high


def test_a_product_keeps_only_what_a_wanted_gradient_reads() -> None:
    tape = a_tape()
    x = an_input(tape, SIZE)
    mask = tape.new(SIZE, 2, requires_grad=False)
    out = multiply(tape, x, mask)
    tape.drop(x, out)
    assert tape.live == 2000  # the mask alone: nobody asks for its gradient
    tape.drop(mask)
    assert tape.by[ACTIVATION] == 2000


def test_addition_widens_and_casts_the_gradient_of_the_narrow_side() -> None:
    tape = a_tape()
    narrow, wide = an_input(tape, SIZE, 2), an_input(tape, SIZE, 4)
    out = add(tape, narrow, wide)
    assert out.width == 4
    tape.drop(narrow, wide)
    run_backward(tape, out)
    # The fp32 gradient passes on; the narrow side's is made beside it.
    assert (tape.peak, tape.live) == (6000, 6000)


def test_a_batched_product_keeps_both_sides() -> None:
    tape = a_tape()
    a, b = an_input(tape, SIZE), an_input(tape, SIZE)
    out = batched_product(tape, a, b, 500)
    tape.drop(a, b, out)
    assert tape.live == 4000


def test_autocast_keeps_16_bit_copies_of_fp32_sides() -> None:
    tape = a_tape(autocast=True)
    a, b = an_input(tape, SIZE, 4), an_input(tape, SIZE, 4)
    out = batched_product(tape, a, b, 500)
    assert out.width == 2
    tape.drop(a, b, out)
    assert tape.live == 2 * SIZE * 2


def test_autocast_raises_a_power_to_fp32() -> None:
    tape = a_tape(autocast=True)
    x = an_input(tape, SIZE)
    out = power(tape, x)
    assert out.width == 4
    tape.drop(x, out)
    assert tape.live == 4 * SIZE


def test_a_fused_gate_keeps_its_inputs_and_overwrites_them() -> None:
    # Liger: gate and up, 4 bytes an element; backward ends with their gradients in the same bytes.
    tape = a_tape()
    gate, up = an_input(tape, SIZE), an_input(tape, SIZE)
    out = fused_gate(tape, gate, up)
    tape.drop(gate, up)
    tape.drop(out)
    assert tape.live == 4000
    out.gradient = tape.new_gradient(out.size)
    tape.restart_peak()
    tape.backward()
    assert (tape.peak, tape.live) == (6000, 4000)


def test_gate_and_up_in_python_keep_four_tensors() -> None:
    # ORACLE.md, surprising fact 4: gate, silu(gate), up; the product is the next layer's to keep. 6 bytes.
    tape = a_tape()
    gate, up = an_input(tape, SIZE), an_input(tape, SIZE)
    opened = activation(tape, gate)
    out = multiply(tape, opened, up)
    tape.drop(gate, up, opened, out)
    assert tape.live == 6000


def test_parts_of_a_split_give_one_gradient() -> None:
    tape = a_tape()
    x = an_input(tape, SIZE)
    left, right = split(tape, x, (600, 400))
    joined = concatenate(tape, left, right)
    tape.drop(x, left, right)
    assert tape.live == 2000  # the copy; a split copies nothing
    run_backward(tape, joined)
    # The gradient's views arrive, and a whole one is put together beside them.
    assert (tape.peak, tape.live) == (4000, 2000)


def test_what_shares_a_storage_is_kept_with_it() -> None:
    tape = a_tape()
    x, other = an_input(tape, SIZE), tape.new(SIZE, 1, requires_grad=False)
    keep_with(tape, x, other)
    tape.drop(other)
    assert tape.live == 3000
    tape.backward()
    assert tape.live == 2000


def test_sequence_parallel_products_save_the_shard() -> None:
    # Megatron gathers 4 shards for the product and saves one of them.
    tape = a_tape()
    x = an_input(tape, SIZE)
    whole = gather_sequence(tape, x, 4, keeps_shard=True)
    assert whole.size == 8000
    tape.save(whole)
    tape.drop(whole)
    assert tape.live == 2000
    back = scatter_sequence(tape, whole, 4)
    assert back.size == 2000
