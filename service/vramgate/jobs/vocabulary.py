"""Words of the job that are plain strings in the cost model, as closed lists."""

from enum import StrEnum


class Quantization(StrEnum):
    """Storage formats of a frozen, quantised base."""

    NF4 = "nf4"
    FP4 = "fp4"
    INT8 = "int8"
    GPTQ_INT4 = "gptq-int4"
    GPTQ_INT8 = "gptq-int8"
    AWQ_INT4 = "awq-int4"
    MXFP4 = "mxfp4"


class LinearFormat(StrEnum):
    """Number formats of the matrix products where they are lower than the compute dtype."""

    FP8_TENSORWISE = "fp8-tensorwise"
    FP8_ROWWISE = "fp8-rowwise"
    FP8_CURRENT = "fp8-current"
    FP8_DELAYED = "fp8-delayed"
    FP8_BLOCK = "fp8-block"
    MXFP8 = "mxfp8"
    NVFP4 = "nvfp4"
    INT8 = "int8"


class OptimizerImplementation(StrEnum):
    """How PyTorch carries out an optimizer's step."""

    FOREACH = "foreach"
    FUSED = "fused"
    FOR_LOOP = "for_loop"


class FusedKernel(StrEnum):
    """Operations that Liger, Unsloth, Apex and others replace by one kernel."""

    RMS_NORM = "rms_norm"
    ROPE = "rope"
    SWIGLU = "swiglu"
    CROSS_ENTROPY = "cross_entropy"


class PipelineSchedule(StrEnum):
    """Orders in which pipeline stages work through the micro-batches."""

    ONE_FORWARD_ONE_BACKWARD = "1f1b"
    GPIPE = "gpipe"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zero_bubble"
    ZERO_BUBBLE_V = "zero_bubble_v"
    DUALPIPE = "dualpipe"


class Offload(StrEnum):
    """Where states or parameters rest between uses."""

    NONE = "none"
    CPU = "cpu"
    NVME = "nvme"


class Wrap(StrEnum):
    """The units that FSDP shards and gathers: each block, or the whole model at once."""

    BLOCK = "block"
    NONE = "none"
