"""From a job to the Setting its blocks run in: token counts and the bytes of an element of each kind of tensor."""

from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.weights import is_mixed_sharding, trainable_widths
from vramgate.units import ceil_div

FP32_BYTES = 4


def setting_of(job: TrainingJob) -> Setting:
    """Return the numbers and words the blocks use, for one micro-batch of a job on one rank."""
    precision = job.precision
    stream = precision.weights.bytes
    if is_mixed_sharding(job):
        stream = trainable_widths(job).width
    elif job.method.prepare_for_kbit_training:
        stream = FP32_BYTES
    sequence = ceil_div(job.sequence_length, job.parallelism.context_parallel_size)
    return Setting(
        architecture=job.architecture,
        batch=job.micro_batch_size,
        sequence=sequence,
        tokens=job.micro_batch_size * sequence,
        stream_width=stream,
        table_width=stream,
        compute_width=precision.compute.bytes,
        autocast=precision.autocast,
        attention=job.attention,
        packing=job.packing,
        fused_kernels=job.fused_kernels,
        software=job.software,
    )
