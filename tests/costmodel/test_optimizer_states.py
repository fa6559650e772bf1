"""Bytes of optimizer states by each optimizer's paper or library, and what its step needs for a moment.

m × n are the sides of a weight, m the shorter; N = m n.
"""

from typing import Any

import pytest

from tests.costmodel.engine_jobs import (
    HIDDEN,
    NEWEST,
    PARAMETERS,
    VOCABULARY,
    a_job,
    a_step,
    estimated,
    held,
)
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.components.optimizer_states import (
    Trained,
    state_bytes,
)
from vramgate.costmodel.job import Optimizer, OptimizerName

SHORT, LONG = 128, 512
N = SHORT * LONG
MATRIX = Trained(elements=N, rows=LONG, columns=SHORT, width=4)
TABLE = Trained(elements=N, rows=LONG, columns=SHORT, width=4, embedding=True)
VECTOR = Trained(elements=5000, rows=1, columns=5000, width=4)
RANK = 8

BYTES = {
    # A full state has the parameter's format (fp32 here).
    OptimizerName.ADAMW: 2 * 4 * N,
    OptimizerName.PAGED_ADAMW: 2 * 4 * N,
    OptimizerName.SGD: 0,
    OptimizerName.SGD_MOMENTUM: 4 * N,
    OptimizerName.LION: 4 * N,
    OptimizerName.ADAGRAD: 4 * N,
    OptimizerName.RMSPROP: 4 * N,
    # LOMO updates as gradients come, without states (arXiv 2306.09782).
    OptimizerName.LOMO: 0,
    # bitsandbytes: a byte an element and an fp32 scale for each 256.
    OptimizerName.ADAMW_8BIT: 2 * (N + 4 * N // 256),
    OptimizerName.PAGED_ADAMW_8BIT: 2 * (N + 4 * N // 256),
    OptimizerName.LION_8BIT: N + 4 * N // 256,
    OptimizerName.PAGED_LION_8BIT: N + 4 * N // 256,
    # torchao: blocks of 128 for 4 bits, of 256 for fp8.
    OptimizerName.ADAMW_4BIT: 2 * (N // 2 + 4 * N // 128),
    OptimizerName.ADAMW_FP8: 2 * (N + 4 * N // 256),
    # Rows and columns alone (Shazeer & Stern 2018).
    OptimizerName.ADAFACTOR: 4 * (SHORT + LONG),
    # One momentum of a matrix (Jordan 2024).
    OptimizerName.MUON: 4 * N,
    # Two statistics of each side; SOAP with Adam's moments in their basis (arXiv 2409.11321), Shampoo with grafting.
    OptimizerName.SOAP: 4 * (2 * SHORT**2 + 2 * LONG**2 + 2 * N),
    OptimizerName.SHAMPOO: 4 * (2 * SHORT**2 + 2 * LONG**2 + N),
    # m r + 2 n r (arXiv 2403.03507), the moments in bytes with 8 bits.
    OptimizerName.GALORE_ADAMW: 4 * (SHORT * RANK + 2 * LONG * RANK),
    OptimizerName.GALORE_ADAMW_8BIT: 4 * SHORT * RANK + 2 * LONG * RANK,
    # 2 n r + 2, and 2 n + 2 (arXiv 2412.05270, table 1).
    OptimizerName.APOLLO: 4 * (2 * LONG * RANK + 2),
    OptimizerName.APOLLO_MINI: 4 * (2 * LONG + 2),
}


@pytest.mark.parametrize("name", OptimizerName)
def test_states_of_a_matrix(name: OptimizerName) -> None:
    assert state_bytes(Optimizer(name=name, rank=RANK), MATRIX, state_width=4) == BYTES[name]


@pytest.mark.parametrize("name", OptimizerName)
def test_states_do_not_depend_on_which_side_is_longer(name: OptimizerName) -> None:
    turned = Trained(elements=N, rows=SHORT, columns=LONG, width=4)
    assert state_bytes(Optimizer(name=name, rank=RANK), turned, state_width=4) == BYTES[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # What factorises matrices keeps Adam's two states of a vector, Adafactor one.
        (OptimizerName.MUON, 2 * 4 * 5000),
        (OptimizerName.SOAP, 2 * 4 * 5000),
        (OptimizerName.APOLLO, 2 * 4 * 5000),
        (OptimizerName.APOLLO_MINI, 2 * 4 * 5000),
        (OptimizerName.GALORE_ADAMW, 2 * 4 * 5000),
        (OptimizerName.ADAFACTOR, 4 * 5000),
        # The last block is not full: 20 scales.
        (OptimizerName.ADAMW_8BIT, 2 * (5000 + 4 * 20)),
        (OptimizerName.ADAMW_4BIT, 2 * (2500 + 4 * 40)),
    ],
)
def test_states_of_a_vector(name: OptimizerName, expected: int) -> None:
    assert state_bytes(Optimizer(name=name, rank=RANK), VECTOR, state_width=4) == expected


@pytest.mark.parametrize(("elements", "expected"), [(4095, 4 * 4095), (4096, 4096 + 4 * 16)])
def test_bitsandbytes_keeps_small_tensors_in_fp32(elements: int, expected: int) -> None:
    small = Trained(elements=elements, rows=1, columns=elements, width=2)
    lion = Optimizer(name=OptimizerName.LION_8BIT)
    assert state_bytes(lion, small, state_width=2) == expected


def test_states_of_a_16_bit_parameter_take_half() -> None:
    assert state_bytes(Optimizer(), MATRIX, state_width=2) == 2 * 2 * N


def test_muon_leaves_embeddings_to_adam() -> None:
    assert state_bytes(Optimizer(name=OptimizerName.MUON), TABLE, state_width=4) == 2 * 4 * N


def test_a_projection_is_never_wider_than_the_short_side() -> None:
    wide = Optimizer(name=OptimizerName.GALORE_ADAMW, rank=10 * SHORT)
    assert state_bytes(wide, MATRIX, state_width=4) == 4 * (SHORT**2 + 2 * LONG * SHORT)


def test_q_galore_stores_its_projector_in_bytes() -> None:
    quantized = Optimizer(name=OptimizerName.GALORE_ADAMW_8BIT, rank=RANK, quantized=True)
    assert state_bytes(quantized, MATRIX, state_width=4) == SHORT * RANK + 2 * LONG * RANK


# -- the step ------------------------------------------------------------------------------------------------------


def _temporary(optimizer: dict[str, Any], stack: str = NEWEST) -> int:
    """Return what the step of the small Llama in fp32 needs for a moment."""
    job = a_job(
        precision="fp32",
        optimizer=optimizer,
        attention="eager",
        software={"framework": "transformers", "stack": stack},
    )
    return held(job, Phase.OPTIMIZER_STEP, Component.TEMPORARIES)


@pytest.mark.parametrize(
    ("implementation", "stack", "expected"),
    [
        # ORACLE.md: one extra tensor of the gradients' size; none.
        ("foreach", NEWEST, 4 * PARAMETERS),
        ("foreach", "torch 2.1", 4 * PARAMETERS),
        ("fused", NEWEST, 0),
        # Up to torch 2.0 the square roots were divided out of place.
        ("foreach", "torch 2.0", 8 * PARAMETERS),
        ("foreach", "torch 1.13", 8 * PARAMETERS),
    ],
)
def test_adamws_step(implementation: str, stack: str, expected: int) -> None:
    assert _temporary({"name": "adamw", "implementation": implementation}, stack) == expected


def test_the_loop_takes_two_of_the_largest_parameter() -> None:
    # The square root and its quotient (ORACLE.md), and at most what the parameter before has left.
    tables = 4 * VOCABULARY * HIDDEN
    temporary = _temporary({"name": "adamw", "implementation": "for_loop"})
    assert 2 * tables <= temporary <= 2 * tables + 4 * HIDDEN


@pytest.mark.parametrize(
    "name",
    [
        "sgd",
        "sgd_momentum",
        "lion",
        "lion_8bit",
        "adamw_8bit",
        "paged_adamw",
        "paged_adamw_8bit",
        "adamw_4bit",
        "adamw_fp8",
        "lomo",
    ],
)
def test_steps_that_update_in_place_need_nothing(name: str) -> None:
    assert _temporary({"name": name}) == 0


@pytest.mark.parametrize("name", ["muon", "shampoo", "soap", "adafactor"])
def test_matrix_steps_work_on_one_weight_at_a_time(name: str) -> None:
    # Newton-Schulz needs about three copies of the largest matrix (FORMULAS.md 4).
    assert _temporary({"name": name}) == 3 * 4 * VOCABULARY * HIDDEN


def test_in_backward_the_step_sees_one_tensor_at_a_time() -> None:
    in_backward = {"name": "adamw", "implementation": "foreach", "in_backward": True}
    assert _temporary(in_backward) == 4 * VOCABULARY * HIDDEN


# -- on a whole model ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "optimizer", "per_parameter"),
    [
        ("fp32", "adamw", 8),
        ("bf16-true", "adamw", 4),
        ("bf16-mixed", "adamw", 8),
        ("bf16-master", "adamw", 8),
        ("bf16-true", "lion", 2),
        ("fp32", "sgd_momentum", 4),
        ("fp32", "sgd", 0),
    ],
)
def test_states_of_a_whole_model(precision: str, optimizer: str, per_parameter: int) -> None:
    states = a_step(a_job(precision=precision, optimizer=optimizer)).model.states
    assert states.optimizer == per_parameter * PARAMETERS
    assert states.master == (4 * PARAMETERS if precision == "bf16-master" else 0)


def test_paged_states_are_the_hosts() -> None:
    estimate = estimated(precision="fp32", optimizer="paged_adamw")
    assert estimate.host_bytes == 8 * PARAMETERS
    assert all(Component.OPTIMIZER_STATES not in phase.components for phase in estimate.timeline)


def test_foreachs_temporary_stands_on_gradients_and_states() -> None:
    # 4 + 4 + 8 + 4 bytes a parameter, the rotary frequencies twice (32 numbers), ids and labels of 128 tokens.
    fields = {"precision": "fp32", "optimizer": {"name": "adamw", "implementation": "foreach"}}
    (step,) = (p for p in estimated(**fields).timeline if p.phase is Phase.OPTIMIZER_STEP)
    assert step.allocated_bytes == 20 * PARAMETERS + 2 * 32 * 4 + 128 * 16
    assert step.components[Component.TEMPORARIES] == 4 * PARAMETERS
