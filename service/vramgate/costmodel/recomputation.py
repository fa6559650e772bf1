"""Recomputation of a part of a block: it keeps its inputs, and runs again when backward comes to it.

Source: Megatron-LM ``core/tensor_parallel/random.py`` (``checkpoint`` and ``CheckpointWithoutOutput``) and
``core/transformer/transformer_config.py`` (``recompute_modules``).
"""

from collections.abc import Callable

from vramgate.costmodel.tape import Tape, Tensor


def recompute(tape: Tape, inputs: tuple[Tensor, ...], run: Callable[[], Tensor]) -> Tensor:
    """Return what ``run`` returns; of what it made, nothing is kept but ``inputs``, which stay the caller's."""
    if not tape.recording:
        return run()
    for tensor in inputs:
        tape.save(tensor)
    tape.recording = False
    out = _run_alone(tape, run)
    tape.recording = True
    out.requires_grad = True
    tape.record_saving(_recompute_backward, out, inputs, run)
    return out


def _run_alone(tape: Tape, run: Callable[[], Tensor]) -> Tensor:
    """Run with a cache of weight casts of its own."""
    outer, tape.casts = tape.casts, {}
    out = run()
    tape.leave_autocast()
    tape.casts = outer
    return out


def _recompute_backward(
    tape: Tape, out: Tensor, inputs: tuple[Tensor, ...], run: Callable[[], Tensor]
) -> None:
    gradient = tape.take(out)
    before = len(tape.operations)
    again = _run_alone(tape, run)
    tape.drop(again)
    again.gradient = gradient
    tape.backward(down_to=before)
    tape.drop(*inputs)
