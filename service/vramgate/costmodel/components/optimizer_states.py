"""Bytes of optimizer states, and what an optimizer's step needs for a moment.

Sources: PyTorch ``optim`` (2.13), bitsandbytes (block-wise 8-bit states, 256 elements a block; tensors under 4096
elements stay in fp32), torchao (4-bit and 8-bit states), Shazeer & Stern 2018 (Adafactor), Zhao et al. 2024 (GaLore,
arXiv 2403.03507), Zhu et al. 2024 (APOLLO, arXiv 2412.05270), Jordan 2024 (Muon), Vyas et al. 2024 (SOAP,
arXiv 2409.11321).
"""

from typing import NamedTuple

from vramgate.costmodel.job import Optimizer, OptimizerName
from vramgate.units import Bytes, ceil_div

FP32_BYTES = 4
EIGHT_BIT_BLOCK = 256
FOUR_BIT_BLOCK = 128
KEPT_IN_FP32_BELOW = 4096
"""bitsandbytes leaves states of smaller tensors in fp32 (``min_8bit_size``)."""

PAGED = frozenset(
    {
        OptimizerName.PAGED_ADAMW,
        OptimizerName.PAGED_ADAMW_8BIT,
        OptimizerName.PAGED_LION_8BIT,
    }
)
"""States in CUDA managed memory: they are not the allocator's, and can leave the card."""


class Trained(NamedTuple):
    """One tensor that trains: its shape as a matrix (rows = 1 for vectors), and bytes of its format."""

    elements: int
    rows: int
    columns: int
    width: int
    embedding: bool = False


def full_states(optimizer: Optimizer) -> int | None:
    """Return how many full-size states an optimizer has of each parameter, None where states have other sizes."""
    return _FULL_STATES.get(optimizer.name)


def state_bytes(optimizer: Optimizer, trained: Trained, *, state_width: int) -> int:
    """Return the bytes of the states of one tensor between steps.

    ``state_width``: bytes of an element of a full-size state (the parameter's format, or fp32 beside a master copy).
    """
    name = optimizer.name
    elements = trained.elements
    if name in _FULL_STATES:
        return _FULL_STATES[name] * state_width * elements
    if name in _EIGHT_BIT_STATES:
        return _EIGHT_BIT_STATES[name] * _eight_bit_bytes(trained)
    if name is OptimizerName.ADAMW_4BIT:
        return 2 * (ceil_div(elements, 2) + FP32_BYTES * ceil_div(elements, FOUR_BIT_BLOCK))
    if name is OptimizerName.ADAMW_FP8:
        return 2 * (elements + FP32_BYTES * ceil_div(elements, EIGHT_BIT_BLOCK))
    return _factored_bytes(optimizer, trained, state_width)


_FULL_STATES = {
    OptimizerName.SGD: 0,
    OptimizerName.LOMO: 0,
    OptimizerName.ADAMW: 2,
    OptimizerName.PAGED_ADAMW: 2,
    OptimizerName.SGD_MOMENTUM: 1,
    OptimizerName.LION: 1,
    OptimizerName.ADAGRAD: 1,
    OptimizerName.RMSPROP: 1,
}
"""Full-size states an element."""

_EIGHT_BIT_STATES = {
    OptimizerName.ADAMW_8BIT: 2,
    OptimizerName.PAGED_ADAMW_8BIT: 2,
    OptimizerName.LION_8BIT: 1,
    OptimizerName.PAGED_LION_8BIT: 1,
}


def _eight_bit_bytes(trained: Trained) -> int:
    """Return one 8-bit state: a byte an element and an fp32 scale a block; fp32 for small tensors."""
    elements = trained.elements
    if elements < KEPT_IN_FP32_BELOW:
        return FP32_BYTES * elements
    return elements + FP32_BYTES * ceil_div(elements, EIGHT_BIT_BLOCK)


def _factored_bytes(optimizer: Optimizer, trained: Trained, state_width: int) -> int:
    """Return states that live in a matrix's rows and columns; vectors keep full-size Adam states."""
    name = optimizer.name
    short, long = sorted((trained.rows, trained.columns))
    one = state_width * trained.elements
    vector = trained.rows == 1
    if name is OptimizerName.SHAMPOO:
        return FP32_BYTES * 2 * (short * short + long * long) + one
    if name is OptimizerName.ADAFACTOR:
        return FP32_BYTES * (trained.elements if vector else short + long)
    if vector:
        return 2 * one
    if name is OptimizerName.MUON:
        return 2 * one if trained.embedding else one
    if name is OptimizerName.SOAP:
        return FP32_BYTES * 2 * (short * short + long * long) + 2 * one
    if name is OptimizerName.APOLLO_MINI:
        return state_width * (2 * long + 2)
    rank = short if optimizer.rank is None else min(optimizer.rank, short)
    if name is OptimizerName.APOLLO:
        return state_width * (2 * long * rank + 2)
    projector = short * rank * (1 if optimizer.quantized else state_width)
    if name is OptimizerName.GALORE_ADAMW:
        return projector + 2 * long * rank * state_width
    if name is OptimizerName.GALORE_ADAMW_8BIT:
        return projector + 2 * long * rank
    message = f"no rule for optimizer {name}"
    raise AssertionError(message)


TWO_FOREACH_TEMPORARIES_UNTIL = (2, 0)
"""Up to here ``_multi_tensor_adamw`` divided the square roots out of place: two temporaries of a state's size."""


def step_temporary_bytes(
    optimizer: Optimizer,
    *,
    all_states_bytes: Bytes,
    largest_bytes: Bytes,
    largest_update_bytes: Bytes,
    torch_version: tuple[int, int],
) -> Bytes:
    """Return what the step needs beside weights, gradients and states.

    ``all_states_bytes``: one full-size state of everything that trains; ``largest_bytes``: one of the largest tensor;
    ``largest_update_bytes``: the most that a loop holds, two states of one tensor and one of the tensor before it.
    The foreach implementation takes the square root of all second moments at once; the loop, of one at a time,
    and divides it (two temporaries); fused kernels need none.
    """
    name = optimizer.name
    if optimizer.in_backward:
        all_states_bytes = largest_bytes
    if name in _OWN_KERNELS:
        return 0 * all_states_bytes
    if name is OptimizerName.ADAFACTOR:
        return 3 * largest_bytes
    if name in {OptimizerName.MUON, OptimizerName.SHAMPOO, OptimizerName.SOAP}:
        return 3 * largest_bytes
    if name in {OptimizerName.SGD, OptimizerName.SGD_MOMENTUM, OptimizerName.LION}:
        return 0 * all_states_bytes
    if optimizer.implementation == "foreach":
        return (2 if torch_version <= TWO_FOREACH_TEMPORARIES_UNTIL else 1) * all_states_bytes
    if optimizer.implementation == "fused":
        return 0 * all_states_bytes
    return largest_update_bytes


_OWN_KERNELS = frozenset(_EIGHT_BIT_STATES) | {
    OptimizerName.ADAMW_4BIT,
    OptimizerName.ADAMW_FP8,
    OptimizerName.PAGED_ADAMW,
    OptimizerName.LOMO,
}
"""Optimizers whose kernels update in place (bitsandbytes, torchao compiled)."""
