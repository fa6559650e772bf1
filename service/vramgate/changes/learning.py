"""Changes of what is learned: smaller optimizer states, adapters in place of whole weights."""

from dataclasses import replace

from vramgate.changes.change import ChangeKind, Edit
from vramgate.changes.offers import ADAPTERS, BITSANDBYTES_FRAMEWORKS, SMALL_STATES
from vramgate.changes.situation import NVIDIA, Situation
from vramgate.costmodel.job import Dtype, MethodKind, OptimizerName, Task
from vramgate.jobs.description import (
    MethodDescription,
    PrecisionDescription,
)
from vramgate.jobs.number_formats import HALVES
from vramgate.jobs.sharding import FSDP
from vramgate.jobs.vocabulary import Offload

_PAGED = frozenset({OptimizerName.PAGED_ADAMW_8BIT, OptimizerName.PAGED_LION_8BIT})


def smaller_states(situation: Situation) -> tuple[Edit, ...]:
    """Offer the same optimizer with 8-bit states, then with paged ones, where bitsandbytes runs."""
    job = situation.job
    if (
        situation.framework not in BITSANDBYTES_FRAMEWORKS
        or not situation.made_by(NVIDIA)
        or job.sharding.implementation in FSDP
        or job.sharding.offload_optimizer != Offload.NONE
    ):
        return ()
    names = SMALL_STATES.get(job.optimizer.name, ())
    return tuple(_optimizer_edit(situation, name) for name in names)


def _optimizer_edit(situation: Situation, name: OptimizerName) -> Edit:
    paged = name in _PAGED
    said = situation.said.optimizer
    cost = "changes the numbers: states of 8 bits with a scale a block (arXiv 2110.02861)"
    return Edit(
        kind=ChangeKind.OPTIMIZER,
        sets=(
            ("optimizer", replace(said, name=name, implementation=None)),
            ("precision.optimizer_states", None),
        ),
        to=f"optimizer to {name.value}",
        why="its states take a byte each"
        + (", in memory that can leave the card" if paged else ""),
        slowdown=None,
        cost=cost + ("; what leaves the card comes back over the link every step" if paged else ""),
    )


def smaller_method(situation: Situation) -> tuple[Edit, ...]:
    """Offer adapters over the frozen model, then over a 4-bit one; a model from scratch has neither."""
    job = situation.job
    if job.task is Task.PRETRAIN or situation.framework not in ADAPTERS:
        return ()
    edits = []
    if job.method.kind is MethodKind.FULL:
        edits.append(_adapters(situation, MethodKind.LORA))
    if job.method.kind in {MethodKind.FULL, MethodKind.LORA} and _quantises(situation):
        edits.append(_adapters(situation, MethodKind.QLORA))
    return tuple(edits)


def _quantises(situation: Situation) -> bool:
    """Return whether bitsandbytes' 4-bit layers can stand in: on NVIDIA, not cut by tensor or pipeline."""
    sizes = situation.job.parallelism
    whole = int(sizes.tensor_parallel_size) == 1 and sizes.pipeline_parallel_size == 1
    return whole and situation.made_by(NVIDIA)


def _adapters(situation: Situation, kind: MethodKind) -> Edit:
    said = situation.said.method
    method = MethodDescription(kind=kind)
    if situation.job.method.kind is MethodKind.LORA:
        method = replace(said, kind=kind)
    cost = "changes what is trained: adapters instead of every weight"
    if kind is MethodKind.QLORA:
        cost = (
            "changes the frozen base: its weights are rounded to 4 bits, and turned back before"
            " every product (QLoRA, arXiv 2305.14314)"
        )
        if situation.job.method.kind is MethodKind.FULL:
            cost = f"changes what is trained, adapters instead of every weight; {cost}"
    return Edit(
        kind=ChangeKind.METHOD,
        sets=(
            ("method", method),
            ("precision", _precision(situation)),
        ),
        to=f"method to {kind.value}",
        why=_WHY[kind],
        slowdown=None,
        cost=cost,
    )


_WHY = {
    MethodKind.LORA: "a frozen base has neither gradients nor optimizer states",
    MethodKind.QLORA: "the frozen base is held in 4 bits",
}


def _precision(situation: Situation) -> PrecisionDescription:
    """Return the number formats around adapters.

    A frozen base needs no fp32 weights to compute in 16 bits. Formats that nobody said are left to
    the framework, which may have others for adapters.
    """
    said, now = situation.said.precision, situation.job.precision
    rest = replace(said, gradients=None, optimizer_states=None)
    unsaid = rest == PrecisionDescription(linear=said.linear)
    if unsaid or now.weights is not Dtype.FP32 or now.compute not in HALVES:
        return rest
    return PrecisionDescription(weights=now.compute, compute=now.compute, linear=said.linear)
