"""What data-parallel sharding leaves on a rank, what it gathers, what it sends.

Shares: Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054), section 3 and figure 1. Units: FSDP gathers the root for the
step and two blocks while one runs. Buckets: DeepSpeed ``zero/config.py`` in elements, DDP a copy of every gradient.
"""

from typing import Any

import pytest

from tests.costmodel.engine_jobs import (
    BLOCK_PARAMETERS,
    HIDDEN,
    LAYERS,
    PARAMETERS,
    TABLE,
    a_job,
    a_step,
    cards,
    estimated,
    held,
    highest,
    llama,
)
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.job import TrainingJob

STATES = (
    Component.WEIGHTS,
    Component.GRADIENTS,
    Component.MASTER_WEIGHTS,
    Component.OPTIMIZER_STATES,
)
OUTSIDE = 2 * TABLE + HIDDEN
"""Parameters outside the blocks: the root unit."""


def _deepspeed(stage: int, devices: int = 4, **fields: Any) -> TrainingJob:  # noqa: ANN401
    sharding = {"implementation": "deepspeed", "zero_stage": stage, **fields.pop("sharding", {})}
    return a_job(sharding=sharding, hardware=cards(devices), **fields)


def _fsdp(implementation: str = "fsdp2", devices: int = 4, **fields: Any) -> TrainingJob:  # noqa: ANN401
    sharding = {"implementation": implementation, **fields.pop("sharding", {})}
    return a_job(sharding=sharding, hardware=cards(devices), **fields)


@pytest.mark.parametrize(
    ("stage", "gigabytes"),
    [
        # 16 N; 4 N + 12 N / 64; 2 N + 14 N / 64; 16 N / 64.
        (0, 120.0),
        (1, 31.4),
        (2, 16.6),
        (3, 1.9),
    ],
)
def test_figure_1_of_the_zero_paper(stage: int, gigabytes: float) -> None:
    job = _deepspeed(
        stage, devices=64, model={"parameters": 7_500_000_000}, precision="bf16-master"
    )
    assert round(held(job, Phase.OPTIMIZER_STEP, *STATES) / 1e9, 1) == gigabytes


@pytest.mark.parametrize("devices", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_each_stage_shares_one_thing_more(stage: int, devices: int) -> None:
    # Shares round up.
    plan = a_step(_deepspeed(stage, devices)).plan
    share = -(-1000 // devices)
    assert plan.optimizer_share(1000) == (share if stage >= 1 else 1000)
    assert plan.gradients_share(1000) == (share if stage >= 2 else 1000)
    assert plan.weights_share(1000) == (share if stage >= 3 else 1000)


def test_ranks_together_hold_all_states() -> None:
    for devices in (2, 3, 5):
        model = a_step(_deepspeed(3, devices)).model
        plan = a_step(_deepspeed(3, devices)).plan
        assert 0 <= devices * plan.weights_share(model.states.weights) - 2 * PARAMETERS < devices


def test_hybrid_sharding_spreads_over_its_group_alone() -> None:
    job = _fsdp(devices=8, sharding={"shard_group_size": 2})
    assert a_step(job).plan.ranks == 2
    weights = held(job, Phase.LOAD, Component.WEIGHTS)
    assert weights == PARAMETERS + 2 * 32 * 4  # 2 bytes ÷ 2 ranks; the rotary frequencies, twice


def test_context_parallel_ranks_share_the_states_too() -> None:
    job = a_job(
        hardware=cards(8),
        parallelism={"context_parallel_size": 2, "tensor_parallel_size": 2},
        sharding={"implementation": "fsdp2"},
    )
    assert a_step(job).plan.ranks == 4  # 8 devices over 2 tensor ranks


def _most_buffers(job: TrainingJob) -> int:
    moments = a_step(job).ledger.moments
    return max(int(one.components.get(Component.COMMUNICATION_BUFFERS, 0)) for one in moments)


def test_ddp_holds_every_gradient_twice_in_backward() -> None:
    job = a_job(hardware=cards(2), sharding={"implementation": "ddp"})
    assert _most_buffers(job) == 2 * PARAMETERS


def test_ddps_buckets_hold_only_what_trains() -> None:
    lora = {
        "kind": "lora",
        "rank": 8,
        "target_modules": ["q_proj", "v_proj"],
        "adapter_dtype": "fp32",
    }
    job = a_job(method=lora, hardware=cards(2), sharding={"implementation": "ddp"})
    # A and B: rank × (in + out), of q (256 to 256) and v (256 to 128), in fp32.
    adapters = LAYERS * 8 * ((256 + 256) + (256 + 128))
    assert _most_buffers(job) == 4 * adapters


@pytest.mark.parametrize(("stage", "buffers"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_deepspeeds_reduction_bucket_stands_twice_where_it_overlaps(
    stage: int, buffers: int
) -> None:
    # overlap_comm is on in stage 3 alone; 2 bytes an element.
    job = _deepspeed(stage, sharding={"buckets": {"reduce_elements": 12_345}} if stage else {})
    step = a_step(job)
    assert step.plan.standing_buffer_bytes == buffers * 2 * 12_345


@pytest.mark.parametrize(
    ("live", "prefetched", "gathered"),
    [(1000, 500, 1500), (10**9, 0, PARAMETERS), (1, PARAMETERS, PARAMETERS)],
)
def test_zero_3_keeps_at_most_its_live_parameters_gathered(
    live: int, prefetched: int, gathered: int
) -> None:
    buckets = {"max_live_elements": live, "prefetch_elements": prefetched}
    moment = highest(a_step(_deepspeed(3, sharding={"buckets": buckets})), Phase.LOSS)
    assert moment.components[Component.GATHERED_PARAMETERS] == 2 * gathered


def test_zero_2_gathers_nothing() -> None:
    assert held(_deepspeed(2), Phase.BACKWARD, Component.GATHERED_PARAMETERS) == 0


@pytest.mark.parametrize("implementation", ["fsdp", "fsdp2"])
def test_fsdp_gathers_its_root_and_two_blocks(implementation: str) -> None:
    step = a_step(_fsdp(implementation))
    for phase, blocks in ((Phase.LOSS, 0), (Phase.FORWARD, 2), (Phase.BACKWARD, 2)):
        gathered = highest(step, phase).components[Component.GATHERED_PARAMETERS]
        assert gathered == 2 * (OUTSIDE + blocks * BLOCK_PARAMETERS)


def test_reentrant_checkpointing_gathers_one_block_in_backward() -> None:
    checkpointing = {"mode": "full", "reentrant": True}
    plan = a_step(_fsdp("fsdp", activation_checkpointing=checkpointing)).plan
    assert (plan.forward_units, plan.backward_units) == (2, 1)


def test_fsdp_gathers_fp32_parameters_in_the_compute_format() -> None:
    # At rest 4 bytes over the ranks; gathered 2.
    job = _fsdp(precision="bf16-mixed")
    step = a_step(job)
    assert step.plan.weights_share(step.model.states.weights) == PARAMETERS
    moment = highest(step, Phase.LOSS)
    assert moment.components[Component.GATHERED_PARAMETERS] == 2 * OUTSIDE
    assert Component.AUTOCAST_CACHE not in moment.components or (
        moment.components[Component.AUTOCAST_CACHE] == 0
    )


def test_fsdp_1_flattens_a_units_gradients() -> None:
    # The gradients as made and all of them in one tensor, beside the stream's gradient.
    step = a_step(_fsdp("fsdp"))
    flat = [m for m in step.ledger.moments if m.label.endswith("gradients made flat")]
    assert len(flat) == 2  # a block, the root
    assert flat[0].components[Component.TEMPORARIES] == 2 * (BLOCK_PARAMETERS + 128 * HIDDEN)
    assert not any("flat" in moment.label for moment in a_step(_fsdp("fsdp2")).ledger.moments)


@pytest.mark.parametrize(
    ("sync", "accumulation", "gradients"),
    [
        # no_sync keeps whole gradients on every rank between micro-batches (FORMULAS.md 5).
        (False, 4, 2 * PARAMETERS),
        (True, 4, 2 * PARAMETERS // 4),
        (False, 1, 0),
    ],
)
def test_gradients_between_micro_batches(sync: bool, accumulation: int, gradients: int) -> None:
    job = _fsdp(gradient_accumulation_steps=accumulation, sharding={"sync_each_micro_batch": sync})
    assert held(job, Phase.FORWARD, Component.GRADIENTS) == gradients


def test_sharded_gradients_are_left_as_shares() -> None:
    # At the last block to run backward the blocks before it have left their shares; head and norm wait in the root.
    step = a_step(_fsdp(activation_checkpointing="full"))
    last = [m for m in step.ledger.moments if m.phase is Phase.BACKWARD and "block" in m.label][-1]
    share = -(-2 * BLOCK_PARAMETERS // 4)
    whole_so_far = last.components[Component.GRADIENTS] - (LAYERS - 1) * share
    root = 2 * (TABLE + HIDDEN)
    assert 0 < whole_so_far - root <= 2 * BLOCK_PARAMETERS


# -- offload -------------------------------------------------------------------------------------------------------


def test_offloaded_optimizer_states_are_the_hosts() -> None:
    # DeepSpeed's estimator: 16 bytes a parameter on the host (master, two moments, a gradient), over the ranks.
    fields: dict[str, Any] = {"precision": "bf16-master"}
    job = _deepspeed(2, sharding={"offload_optimizer": "cpu"}, **fields)
    step = a_step(job)
    for moment in step.ledger.moments:
        assert moment.components.get(Component.OPTIMIZER_STATES, 0) == 0
        assert moment.components.get(Component.MASTER_WEIGHTS, 0) == 0
    estimate = estimated(
        sharding={"implementation": "deepspeed", "zero_stage": 2, "offload_optimizer": "cpu"},
        hardware=cards(4),
        **fields,
    )
    assert estimate.host_bytes == 16 * PARAMETERS  # four ranks of one node, a quarter each


def test_offloaded_parameters_leave_the_card() -> None:
    sharding = {"offload_optimizer": "cpu", "offload_parameters": "cpu"}
    job = _deepspeed(3, sharding=sharding, precision="bf16-master")
    assert held(job, Phase.LOAD, Component.WEIGHTS) == 2 * 32 * 4  # the rotary frequencies
    host = estimated(
        sharding={"implementation": "deepspeed", "zero_stage": 3, **sharding},
        hardware=cards(4),
        precision="bf16-master",
    ).host_bytes
    assert host == (16 + 2) * PARAMETERS


def test_nodes_hold_their_own_ranks_alone() -> None:
    sharding = {"implementation": "deepspeed", "zero_stage": 2, "offload_optimizer": "cpu"}
    two_nodes = {**cards(16), "devices_per_node": 8}
    host = estimated(sharding=sharding, hardware=two_nodes, precision="bf16-master").host_bytes
    assert host == 16 * PARAMETERS // 2


def test_tied_embeddings_are_counted_once() -> None:
    tied = a_step(a_job(model=llama(tie_word_embeddings=True))).model.states
    assert tied.parameters == PARAMETERS - TABLE
    assert tied.weights == 2 * (PARAMETERS - TABLE)
    assert tied.trainable == PARAMETERS - TABLE
