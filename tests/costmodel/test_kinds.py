"""Kinds of layers made once, and layers that come round again passed in rounds: nothing of it shows in an answer."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.costmodel.engine_jobs import LLAMA, a_job, a_step, cards, highest
from vramgate.costmodel.architecture import Stack
from vramgate.costmodel.breakdown import Phase
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.kinds import LayerKinds, Round, rounds_of
from vramgate.costmodel.moments import Moment
from vramgate.costmodel.parallelism import pipeline_stages
from vramgate.costmodel.step import Step

PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP)
_LETTERS = {"s": "sliding_attention", "f": "full_attention"}
_ORDERS = st.text("sf", min_size=2, max_size=24) | st.builds(
    lambda text, times: text * times, st.text("sf", min_size=1, max_size=6), st.integers(2, 5)
)
"""Orders of layers as they come, and such that repeat themselves."""


def _mixed_layers(order: str, **fields: Any) -> TrainingJob:  # noqa: ANN401 whatever JSON holds
    """Return a job whose layers see a window (s) or everything (f)."""
    config = {
        **LLAMA,
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        "num_hidden_layers": len(order),
        "layer_types": [_LETTERS[letter] for letter in order],
        "sliding_window": 64,
        "head_dim": 64,
    }
    return a_job(model={"config": config}, **fields)


class _OneByOne(LayerKinds):
    """The same layers, every run of them passed by itself."""

    def rounds(self, stack: Stack, *, start: int = 0, stop: int | None = None) -> Iterator[Round]:
        for each in LayerKinds.rounds(self, stack, start=start, stop=stop):
            for _ in range(each.times):
                yield from (Round(runs=(run,), times=1) for run in each.runs)


def _highest(job: TrainingJob, kinds: LayerKinds) -> list[Moment]:
    """Return the highest moment of each phase, of each stage in turn."""
    found: list[Moment] = []
    for stage in pipeline_stages(job):
        step = Step(job, stage, kinds)
        step.run()
        found.extend(highest(step, phase) for phase in PHASES)
    return found


@given(st.lists(st.integers(0, 3), max_size=60))
def test_rounds_unrolled_are_the_layers_in_their_order(layers: list[int]) -> None:
    unrolled = [
        run.kind
        for runs, times in rounds_of(tuple(layers))
        for _ in range(times)
        for run in runs
        for _ in range(run.number)
    ]
    assert unrolled == layers


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("a" * 32, [(1, 1)]),
        ("ab" * 21, [(2, 21)]),  # Gemma 2
        ("aaaaab" * 10 + "aa", [(2, 10), (1, 1)]),  # Gemma 3 27B
        ("abababcb" * 4, [(8, 4)]),
        ("abc", [(1, 1), (1, 1), (1, 1)]),
    ],
)
def test_the_longest_stretch_of_rounds_is_found(
    order: str, expected: list[tuple[int, int]]
) -> None:
    found = rounds_of(tuple(ord(letter) for letter in order))
    assert [(len(runs), times) for runs, times in found] == expected


@given(
    order=_ORDERS,
    fields=st.fixed_dictionaries(
        {
            "method": st.sampled_from(
                [
                    "full",
                    {"kind": "lora", "rank": 8, "target_modules": "all-linear"},
                    {"kind": "freeze", "trainable_layers": 1},
                ]
            ),
            "precision": st.sampled_from(["bf16-true", "bf16-mixed", "bf16-master"]),
            "attention": st.sampled_from(["sdpa", "eager"]),
            "activation_checkpointing": st.sampled_from(
                ["none", "full", {"mode": "full", "offload": True}]
            ),
            "gradient_accumulation_steps": st.sampled_from([1, 4]),
            "sequence_length": st.sampled_from([16, 256]),
        }
    ),
    sharding=st.sampled_from(
        [
            {},
            {"implementation": "fsdp"},
            {"implementation": "fsdp2", "reshard_after_forward": False},
            {"implementation": "deepspeed", "zero_stage": 2},
        ]
    ),
)
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
def test_rounds_peak_where_their_layers_one_by_one_do(
    order: str, fields: dict[str, Any], sharding: dict[str, Any]
) -> None:
    note(f"{order} {fields} {sharding}")
    given_fields = {**fields, "sharding": sharding, "hardware": cards(4)} if sharding else fields
    job = _mixed_layers(order, **given_fields)
    together = _highest(job, LayerKinds(job))
    for one, other in zip(together, _highest(job, _OneByOne(job)), strict=True):
        assert (one.label, one.components) == (other.label, other.components)


def test_layers_that_differ_in_a_window_alone_are_replayed_once_where_it_shows_in_no_tensor() -> (
    None
):
    # sdpa takes another kernel for a window that the row reaches; eager code masks its scores either way.
    replays = {
        attention: len(
            {
                id(piece.segment)
                for piece in a_step(_mixed_layers("sfsf", attention=attention)).ledger.pieces
            }
        )
        for attention in ("eager", "sdpa")
    }
    assert replays == {"eager": 1, "sdpa": 2}


def test_stages_that_share_their_kinds_answer_as_each_alone() -> None:
    job = a_job(
        model={"config": {**LLAMA, "num_hidden_layers": 8}},
        hardware=cards(4),
        parallelism={"pipeline_parallel_size": 4},
        gradient_accumulation_steps=8,
    )
    shared = _highest(job, LayerKinds(job))
    alone = [
        highest(a_step(job, stage), phase) for stage in pipeline_stages(job) for phase in PHASES
    ]
    for one, other in zip(shared, alone, strict=True):
        assert (one.label, one.components) == (other.label, other.components)
