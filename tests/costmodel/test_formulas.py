"""The bill checked by hand: the arithmetic a line shows gives the line's bytes."""

import re
from fractions import Fraction
from math import ceil
from typing import Any

import pytest

from tests.costmodel.engine_jobs import cards, estimated
from vramgate.costmodel.breakdown import BillLine, Component

MIXTRAL = {"name": "mistralai/Mixtral-8x7B-v0.1"}
MEGATRON = {
    "software": {"framework": "megatron"},
    "sharding": {"implementation": "megatron", "zero_stage": 1},
}
DEEPSPEED = {"implementation": "deepspeed", "zero_stage": 3}

TERM = re.compile(
    r"(?P<first>[\d,]+) (?:trainable parameters(?: of experts)? × (?P<each>\d+) bytes|bytes for [\d,]+ [a-z ]+)"
    r"(?: \(\w+\))?(?: ÷ (?P<ranks>\d+) ranks)?"
)
ON_CARD = re.compile(r", (?P<share>[\d.]+) of it on the card$")


def _by_hand(formula: str) -> int:
    """Return what a reader with a calculator gets."""
    left = ON_CARD.search(formula)
    share = Fraction(left["share"]) if left else Fraction(1)
    total = 0
    for text in ON_CARD.sub("", formula).split(" + "):
        term = TERM.fullmatch(text)
        assert term is not None, text
        size = int(term["first"].replace(",", "")) * int(term["each"] or 1)
        total += ceil(Fraction(size, int(term["ranks"] or 1)))
    return int(total * share)


def _line(component: Component, lines: tuple[BillLine, ...]) -> BillLine:
    (found,) = [line for line in lines if line.component is component]
    return found


JOBS = [
    pytest.param({}, id="one-card"),
    pytest.param({"precision": "bf16-master"}, id="master"),
    pytest.param({"precision": "bf16-mixed", "method": "lora"}, id="adapters"),
    pytest.param({"optimizer": "adamw_8bit"}, id="blocks-of-8-bits"),
    pytest.param({"sharding": {"implementation": "fsdp"}, "hardware": cards(4)}, id="fsdp"),
    pytest.param(
        {"precision": "bf16-master", "sharding": DEEPSPEED, "hardware": cards(8)}, id="zero-3"
    ),
    pytest.param(
        {
            "precision": "bf16-master",
            "sharding": DEEPSPEED | {"offload_optimizer": "cpu", "offload_fraction": 0.75},
            "hardware": cards(8),
        },
        id="a-part-offloaded",
    ),
    pytest.param(
        {
            "model": MIXTRAL,
            "precision": "bf16-master",
            "parallelism": {"expert_parallel_size": 8},
            "hardware": cards(16),
            **MEGATRON,
        },
        id="experts-dealt-out",
    ),
    pytest.param(
        {
            "model": MIXTRAL,
            "precision": "bf16-master",
            "parallelism": {"expert_parallel_size": 4},
            "sharding": DEEPSPEED,
            "hardware": cards(8),
        },
        id="experts-dealt-out-zero-3",
    ),
]
STATES = (Component.OPTIMIZER_STATES, Component.MASTER_WEIGHTS)


@pytest.mark.parametrize("fields", JOBS)
def test_the_formulas_of_states_give_their_bytes(fields: dict[str, Any]) -> None:
    bill = estimated(**fields).bill
    checked = [line for line in bill if line.component in STATES]
    assert checked
    for line in checked:
        assert _by_hand(line.formula) == line.bytes, line.formula


@pytest.mark.parametrize(
    ("fields", "each"),
    [
        ({"precision": "bf16-master", "gradient_accumulation_steps": 2}, 4),
        ({"precision": "bf16-true", "gradient_accumulation_steps": 2}, 2),
        ({"precision": "fp32", "gradient_accumulation_steps": 2}, 4),
    ],
)
def test_gradients_at_rest_are_told_in_their_own_width(fields: dict[str, Any], each: int) -> None:
    # fp32 gradients beside a master copy of 16-bit weights, else the weights' own format.
    if fields["precision"] == "bf16-master":
        fields = {
            **fields,
            "precision": {
                "weights": "bf16",
                "compute": "bf16",
                "master_weights": True,
                "gradients": "fp32",
            },
        }
    line = _line(Component.GRADIENTS, estimated(**fields).bill)
    assert f"× {each} bytes" in line.formula
    assert _by_hand(line.formula) == line.bytes


def test_mixtrals_experts_are_shared_over_two_replicas() -> None:
    # 16 cards, 8 expert-parallel ranks: 32 layers × 3 × 4096 × 14336 of one expert each, over 16 / 8 replicas.
    fields = {"model": MIXTRAL, "precision": "bf16-master", "hardware": cards(16), **MEGATRON}
    line = _line(
        Component.OPTIMIZER_STATES,
        estimated(**fields, parallelism={"expert_parallel_size": 8}).bill,
    )
    expert = 32 * 3 * 4096 * 14336
    assert f"{expert:,} trainable parameters of experts × 8 bytes (adamw) ÷ 2 ranks" in line.formula
