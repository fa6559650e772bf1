"""Number formats against each other."""

from collections.abc import Iterator

from vramgate.costmodel.job import Dtype, MethodKind, OptimizerName
from vramgate.jobs.method import ADAPTER_KINDS
from vramgate.jobs.number_formats import HALVES
from vramgate.jobs.optimizer import PROJECTED
from vramgate.jobs.rules.case import Case, Finding
from vramgate.jobs.sharding import FSDP
from vramgate.jobs.vocabulary import OptimizerImplementation

_FLOATS = frozenset({Dtype.FP32, Dtype.BF16, Dtype.FP16})


def trainable_formats(case: Case) -> Iterator[Finding]:
    """Weights, products and gradients are floating point; lower formats have their own fields."""
    precision = case.job.precision
    ways_out = {
        "weights": "write bf16, fp16 or fp32; a quantised frozen base is method.quantization",
        "compute": "write bf16, fp16 or fp32; low formats of matrix products are precision.linear",
        "gradients": "write bf16, fp16 or fp32",
    }
    for name, hint in ways_out.items():
        dtype: Dtype = getattr(precision, name)
        if dtype not in _FLOATS:
            yield Finding(
                field=f"precision/{name}",
                code="out_of_range",
                detail=f"precision.{name} {dtype.value}",
                hint=hint,
                value=dtype.value,
            )
    adapter = case.job.method.adapter_dtype
    if case.said.method.adapter_dtype is not None and adapter not in _FLOATS:
        yield Finding(
            field="method/adapter_dtype",
            code="out_of_range",
            detail=f"adapter_dtype {adapter.value} does not train",
            hint="write bf16, fp16 or fp32",
            value=adapter.value,
        )


def mixed_halves(case: Case) -> Iterator[Finding]:
    """fp16 and bf16 exclude each other in one run."""
    precision = case.job.precision
    weights, compute = precision.weights, precision.compute
    if weights in HALVES and compute in HALVES and weights is not compute:
        yield Finding(
            field="precision",
            code="conflict",
            detail=f"weights {weights.value} with compute {compute.value}",
            hint="write one of them for both",
            value=f"{weights.value}, {compute.value}",
        )
    gradients, method = case.said.precision.gradients, case.job.method
    # A trained tensor's gradient has its format, and adapters may have one of their own.
    is_adapters = method.kind in ADAPTER_KINDS and gradients is method.adapter_dtype
    if is_adapters or gradients is None or gradients is compute:
        return
    if gradients in HALVES and compute in HALVES:
        yield Finding(
            field="precision/gradients",
            code="conflict",
            detail=f"gradients {gradients.value} with compute {precision.compute.value}",
            hint=f"write {precision.compute.value} or fp32",
            value=gradients.value,
        )


def compute_reaches_weights(case: Case) -> Iterator[Finding]:
    """Products take the weights' dtype unless autocast, or FSDP's mixed precision, casts them."""
    precision = case.job.precision
    lowers = precision.weights is Dtype.FP32 and precision.compute in HALVES
    if lowers and not precision.autocast and case.job.sharding.implementation not in FSDP:
        yield Finding(
            field="precision/autocast",
            code="conflict",
            detail=f"fp32 weights compute in {precision.compute.value} only under autocast, which"
            " is off",
            hint='write autocast true, or the preset "bf16-mixed"',
            value=False,
        )
    raises = precision.weights in HALVES and precision.compute is Dtype.FP32
    if raises and case.job.method.kind is not MethodKind.QLORA:
        yield Finding(
            field="precision/compute",
            code="conflict",
            detail=f"compute fp32 over {precision.weights.value} weights",
            hint=f"write compute {precision.weights.value}, or weights fp32",
            value=precision.compute.value,
        )
    if precision.autocast and precision.compute is Dtype.FP32:
        yield Finding(
            field="precision/autocast",
            code="conflict",
            detail="autocast with compute fp32 casts nothing",
            hint="write compute bf16 or fp16, or autocast false",
            value=True,
        )


def master_copy(case: Case) -> Iterator[Finding]:
    """A master copy stands beside 16-bit weights, and instead of autocast."""
    precision = case.job.precision
    if not precision.master_weights:
        return
    if precision.weights is Dtype.FP32:
        yield Finding(
            field="precision/master_weights",
            code="conflict",
            detail="master_weights with weights fp32: the weights are the master copy",
            hint='write weights bf16, or master_weights false (the preset "bf16-mixed")',
            value=True,
        )


def optimizer_fields(case: Case) -> Iterator[Finding]:
    """Rank, quantised projector and step implementation belong to some optimizers only."""
    said, name = case.said.optimizer, case.job.optimizer.name
    if said.rank is not None and name not in PROJECTED:
        yield Finding(
            field="optimizer/rank",
            code="not_applicable",
            detail=f"optimizer.rank {said.rank} with {name.value}, which projects nothing",
            hint="leave it out; galore_adamw and apollo_adamw have a rank",
            value=said.rank,
        )
    if said.quantized and name not in PROJECTED:
        yield Finding(
            field="optimizer/quantized",
            code="not_applicable",
            detail=f"optimizer.quantized with {name.value}, which has no projector",
            hint="leave it out; 8-bit states are adamw_8bit",
            value=True,
        )
    unfused = {OptimizerName.RMSPROP, OptimizerName.ADAGRAD}
    if said.implementation == OptimizerImplementation.FUSED and name in unfused:
        yield Finding(
            field="optimizer/implementation",
            code="not_applicable",
            detail=f"torch has no fused {name.value} on GPUs",
            hint='write "foreach"',
            value=said.implementation,
        )
