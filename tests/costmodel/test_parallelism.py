"""The part of a model one rank of a tensor, expert or pipeline group holds, and its micro-batches in flight.

Tensor shares: Shoeybi et al. 2019 (arXiv 1909.08053); norms are on every rank. In flight: Narayanan et al. 2021
(arXiv 2104.04473), Qi et al. 2024 (arXiv 2401.10241), DeepSeek-V3, restated in FORMULAS.md 6.
"""

from typing import Any

import pytest

from tests.costmodel.engine_jobs import (
    ATTENTION_WEIGHTS,
    BLOCK_PARAMETERS,
    HEADS,
    HIDDEN,
    INNER,
    KEY_VALUE,
    LAYERS,
    LINEAR_WEIGHTS,
    PARAMETERS,
    TABLE,
    TOKENS,
    a_job,
    a_step,
    cards,
    estimated,
    highest,
    kept_by_block,
    llama,
)
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.parallelism import PipelineStage, pipeline_stages

MEGATRON: dict[str, Any] = {
    "software": {"framework": "megatron"},
    "sharding": {"implementation": "megatron"},
}
EXPERTS, WIDTH = 4, 512
MIXTRAL = {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
}


def _parallel(devices: int, sizes: dict[str, Any], **fields: Any) -> TrainingJob:  # noqa: ANN401
    return a_job(**{**MEGATRON, "parallelism": sizes, "hardware": cards(devices), **fields})


def _tensor(ranks: int, **fields: Any) -> TrainingJob:  # noqa: ANN401
    sizes = {"tensor_parallel_size": ranks, **fields.pop("parallelism", {})}
    return _parallel(ranks, sizes, **fields)


# -- tensor --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_tensor_rank_holds_its_share_of_every_matrix_and_all_norms(ranks: int) -> None:
    blocks = LAYERS * (LINEAR_WEIGHTS // ranks + 2 * HIDDEN)
    tables = 2 * TABLE // ranks + HIDDEN
    assert a_step(_tensor(ranks)).model.states.parameters == blocks + tables


def test_a_vocabulary_that_does_not_divide_is_rounded_up() -> None:
    states = a_step(_tensor(2, model=llama(vocab_size=1001))).model.outside_states
    assert states.parameters == 2 * 501 * HIDDEN + HIDDEN


@pytest.mark.parametrize(
    ("sequence_parallel", "kept"),
    [
        # The two norms' inputs and outputs are whole on every rank without sequence parallelism.
        (
            False,
            8 * HIDDEN + 8 + (4 * HIDDEN + 4 * KEY_VALUE + 6 * INNER + 4 * HEADS) // 2,
        ),
        (
            True,
            (8 * HIDDEN + 8 + 4 * HIDDEN + 4 * KEY_VALUE + 6 * INNER + 4 * HEADS) // 2,
        ),
    ],
)
def test_a_tensor_rank_keeps_its_heads_and_its_columns(sequence_parallel: bool, kept: int) -> None:
    job = _tensor(2, parallelism={"sequence_parallel": sequence_parallel})
    assert kept_by_block(job) == TOKENS * kept


def test_a_context_rank_keeps_its_half_of_the_sequence() -> None:
    whole = kept_by_block(_parallel(2, {}))
    half = kept_by_block(_parallel(2, {"context_parallel_size": 2}))
    assert half == whole // 2


def test_trainable_parameters_are_the_whole_models() -> None:
    for sizes in ({"tensor_parallel_size": 2}, {"pipeline_parallel_size": 2}):
        estimate = estimated(parallelism=sizes, hardware=cards(2), **MEGATRON)
        assert estimate.trainable_parameters == PARAMETERS == estimate.parameters


# -- experts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_experts_are_dealt_out_whole(ranks: int) -> None:
    job = _parallel(4, {"expert_parallel_size": ranks}, model={"config": MIXTRAL})
    experts = EXPERTS // ranks * 3 * HIDDEN * WIDTH
    block = ATTENTION_WEIGHTS + EXPERTS * HIDDEN + 2 * HIDDEN + experts
    assert a_step(job).model.states.parameters == 2 * block + 2 * TABLE + HIDDEN


def test_balanced_experts_see_as_many_tokens_on_every_rank() -> None:
    # FORMULAS.md 1.4: only the experts' weights are split, tokens a rank average k T.
    kept = {
        kept_by_block(_parallel(4, {"expert_parallel_size": ranks}, model={"config": MIXTRAL}))
        for ranks in (1, 2, 4)
    }
    assert len(kept) == 1


# -- pipelines -----------------------------------------------------------------------------------------------------

PIPELINE, MICRO_BATCHES = 4, 8


def _pipeline(schedule: str = "1f1b", chunks: int = 1, **fields: Any) -> TrainingJob:  # noqa: ANN401
    sizes = {
        "pipeline_parallel_size": PIPELINE,
        "pipeline_schedule": schedule,
        "virtual_pipeline_stages": chunks,
    }
    given = {"gradient_accumulation_steps": MICRO_BATCHES, "model": llama(num_hidden_layers=8)}
    return _parallel(PIPELINE, sizes, **{**given, **fields})


def _ends(job: TrainingJob) -> tuple[PipelineStage, PipelineStage]:
    first, last = pipeline_stages(job)
    return first, last


@pytest.mark.parametrize(
    ("schedule", "first", "last"),
    [
        ("1f1b", PIPELINE, 1),
        ("gpipe", MICRO_BATCHES, MICRO_BATCHES),
        ("zero_bubble", PIPELINE, 1),
        ("zero_bubble_v", PIPELINE, PIPELINE),
        ("dualpipe", PIPELINE + 1, PIPELINE + 1),
    ],
)
def test_micro_batches_in_flight(schedule: str, first: int, last: int) -> None:
    stages = _ends(_pipeline(schedule))
    assert tuple(stage.in_flight for stage in stages) == (first, last)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero_bubble_v", "dualpipe"])
def test_no_more_are_in_flight_than_there_are(schedule: str) -> None:
    first, _ = _ends(_pipeline(schedule, gradient_accumulation_steps=2))
    assert first.in_flight == 2


@pytest.mark.parametrize("chunks", [2, 4])
def test_interleaving_adds_to_the_first_stage(chunks: int) -> None:
    # Megatron: p (1 + (p - 1) / (p v)) micro-batches' worth of the stage on the first, in chunks v times as many;
    # in general (p (v - 1) + 2 (p - i) - 1) chunks on stage i.
    model = llama(num_hidden_layers=16)
    first, last = _ends(_pipeline("interleaved", chunks, model=model))
    assert first.chunks == chunks
    assert first.in_flight == PIPELINE * chunks + PIPELINE - 1
    assert last.in_flight == PIPELINE * (chunks - 1) + 1


def test_one_stage_is_the_whole_model() -> None:
    (only,) = pipeline_stages(a_job())
    assert (only.first, only.last, only.in_flight, only.stop) == (True, True, 1, None)


def test_the_first_stage_has_the_embedding_and_the_last_the_head() -> None:
    job = _pipeline()
    first, last = (a_step(job, stage).model for stage in _ends(job))
    assert set(first.outside) == {"embedding"}
    assert set(last.outside) == {"final_norm", "head"}
    assert first.states.parameters == 2 * BLOCK_PARAMETERS + TABLE
    assert last.states.parameters == 2 * BLOCK_PARAMETERS + TABLE + HIDDEN


def test_a_tied_embedding_is_on_both_ends() -> None:
    job = _pipeline(model=llama(num_hidden_layers=8, tie_word_embeddings=True))
    for stage in _ends(job):
        assert a_step(job, stage).model.outside["embedding"].elements == TABLE


def test_layers_that_do_not_divide_leave_the_last_stage_fewer() -> None:
    job = _pipeline(model=llama(num_hidden_layers=7))
    counts = [sum(count for count, _ in a_step(job, stage).model.layers) for stage in _ends(job)]
    assert counts == [2, 1]


def test_a_stage_keeps_every_micro_batch_in_flight() -> None:
    # Two layers a stage: four micro-batches of a long step against the two that a short one has.
    per_layer = kept_by_block(_pipeline())
    kept = [
        highest(a_step(job, _ends(job)[0]), Phase.BACKWARD).components[Component.ACTIVATIONS]
        for job in (_pipeline(), _pipeline(gradient_accumulation_steps=2))
    ]
    assert kept[0] - kept[1] == (4 - 2) * 2 * per_layer


def test_only_the_last_stage_computes_a_loss() -> None:
    job = _pipeline()
    phases = [
        {moment.phase for moment in a_step(job, stage).ledger.moments} for stage in _ends(job)
    ]
    assert Phase.LOSS not in phases[0]
    assert Phase.LOSS in phases[1]


def test_the_worst_stage_is_named() -> None:
    assert estimated().peak.rank == "any rank"
    wide = llama(num_hidden_layers=8, vocab_size=200_000)
    sizes = {"pipeline_parallel_size": PIPELINE}
    fields = {"parallelism": sizes, "hardware": cards(PIPELINE), "gradient_accumulation_steps": 8}
    # 12 bytes for each of 200 000 logits against three more micro-batches of two small layers.
    assert estimated(model=wide, **fields).peak.rank == "pipeline stage 3"
    deep = llama(num_hidden_layers=32, vocab_size=100)
    assert estimated(model=deep, **fields).peak.rank == "pipeline stage 0"
