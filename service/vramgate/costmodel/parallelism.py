"""The share of a block that one rank of a tensor- and expert-parallel group holds.

Column-parallel layers split their outputs, row-parallel layers their inputs (Shoeybi et al. 2019, arXiv 1909.08053);
experts are dealt out whole. Norms and routers are not split. Shares round up.
"""

from dataclasses import dataclass, replace

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    Experts,
    FeedForward,
    Module,
    ModuleKind,
)
from vramgate.costmodel.conditions import everywhere
from vramgate.costmodel.job import Parallelism, TrainingJob
from vramgate.units import ceil_div, smallest

COLUMN_ROLES = frozenset(
    {
        "query",
        "key",
        "value",
        "qkv",
        "gate",
        "up",
        "gate_up",
        "query_up",
        "kv_up",
        "shared_gate",
        "shared_up",
        "cross_query",
        "cross_key",
        "cross_value",
        "mixer_in",
        "head",
    }
)
ROW_ROLES = frozenset({"attention_output", "down", "shared_down", "cross_output", "mixer_out"})
EXPERT_ROLES = frozenset({"expert_gate", "expert_up", "expert_gate_up", "expert_down"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStage:
    """The part of the model one pipeline stage holds, and its micro-batches in flight."""

    name: str
    first: bool = True
    last: bool = True
    start: int = 0
    stop: int | None = None
    """Layers of the last stack this stage holds: ``start`` to ``stop``."""
    in_flight: int = 1
    """Chunks (virtual stages) of micro-batches whose activations are alive at once."""
    chunks: int = 1
    """Virtual stages the layers of this stage are cut into."""


def module_share(module: Module, layout: Parallelism, expert_ranks: int = 1) -> Module:
    """Return the part of a module that one rank holds; each expert is split over ``expert_ranks``."""
    ranks = layout.tensor_parallel_size
    if module.role in EXPERT_ROLES:
        return _expert_share(module, layout, expert_ranks)
    if ranks == 1:
        return module
    if module.role in COLUMN_ROLES:
        out_features = ceil_div(module.out_features, ranks)
        return replace(
            module,
            out_features=out_features,
            weight=module.in_features * out_features,
            bias=ceil_div(module.bias, ranks),
        )
    if module.role in ROW_ROLES:
        in_features = ceil_div(module.in_features, ranks)
        return replace(module, in_features=in_features, weight=in_features * module.out_features)
    if module.kind is ModuleKind.EMBEDDING and module.role == "embedding":
        rows = ceil_div(module.in_features, ranks)
        return replace(module, in_features=rows, weight=rows * module.out_features)
    return module


def expert_tensor_ranks(job: TrainingJob) -> int:
    """Return over how many ranks each expert is split: the tensor group, where the devices suffice (Megatron's ETP)."""
    layout = job.parallelism
    ranks = layout.tensor_parallel_size
    needed = ranks * layout.pipeline_parallel_size * layout.expert_parallel_size
    return ranks if everywhere(job.hardware.devices % needed == 0) else 1


def _expert_share(module: Module, layout: Parallelism, ranks: int) -> Module:
    """Deal experts to the expert-parallel ranks, and split each over ``ranks``."""
    experts = ceil_div(module.copies, layout.expert_parallel_size)
    if module.role == "expert_down":
        in_features, out_features = ceil_div(module.in_features, ranks), module.out_features
        bias = module.bias
    else:
        in_features, out_features = module.in_features, ceil_div(module.out_features, ranks)
        bias = ceil_div(module.bias, ranks)
    return replace(
        module,
        copies=experts,
        in_features=in_features,
        out_features=out_features,
        weight=in_features * out_features,
        bias=bias,
    )


def splits_layers(layout: Parallelism) -> bool:
    """Return whether a rank holds a part of a layer only."""
    return layout.tensor_parallel_size > 1 or layout.expert_parallel_size > 1


def block_share(block: Block, layout: Parallelism, expert_ranks: int) -> Block:
    """Return the part of a block that one rank computes; each expert is split over ``expert_ranks``."""
    ranks = layout.tensor_parallel_size
    return replace(
        block,
        modules=tuple(module_share(module, layout, expert_ranks) for module in block.modules),
        attention=_attention_share(block.attention, ranks),
        cross_attention=_attention_share(block.cross_attention, ranks),
        feed_forward=_feed_forward_share(block.feed_forward, ranks),
        experts=_experts_share(block.experts, layout, expert_ranks),
    )


def _attention_share(shape: Attention | None, ranks: int) -> Attention | None:
    if shape is None:
        return None
    return replace(
        shape,
        heads=ceil_div(shape.heads, ranks),
        kv_heads=ceil_div(shape.kv_heads, ranks),
        inner_size=ceil_div(shape.inner_size, ranks),
    )


def _feed_forward_share(shape: FeedForward | None, ranks: int) -> FeedForward | None:
    if shape is None:
        return None
    return replace(shape, intermediate_size=ceil_div(shape.intermediate_size, ranks))


def _experts_share(shape: Experts | None, layout: Parallelism, ranks: int) -> Experts | None:
    if shape is None:
        return None
    return replace(
        shape,
        num_experts=ceil_div(shape.num_experts, layout.expert_parallel_size),
        intermediate_size=ceil_div(shape.intermediate_size, ranks),
        shared=_feed_forward_share(shape.shared, layout.tensor_parallel_size),
    )


def pipeline_stages(job: TrainingJob) -> tuple[PipelineStage, ...]:
    """Return the pipeline stages that can be the worst: the only one, or the first and the last.

    1F1B holds ``min(m, p - i)`` micro-batches on stage ``i``, GPipe all ``m``; interleaving adds
    ``(p - 1) / v`` on the first stage; ZB-H1 is as 1F1B, ZB-V and DualPipe hold ``p`` and ``p + 1`` on every stage.

    Sources: Narayanan et al. 2021 (arXiv 2104.04473), Qi et al. 2024 (arXiv 2401.10241), DeepSeek-V3 (DualPipe).
    """
    layout = job.parallelism
    stages = layout.pipeline_parallel_size
    if stages == 1:
        return (PipelineStage(name=""),)
    layers = job.architecture.num_hidden_layers
    per_stage = ceil_div(layers, stages)
    last_layers = layers - per_stage * (stages - 1)
    first = PipelineStage(
        name="pipeline stage 0",
        last=False,
        stop=per_stage,
        in_flight=_in_flight(job, 0),
        chunks=layout.virtual_pipeline_stages,
    )
    last = PipelineStage(
        name=f"pipeline stage {stages - 1}",
        first=False,
        start=layers - max(last_layers, 0),
        in_flight=_in_flight(job, stages - 1),
        chunks=layout.virtual_pipeline_stages,
    )
    return first, last


def _in_flight(job: TrainingJob, stage: int) -> int:
    """Return micro-batches alive on a stage, counted in chunks (virtual stages) of its layers."""
    layout = job.parallelism
    stages, chunks = layout.pipeline_parallel_size, layout.virtual_pipeline_stages
    steps = job.gradient_accumulation_steps
    schedule = layout.pipeline_schedule
    if schedule == "gpipe":
        return steps * chunks
    if schedule in {"zero_bubble_v", "dualpipe"}:
        return smallest(steps, stages + (schedule == "dualpipe")) * chunks
    if chunks > 1:
        alive = stages * (chunks - 1) + 2 * (stages - stage) - 1
        return smallest(steps * chunks, alive)
    return smallest(steps, stages - stage)
