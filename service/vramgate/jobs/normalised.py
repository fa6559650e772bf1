"""The description of a resolved job: the words it came in, every field filled."""

from vramgate.costmodel.job import (
    Checkpointing,
    CheckpointMode,
    Method,
    MethodKind,
    Optimizer,
    Parallelism,
    Precision,
    Sharding,
    TrainingJob,
)
from vramgate.jobs.description import (
    BucketsDescription,
    CheckpointingDescription,
    HardwareDescription,
    JobDescription,
    MethodDescription,
    OptimizerDescription,
    ParallelismDescription,
    PrecisionDescription,
    ShardingDescription,
    SoftwareDescription,
)
from vramgate.jobs.vocabulary import (
    FusedKernel,
    LinearFormat,
    Offload,
    OptimizerImplementation,
    PipelineSchedule,
    Quantization,
    Wrap,
)


def normalised(said: JobDescription, job: TrainingJob, *, stack: str) -> JobDescription:
    """Return the description with every field that matters filled from the resolved job.

    Words that the cost model holds as plain text are of their closed lists here.
    """
    return JobDescription(
        model=said.model,
        method=_method(said.method, job.method),
        task=job.task,
        precision=_precision(job.precision),
        optimizer=_optimizer(job.optimizer),
        micro_batch_size=int(job.micro_batch_size),
        sequence_length=int(job.sequence_length),
        gradient_accumulation_steps=int(job.gradient_accumulation_steps),
        packing=job.packing,
        activation_checkpointing=_checkpointing(job.checkpointing),
        attention=job.attention,
        loss=job.loss,
        fused_kernels=tuple(sorted(map(FusedKernel, job.fused_kernels))),
        compile=job.compile,
        parallelism=_parallelism(job.parallelism),
        sharding=_sharding(job.sharding),
        hardware=HardwareDescription(
            accelerator=said.hardware.accelerator,
            devices=int(job.hardware.devices),
            devices_per_node=int(job.hardware.devices_per_node),
            device_memory_bytes=said.hardware.device_memory_bytes,
            occupied_bytes=job.hardware.occupied_bytes,
        ),
        software=SoftwareDescription(
            framework=said.software.framework or job.software.framework,
            stack=stack,
            expandable_segments=job.software.expandable_segments,
        ),
    )


def _method(said: MethodDescription, method: Method) -> MethodDescription:
    if method.kind is MethodKind.FULL:
        return MethodDescription(kind=method.kind)
    if method.kind is MethodKind.FREEZE:
        return MethodDescription(
            kind=method.kind,
            trainable_layers=method.trainable_layers,
            frozen_dtype=method.frozen_dtype,
        )
    quantized = method.kind is MethodKind.QLORA
    return MethodDescription(
        kind=method.kind,
        rank=int(method.rank),
        target_modules=(
            method.target_modules if said.target_modules is None else said.target_modules
        ),
        dropout=method.dropout,
        dora=method.dora,
        modules_to_save=method.modules_to_save,
        adapter_dtype=method.adapter_dtype,
        frozen_dtype=method.frozen_dtype,
        quantization=method.quantization and Quantization(method.quantization),
        double_quant=method.double_quant if quantized else None,
        prepare_for_kbit_training=method.prepare_for_kbit_training if quantized else None,
    )


def _precision(precision: Precision) -> PrecisionDescription:
    return PrecisionDescription(
        weights=precision.weights,
        compute=precision.compute,
        autocast=precision.autocast,
        gradients=precision.gradients,
        master_weights=precision.master_weights,
        optimizer_states=precision.optimizer_states,
        linear=precision.linear and LinearFormat(precision.linear),
    )


def _parallelism(sizes: Parallelism) -> ParallelismDescription:
    return ParallelismDescription(
        tensor_parallel_size=int(sizes.tensor_parallel_size),
        pipeline_parallel_size=sizes.pipeline_parallel_size,
        context_parallel_size=int(sizes.context_parallel_size),
        expert_parallel_size=int(sizes.expert_parallel_size),
        sequence_parallel=sizes.sequence_parallel,
        pipeline_schedule=PipelineSchedule(sizes.pipeline_schedule),
        virtual_pipeline_stages=sizes.virtual_pipeline_stages,
    )


def _optimizer(optimizer: Optimizer) -> OptimizerDescription:
    return OptimizerDescription(
        name=optimizer.name,
        implementation=OptimizerImplementation(optimizer.implementation),
        in_backward=optimizer.in_backward,
        rank=None if optimizer.rank is None else int(optimizer.rank),
        quantized=optimizer.quantized,
    )


def _checkpointing(checkpointing: Checkpointing) -> CheckpointingDescription:
    if checkpointing.mode is CheckpointMode.NONE:
        return CheckpointingDescription(mode=checkpointing.mode)
    return CheckpointingDescription(
        mode=checkpointing.mode,
        every_n_layers=checkpointing.every_n_layers,
        offload=checkpointing.offload,
        reentrant=checkpointing.reentrant,
        modules=checkpointing.modules,
    )


def _sharding(sharding: Sharding) -> ShardingDescription:
    group = sharding.shard_group_size
    buckets = sharding.buckets
    return ShardingDescription(
        implementation=sharding.implementation,
        zero_stage=sharding.zero_stage,
        shard_group_size=None if group is None else int(group),
        reshard_after_forward=sharding.reshard_after_forward,
        wrap=Wrap(sharding.wrap),
        sync_each_micro_batch=sharding.sync_each_micro_batch,
        offload_optimizer=Offload(sharding.offload_optimizer),
        offload_parameters=Offload(sharding.offload_parameters),
        offload_fraction=sharding.offload_fraction,
        buckets=BucketsDescription(
            reduce_elements=int(buckets.reduce_elements),
            allgather_elements=int(buckets.allgather_elements),
            prefetch_elements=int(buckets.prefetch_elements),
            max_live_elements=int(buckets.max_live_elements),
            ddp_bytes=int(buckets.ddp_bytes),
        ),
    )
