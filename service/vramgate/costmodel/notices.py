"""What is known to mislead about a job, with its numbers: the warnings of the cost model."""

from vramgate.costmodel.breakdown import Component, EstimateWarning, Phase
from vramgate.costmodel.job import AttentionImplementation, Loss, MethodKind
from vramgate.costmodel.moments import Moment
from vramgate.costmodel.rank_model import ties_against_config
from vramgate.costmodel.step import Step
from vramgate.units import format_gib

WORTH_SAYING = 0.05
"""Share of the peak from which a component is worth a warning."""


def notices(step: Step, peak: Moment) -> tuple[EstimateWarning, ...]:
    """Return the warnings that the numbers of this estimate call for."""
    found = [
        _autocast_cache(peak),
        _foreach(step, peak),
        _logits(step, peak),
        _eager(step, peak),
        _kbit(step),
        _tied(step),
        *(EstimateWarning(code="approximate_model", message=text) for text in _approximate(step)),
    ]
    return tuple(warning for warning in found if warning is not None)


def _share(peak: Moment, component: Component) -> float:
    return float(peak.components.get(component, 0)) / max(float(peak.bytes), 1.0)


def _autocast_cache(peak: Moment) -> EstimateWarning | None:
    if _share(peak, Component.AUTOCAST_CACHE) < WORTH_SAYING:
        return None
    size = format_gib(int(peak.components[Component.AUTOCAST_CACHE]))
    return EstimateWarning(
        code="autocast_weight_cache",
        message=f"Autocast keeps {size} of 16-bit weight copies until the forward pass ends, even with "
        "activation checkpointing; weights in bf16 would not need them.",
    )


def _foreach(step: Step, peak: Moment) -> EstimateWarning | None:
    if peak.phase is not Phase.OPTIMIZER_STEP or _share(peak, Component.TEMPORARIES) < WORTH_SAYING:
        return None
    if step.job.optimizer.implementation != "foreach":
        return None
    size = format_gib(int(peak.components[Component.TEMPORARIES]))
    return EstimateWarning(
        code="foreach_temporary",
        message=f"The foreach optimizer step makes a {size} temporary and is the peak; the fused "
        "implementation makes none.",
    )


def _logits(step: Step, peak: Moment) -> EstimateWarning | None:
    if _share(peak, Component.LOGITS) < WORTH_SAYING or step.job.loss is Loss.FUSED_LINEAR:
        return None
    size = format_gib(int(peak.components[Component.LOGITS]))
    return EstimateWarning(
        code="large_vocabulary_logits",
        message=f"Tensors as wide as the vocabulary ({step.job.architecture.vocab_size:,}) take {size} "
        "at the peak; a fused linear loss never makes them whole.",
    )


def _tied(step: Step) -> EstimateWarning | None:
    if not ties_against_config(step.job):
        return None
    major, minor = step.job.software.transformers
    return EstimateWarning(
        code="head_tied_by_framework",
        message=f"transformers {major}.{minor} ties the output layer of this family to the embedding, though the "
        "config keeps them apart: one of the two tables is not counted.",
    )


def _eager(step: Step, peak: Moment) -> EstimateWarning | None:
    if step.job.attention is not AttentionImplementation.EAGER:
        return None
    if _share(peak, Component.ACTIVATIONS) + _share(peak, Component.TEMPORARIES) < WORTH_SAYING:
        return None
    return EstimateWarning(
        code="eager_attention",
        message="Eager attention keeps every score matrix: memory grows with the square of the "
        f"sequence length ({int(step.setting.sequence):,} here); sdpa or flash attention does not.",
    )


def _kbit(step: Step) -> EstimateWarning | None:
    method = step.job.method
    if method.kind is not MethodKind.QLORA or not method.prepare_for_kbit_training:
        return None
    outside = step.model.outside_states
    size = format_gib(int(outside.weights // 2))
    return EstimateWarning(
        code="kbit_upcast",
        message="prepare_model_for_kbit_training raises embeddings, norms and the output layer to fp32: "
        f"{size} more than in 16 bits, and an fp32 residual stream.",
    )


def _approximate(step: Step) -> tuple[str, ...]:
    return step.job.architecture.approximate
