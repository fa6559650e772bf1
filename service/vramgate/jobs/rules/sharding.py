"""Sharding, offload and accumulation against each other."""

from collections.abc import Iterator

from vramgate.costmodel.job import ShardingImplementation
from vramgate.jobs.rules.case import Case, Finding, divisors_near
from vramgate.jobs.sharding import FSDP, FULL_SHARD
from vramgate.jobs.vocabulary import Offload

_WHOLE = frozenset({ShardingImplementation.NONE, ShardingImplementation.DDP})
_GRADIENTS = 2


def zero_stage(case: Case) -> Iterator[Finding]:
    """A stage needs an implementation that shards, and one that has this stage."""
    sharding = case.job.sharding
    stage, implementation = sharding.zero_stage, sharding.implementation
    if stage and implementation in _WHOLE:
        yield Finding(
            field="sharding/zero_stage",
            code="conflict",
            detail=f"zero_stage {stage} with implementation {implementation.value}, which shards"
            " nothing",
            hint="write implementation deepspeed, fsdp, fsdp2 or megatron",
            value=stage,
        )
    if stage == 1 and implementation in FSDP:
        yield Finding(
            field="sharding/zero_stage",
            code="conflict",
            detail=f"{implementation.value} has no strategy that shards optimizer states only",
            hint="write 2 (SHARD_GRAD_OP), 3 (FULL_SHARD) or 0 (NO_SHARD)",
            value=stage,
        )
    stages = case.job.parallelism.pipeline_parallel_size
    if implementation is ShardingImplementation.DEEPSPEED and stage >= _GRADIENTS and stages > 1:
        yield Finding(
            field="sharding/zero_stage",
            code="conflict",
            detail=f"DeepSpeed's pipeline (pipeline_parallel_size {stages}) does not run with"
            f" zero_stage {stage}",
            hint="write zero_stage 1 or 0, or leave the pipeline out",
            value=stage,
        )


def shard_group(case: Case) -> Iterator[Finding]:
    """Groups of shards divide the data-parallel ranks."""
    group = case.said.sharding.shard_group_size
    if group is None:
        return
    field = "sharding/shard_group_size"
    if case.job.sharding.implementation in _WHOLE:
        yield Finding(
            field=field,
            code="conflict",
            detail=f"shard_group_size {group}, but implementation"
            f" {case.job.sharding.implementation.value} shards nothing",
            hint="write implementation fsdp, fsdp2 or deepspeed, or leave it out",
            value=group,
        )
    elif case.data_parallel_size % group:
        yield Finding(
            field=field,
            code="does_not_divide",
            detail=f"shard_group_size {group} does not divide the data-parallel size"
            f" {case.data_parallel_size}",
            hint=f"try {divisors_near(case.data_parallel_size, group)}",
            value=group,
        )


def offload(case: Case) -> Iterator[Finding]:
    """Offload needs an engine and the stage it works with.

    Sources: DeepSpeed ``runtime/zero/config.py``: offload_param with stage 3, offload_optimizer
    with stages 1 to 3, NVMe with stage 3; torch ``CPUOffload`` moves parameters, gradients and
    states together; Megatron-LM ``--optimizer-cpu-offload``.
    """
    yield from _offload_of(case, "offload_optimizer", needed=1)
    yield from _offload_of(case, "offload_parameters", needed=FULL_SHARD)


def _offload_of(case: Case, name: str, *, needed: int) -> Iterator[Finding]:
    sharding = case.job.sharding
    target = Offload(getattr(sharding, name))
    if target is Offload.NONE:
        return
    field, implementation = f"sharding/{name}", sharding.implementation
    if implementation in _WHOLE or (
        implementation is ShardingImplementation.MEGATRON and name == "offload_parameters"
    ):
        yield Finding(
            field=field,
            code="conflict",
            detail=f"{name} {target.value} with implementation {implementation.value}",
            hint="write implementation deepspeed or fsdp, or leave the offload out",
            value=target.value,
        )
    elif implementation is ShardingImplementation.DEEPSPEED and sharding.zero_stage < needed:
        yield Finding(
            field=field,
            code="conflict",
            detail=f"{name} {target.value} with zero_stage {sharding.zero_stage}",
            hint=f"write zero_stage {needed}" + (" or more" if needed < FULL_SHARD else ""),
            value=target.value,
        )
    elif target is Offload.NVME and (
        implementation is not ShardingImplementation.DEEPSPEED or sharding.zero_stage != FULL_SHARD
    ):
        yield Finding(
            field=field,
            code="conflict",
            detail=f"{name} nvme with implementation {implementation.value}, zero_stage"
            f" {sharding.zero_stage}",
            hint="write cpu, or implementation deepspeed with zero_stage 3",
            value=target.value,
        )


def in_backward(case: Case) -> Iterator[Finding]:
    """An optimizer that steps inside backward has no gradients left to accumulate.

    Source: torchtune ``recipes/full_finetune_distributed.py``: optimizer_in_bwd with
    gradient_accumulation_steps 1 only.
    """
    steps = int(case.job.gradient_accumulation_steps)
    if case.job.optimizer.in_backward and steps > 1:
        yield Finding(
            field="optimizer/in_backward",
            code="conflict",
            detail=f"in_backward with gradient_accumulation_steps {steps}: gradients are freed as"
            " they arrive",
            hint="write gradient_accumulation_steps 1, or leave in_backward out",
            value=True,
        )
