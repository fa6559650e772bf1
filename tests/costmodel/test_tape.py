"""The tape counts what is alive: peaks, saved tensors, views, gradients.

Expected bytes are added up by hand from autograd's rules: an operation keeps the tensors it saves, a view keeps its
storage, ``InputBuffer`` adds gradients in place only where it alone owns the buffer.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costmodel.engine_jobs import a_job, a_tape, a_weight, an_input, run_backward
from vramgate.costmodel.norm_operations import layer_norm, rms_norm
from vramgate.costmodel.operations import (
    activation,
    add,
    concatenate,
    copy,
    dropout,
    multiply,
    power,
    scale,
    split,
)
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import (
    ACTIVATION,
    CAST,
    GRADIENT,
    LOGITS,
    TEMPORARY,
    ArrayTape,
    Gradient,
    Tape,
    Tensor,
)
from vramgate.units import Count


def test_the_peak_is_the_most_that_was_alive_at_once() -> None:
    tape = a_tape()
    tape.allocate(10)
    tape.allocate(20, LOGITS)
    tape.free(10)
    tape.allocate(5, ACTIVATION)
    assert (tape.peak, tape.live) == (30, 25)
    assert (tape.peak_by[TEMPORARY], tape.peak_by[LOGITS]) == (10, 20)
    assert (tape.by[TEMPORARY], tape.by[LOGITS], tape.by[ACTIVATION]) == (0, 20, 5)


def test_a_spike_raises_the_peak_and_leaves_nothing() -> None:
    tape = a_tape()
    tape.allocate(10)
    tape.spike(7)
    assert (tape.peak, tape.live) == (17, 10)


def test_a_restarted_peak_forgets_what_was_higher() -> None:
    tape = a_tape()
    tape.spike(100)
    tape.allocate(10)
    assert tape.restart_peak()[0] == 100
    assert tape.peak == 10


def test_a_tensor_lives_until_its_last_holder_lets_go() -> None:
    tape = a_tape()
    x = an_input(tape, 8)
    tape.hold(x)
    tape.save(x)
    for left in (16, 16, 0):
        tape.drop(x)
        assert tape.live == left


def test_what_is_saved_is_an_activation_and_logits_stay_logits() -> None:
    tape = a_tape()
    x = an_input(tape, 8)
    tape.save(x)
    logits = tape.new(8, 4, requires_grad=True, category=LOGITS)
    tape.save(logits)
    assert (tape.by[TEMPORARY], tape.by[ACTIVATION], tape.by[LOGITS]) == (0, 16, 32)


def test_a_saved_view_keeps_all_of_its_storage() -> None:
    tape = a_tape()
    x = an_input(tape, 300)
    views = split(tape, x, (100, 100, 100))
    tape.save(views[1])
    tape.drop(x, *views)
    assert tape.live == 600
    tape.release_saved(views[1])
    assert tape.live == 0


def test_views_of_views_share_one_storage() -> None:
    tape = a_tape()
    x = an_input(tape, 100)
    inner = tape.view(tape.view(x, 50), 25)
    tape.drop(x)
    assert inner.base is x
    assert tape.live == 200


def test_a_gathered_tensor_is_saved_as_its_shard() -> None:
    tape = a_tape()
    shard = an_input(tape, 10)
    whole = an_input(tape, 40)
    whole.shard = shard
    tape.save(whole)
    tape.drop(whole, shard)
    assert tape.live == 20


def test_discarded_storage_counts_only_where_an_operation_saved_it() -> None:
    tape = a_tape()
    saved, unsaved = an_input(tape, 10), an_input(tape, 100)
    tape.save(saved)
    tape.discard(saved, unsaved)
    tape.drop(saved, unsaved)
    assert tape.discarded_bytes == 20


def test_what_is_left_to_the_block_lives_to_its_end() -> None:
    tape = a_tape()
    tape.leave_to_block(an_input(tape, 10))
    assert tape.live == 20
    tape.end_block()
    assert tape.live == 0


def test_two_gradients_of_one_tensor_are_added_in_place() -> None:
    # Both buffers of 16 bytes are alive when they meet; the second is freed.
    tape = a_tape()
    x = an_input(tape, 8)
    tape.drop(x)
    tape.give(x, tape.new_gradient(16))
    tape.give(x, tape.new_gradient(16))
    assert (tape.peak, tape.live) == (32, 16)


def test_the_engine_adds_beside_a_view_or_a_shared_buffer() -> None:
    for is_view, owners in ((True, 1), (False, 2)):
        tape = a_tape()
        x = an_input(tape, 8)
        tape.drop(x)
        tape.restart_peak()
        present = tape.new_gradient(16, is_view=is_view)
        present.owners = owners
        tape.give(x, present)
        tape.give(x, tape.new_gradient(16))
        assert tape.peak == 48  # both, and their sum
        assert tape.live == (32 if owners == 2 else 16)  # the other owner still holds its buffer


def test_a_gradient_that_never_came_is_a_mistake() -> None:
    tape = a_tape()
    with pytest.raises(AssertionError):
        tape.take(an_input(tape, 8))


def test_a_parameters_gradient_stays_unless_it_is_added_into_another() -> None:
    tape = a_tape()
    tape.allocate(50)
    tape.keep_parameter_gradient(50)
    assert (tape.live, tape.by[GRADIENT], tape.by[TEMPORARY]) == (50, 50, 0)
    tape.accumulating = True
    tape.allocate(50)
    tape.keep_parameter_gradient(50)
    assert (tape.live, tape.by[GRADIENT], tape.peak) == (50, 50, 100)


def test_backward_runs_from_the_last_operation_to_the_first() -> None:
    tape, order = a_tape(), list[int]()
    for number in range(4):
        tape.record(lambda _, which: order.append(which), number)
    tape.backward(down_to=1)
    assert order == [3, 2, 1]


def test_recomputation_waits_for_the_first_operation_that_saved() -> None:
    tape, order = a_tape(), list[str]()
    tape.record_saving(lambda _, which: order.append(which), "saved")
    tape.record(lambda _, which: order.append(which), "unsaved")
    tape.backward_of_unsaving()
    assert order == ["unsaved"]


def test_a_tape_that_does_not_record_keeps_nothing() -> None:
    tape = Tape(autocast=False, compute_width=2, recording=False)
    x = an_input(tape, 64)
    out = multiply(tape, x, x)
    tape.drop(x, out)
    assert (tape.live, tape.operations) == (0, [])


def test_what_is_made_for_backward_alone_is_not_there_where_nothing_is_saved() -> None:
    tape = a_tape()
    tape.counts_unsaved = True
    an_input(tape, 8)
    tape.new_saved(4, 8)
    an_input(tape, 1)
    assert (tape.peak, tape.unsaved_peak) == (16 + 32 + 2, 16 + 2)


# -- any program ---------------------------------------------------------------------------------------------------

ROW = 16
Program = list[int]
_JOB = a_job()
_WEIGHT = a_weight(_JOB, ROW, ROW)
_NORM = a_weight(_JOB, ROW, 1)


def _split_and_join(tape: Tape, x: Tensor, _: Tensor) -> Tensor:
    half = x.elements // 2
    left, right = split(tape, x, (half, half))
    out = concatenate(tape, left, right)
    tape.drop(left, right)
    return out


OPERATIONS: tuple[Callable[[Tape, Tensor, Tensor], Tensor], ...] = (
    lambda tape, x, _: linear(tape, x, _WEIGHT),
    lambda tape, x, _: activation(tape, x),
    lambda tape, x, _: activation(tape, x, saves_output=True),
    lambda tape, x, _: dropout(tape, x, 0.1),
    lambda tape, x, _: scale(tape, x),
    lambda tape, x, _: copy(tape, x),
    lambda tape, x, _: power(tape, x),
    lambda tape, x, _: rms_norm(tape, x, _NORM),
    lambda tape, x, _: layer_norm(tape, x, _NORM),
    add,
    multiply,
    _split_and_join,
)


def _run(tape: Tape, program: Program, elements: Count) -> Tensor:
    """Run a program forward: each operation reads the last result, and those of two read the input too."""
    x = tape.new(elements, 2, requires_grad=True)
    last = x
    tape.hold(x)
    for number in program:
        out = OPERATIONS[number](tape, last, x)
        tape.drop(last)
        last = out
    tape.drop(x)
    return last


programs = st.lists(st.integers(0, len(OPERATIONS) - 1), min_size=1, max_size=12)


@given(programs, st.integers(1, 50), st.booleans())
def test_after_backward_only_gradients_are_left(
    program: Program, rows: int, autocast: bool
) -> None:
    tape = a_tape(autocast=autocast)
    out = _run(tape, program, rows * ROW)
    tape.leave_autocast()
    run_backward(tape, out)
    assert not tape.operations
    assert tape.by[ACTIVATION] == 0
    assert sum(tape.by) == tape.live
    assert sum(tape.peak_by) == tape.peak
    # The sum of the input's gradients, 2 bytes an element, may be owned by nobody else.
    assert tape.live - tape.by[GRADIENT] == rows * ROW * 2


@given(programs, st.integers(1, 50), st.booleans())
def test_a_forward_also_tells_the_peak_of_one_that_saves_nothing(
    program: Program, rows: int, autocast: bool
) -> None:
    recorded = a_tape(autocast=autocast)
    recorded.counts_unsaved = True
    unsaving = Tape(autocast=autocast, compute_width=2, recording=False)
    for tape in (recorded, unsaving):
        _run(tape, program, rows * ROW)
    assert (recorded.unsaved_peak, recorded.unsaved_peak_by) == (unsaving.peak, unsaving.peak_by)
    assert recorded.unsaved_casts == unsaving.by[CAST]


@given(programs, st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_arrays_are_counted_as_each_of_their_elements(program: Program, rows: list[int]) -> None:
    def tape_after(tape: Tape, elements: Count) -> Tape:
        tape.counts_unsaved = True
        out = _run(tape, program, elements)
        tape.leave_autocast()
        run_backward(tape, out)
        return tape

    together = tape_after(
        ArrayTape(autocast=False, compute_width=2), np.array(rows, dtype=np.int64) * ROW
    )
    alone = [tape_after(a_tape(), count * ROW) for count in rows]
    assert np.asarray(together.peak).tolist() == [tape.peak for tape in alone]
    assert np.asarray(together.unsaved_peak).tolist() == [tape.unsaved_peak for tape in alone]
    assert np.asarray(together.live).tolist() == [tape.live for tape in alone]


def test_a_gradient_shared_by_addition_is_one_buffer() -> None:
    # d(a + b) is handed to both sides: 16 bytes alive, not 32.
    tape = a_tape()
    a, b = an_input(tape, 8), an_input(tape, 8)
    out = add(tape, a, b)
    tape.drop(a, b)
    run_backward(tape, out)
    gradients: list[Gradient] = [tape.take(a), tape.take(b)]
    assert gradients[0] is gradients[1]
    assert (tape.peak, tape.live) == (16, 16)
