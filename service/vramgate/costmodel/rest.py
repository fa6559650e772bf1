"""What a rank holds at rest, between the moments of a step: weights, states, gradients, standing buffers."""

from vramgate.costmodel.blocks.ends import buffer_bytes, input_bytes
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.components.optimizer_states import PAGED, step_temporary_bytes
from vramgate.costmodel.job import ShardingImplementation, Task, TrainingJob
from vramgate.costmodel.moments import Moment
from vramgate.costmodel.rank_model import RankModel
from vramgate.costmodel.sharding import SHARDS_WEIGHTS, ShardPlan
from vramgate.costmodel.tape import CATEGORIES
from vramgate.costmodel.weights import ADAPTING
from vramgate.units import Bytes, largest, smallest

WITH_REFERENCE = frozenset({Task.DPO, Task.KTO})
"""Tasks that hold a frozen reference model beside the trained one."""
GATHERS_ROOT = frozenset({ShardingImplementation.FSDP, ShardingImplementation.FSDP2})
"""Implementations that keep the unit outside the blocks gathered for the whole step."""


def resting_components(
    job: TrainingJob, setting: Setting, model: RankModel, plan: ShardPlan
) -> dict[Component, Bytes]:
    """Return the bytes that are there for the whole step, gradients aside."""
    states, experts, offload = model.states, model.expert_states, job.sharding
    optimizer = plan.optimizer_share(states.optimizer, experts.optimizer)
    master = plan.optimizer_share(states.master, experts.master)
    weights = plan.weights_share(states.weights, experts.weights) + states.replicated
    if job.parallelism.pipeline_schedule == BIDIRECTIONAL:
        weights = 2 * weights
    if offload.offload_parameters != "none":
        weights = states.replicated
    weights += _reference_bytes(job, model, plan)
    return {
        Component.WEIGHTS: weights + buffer_bytes(setting),
        Component.OPTIMIZER_STATES: 0 if job.optimizer.name in PAGED else on_card(job, optimizer),
        Component.MASTER_WEIGHTS: on_card(job, master),
        Component.ACTIVATIONS: input_bytes(setting),
        Component.GATHERED_PARAMETERS: standing_gathered(model, plan),
        Component.COMMUNICATION_BUFFERS: plan.standing_buffer_bytes,
    }


BIDIRECTIONAL = "dualpipe"
"""The schedule in which every rank holds two stages (DeepSeek-V3, arXiv 2412.19437)."""


def on_card(job: TrainingJob, size: Bytes) -> Bytes:
    """Return what offloading leaves of optimizer states on the card."""
    if job.sharding.offload_optimizer == "none":
        return size
    thousandths = round(1000 * job.sharding.offload_fraction)
    return size * (1000 - thousandths) // 1000


def loaded(job: TrainingJob, setting: Setting, model: RankModel, weights: Bytes) -> Moment:
    """Return the moment the model is loaded: no optimizer states yet; a weight being quantised is there whole."""
    components = {Component.WEIGHTS: weights}
    if job.method.quantization is not None:
        whole = [
            weight.module.weight * setting.compute_width
            for _, layer in model.layers
            for weight in layer.weights.values()
            if weight.quantization is not None
        ]
        components[Component.DEQUANTIZATION] = max(whole, default=0)
    return Moment(
        phase=Phase.LOAD,
        label="model loaded",
        bytes=sum(components.values()),
        static=components,
        parts=[0] * CATEGORIES,
    )


def _reference_bytes(job: TrainingJob, model: RankModel, plan: ShardPlan) -> Bytes:
    """Return the frozen copy that a preference loss compares with; adapters are switched off instead."""
    if job.task not in WITH_REFERENCE or job.method.kind in ADAPTING:
        return 0
    width = job.precision.compute.bytes
    return plan.weights_share(
        model.states.parameters * width, model.expert_states.parameters * width
    )


def standing_gathered(model: RankModel, plan: ShardPlan) -> Bytes:
    """Return the parameters that stay gathered from forward to the end of backward."""
    return _root_bytes(model, plan) + plan.gathered_bytes


def _root_bytes(model: RankModel, plan: ShardPlan) -> Bytes:
    if not plan.gathers or plan.implementation not in GATHERS_ROOT:
        return 0
    if plan.one_unit:
        return model.states.gathered
    return model.outside_states.gathered


def keeps_gradients(job: TrainingJob) -> bool:
    """Return whether gradients are there while forward runs: between micro-batches, or in Megatron's buffers."""
    if job.optimizer.in_backward:
        return False
    wider = job.precision.gradients.bytes > job.precision.weights.bytes
    return job.gradient_accumulation_steps > 1 or (job.precision.master_weights and wider)


def resting_gradients(job: TrainingJob, model: RankModel, plan: ShardPlan) -> Bytes:
    """Return the bytes of gradients between backward and the optimizer step."""
    if plan.accumulates_whole:
        return model.states.gathered
    if job.sharding.offload_optimizer != "none" and plan.shards_gradients:
        return 0
    return shared_gradients(model, plan)


def shared_gradients(model: RankModel, plan: ShardPlan) -> Bytes:
    """Return a rank's share of all gradients."""
    return plan.gradients_share(model.states.gradients, model.expert_states.gradients)


DEEPSPEED_SUB_GROUP = 1_000_000_000
"""Elements that ZeRO-3 updates at a time (``sub_group_size``)."""
FP32_BYTES = 4


def step_temporaries(job: TrainingJob, model: RankModel, plan: ShardPlan) -> Bytes:
    """Return what the optimizer's step needs beside weights, states and gradients at rest."""
    if job.sharding.offload_optimizer != "none":
        return 0
    states, experts = model.states, model.expert_states
    every = states.one_state
    if plan.implementation is ShardingImplementation.DEEPSPEED and plan.stage:
        return _partition_temporaries(
            job, plan, plan.optimizer_share(every, model.expert_states.one_state)
        )
    return step_temporary_bytes(
        job.optimizer,
        all_states_bytes=plan.optimizer_share(every, model.expert_states.one_state),
        largest_bytes=_largest_share(plan, states.largest_state, experts.largest_state),
        largest_update_bytes=_largest_share(plan, states.largest_update, experts.largest_update),
        torch_version=job.software.torch,
    )


def _largest_share(plan: ShardPlan, size: int, of_experts: int) -> Bytes:
    """Return a rank's share of the largest tensor, which may be an expert's."""
    return largest(plan.optimizer_share(size), plan.optimizer_share(of_experts, of_experts))


def _partition_temporaries(job: TrainingJob, plan: ShardPlan, share: Bytes) -> Bytes:
    """Return what DeepSpeed's step needs: the gradients of its flat partition put together, then raised to fp32.

    The 16-bit ones are let go before the update. ZeRO-3 does so for a sub-group at a time.
    Source: DeepSpeed ``stage_1_and_2.py`` (``step``) and ``stage3.py`` (``_prepare_fp32_grad_for_sub_group``).
    """
    width = job.precision.optimizer_states.bytes
    elements = share // width
    if plan.stage >= SHARDS_WEIGHTS:
        elements = smallest(elements, DEEPSPEED_SUB_GROUP)
    update = step_temporary_bytes(
        job.optimizer,
        all_states_bytes=elements * width,
        largest_bytes=elements * width,
        largest_update_bytes=2 * elements * width,
        torch_version=job.software.torch,
    )
    if not job.precision.master_weights:
        return update
    low = job.precision.weights.bytes
    return largest(elements * (low + FP32_BYTES), elements * (FP32_BYTES - low) + update)
