"""CPU memory a node needs: offloaded states, parameters and checkpoints, and paged optimizer states.

Sources: DeepSpeed ``estimate_zero2_model_states_mem_needs`` and ``estimate_zero3_…`` (fp32 master, two states and a
gradient: 16 bytes a parameter); bitsandbytes paged optimizers (managed memory that can leave the card).
"""

from vramgate.costmodel.components.optimizer_states import PAGED
from vramgate.costmodel.rest import on_card
from vramgate.costmodel.states import States
from vramgate.costmodel.step import Step
from vramgate.units import Bytes, smallest

FP32_BYTES = 4


def host_bytes(step: Step) -> Bytes:
    """Return bytes of CPU memory per node for what a rank keeps off the card; loading is not counted."""
    job, plan = step.job, step.plan
    states, experts = step.model.states, step.model.expert_states
    sharding = job.sharding
    rank: Bytes = step.offloaded_bytes
    if sharding.offload_optimizer == "cpu":
        held = plan.optimizer_share(_update_bytes(states), _update_bytes(experts))
        rank = rank + held - on_card(job, held)
    if sharding.offload_parameters == "cpu":
        rank = rank + plan.weights_share(states.weights, experts.weights)
    if job.optimizer.name in PAGED:
        rank = rank + plan.optimizer_share(states.optimizer, experts.optimizer)
    ranks = smallest(job.hardware.devices, job.hardware.devices_per_node)
    return rank * ranks


def _update_bytes(states: States) -> int:
    """Return what an update on the host works with: states, master weights and fp32 gradients."""
    return states.optimizer + states.master + FP32_BYTES * states.trainable
