"""Changes of what is recomputed in backward instead of kept."""

from dataclasses import dataclass, replace

from vramgate.changes.change import ChangeKind, Edit
from vramgate.changes.offers import OFFLOADS_CHECKPOINTS, SELECTIVE
from vramgate.changes.situation import Situation
from vramgate.costmodel.job import CheckpointMode, MethodKind
from vramgate.jobs.description import CheckpointingDescription

_PASSES = {MethodKind.FULL: 3, MethodKind.LORA: 2, MethodKind.QLORA: 2}
"""Passes over the weights in a step, in units of the forward pass: forward, gradients of the inputs,
gradients of the weights, which a frozen base does not have."""


def more_checkpointing(situation: Situation) -> tuple[Edit, ...]:
    """Offer what keeps less than now: parts recomputed, whole blocks, and their inputs in host memory."""
    now = situation.job.checkpointing
    wanted: list[_Wanted] = []
    if now.mode is CheckpointMode.NONE and situation.framework in SELECTIVE:
        wanted.append(_selective(situation.framework))
    if now.mode is not CheckpointMode.FULL:
        wanted.append(_full(situation))
    elif now.every_n_layers > 1:
        wanted.append(_each_layer(now.every_n_layers))
    if situation.framework in OFFLOADS_CHECKPOINTS and not now.offload:
        wanted.append(_offloaded(now.mode))
    return tuple(_edit(situation, one) for one in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    mode: CheckpointMode
    to: str
    why: str
    slowdown: float | None
    cost: str
    offload: bool = False
    modules: tuple[str, ...] | None = None


def _selective(framework: str) -> _Wanted:
    modules = SELECTIVE[framework]
    what = ", ".join(modules) or "every second product and what is cheap"
    return _Wanted(
        mode=CheckpointMode.SELECTIVE,
        to="activation_checkpointing to selective",
        why=f"{what} is made again in backward instead of kept",
        slowdown=None,
        cost=f"{what} runs twice: less than the 4/3 of the arithmetic that full takes",
        modules=modules or None,
    )


def _full(situation: Situation) -> _Wanted:
    slowdown, cost = None, "the forward pass of each block runs twice"
    passes = _PASSES.get(situation.job.method.kind)
    if passes is not None and situation.job.checkpointing.mode is CheckpointMode.NONE:
        slowdown = (passes + 1) / passes
        cost = f"the forward pass runs twice: {passes + 1}/{passes} of the arithmetic"
        if passes != _PASSES[MethodKind.FULL]:
            cost = f"{cost}, as a frozen base has no gradients of its weights"
    return _Wanted(
        mode=CheckpointMode.FULL,
        to="activation_checkpointing to full",
        why="of each block its input alone is kept",
        slowdown=slowdown,
        cost=cost,
    )


def _each_layer(every: int) -> _Wanted:
    return _Wanted(
        mode=CheckpointMode.FULL,
        to="activation_checkpointing.every_n_layers to 1",
        why=f"one layer is recomputed at a time instead of {every}",
        slowdown=1.0,
        cost="nothing: every layer's forward pass runs twice either way",
    )


def _offloaded(now: CheckpointMode) -> _Wanted:
    again = "" if now is CheckpointMode.FULL else "the forward pass runs twice, and "
    return _Wanted(
        mode=CheckpointMode.FULL,
        to="activation_checkpointing to full with offload",
        why="the blocks' inputs wait in host memory",
        slowdown=None,
        cost=f"{again}each block's input goes to host memory and back, which the link may not hide",
        offload=True,
    )


def _edit(situation: Situation, wanted: _Wanted) -> Edit:
    said = situation.said.activation_checkpointing
    keeps_way = situation.job.checkpointing.mode is CheckpointMode.FULL
    changed = replace(
        said if keeps_way else CheckpointingDescription(),
        mode=wanted.mode,
        every_n_layers=1,
        offload=wanted.offload,
        modules=wanted.modules,
    )
    return Edit(
        kind=ChangeKind.CHECKPOINTING,
        sets=(("activation_checkpointing", changed),),
        to=wanted.to,
        why=wanted.why,
        slowdown=wanted.slowdown,
        cost=wanted.cost,
    )
