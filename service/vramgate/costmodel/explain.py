"""The bill: every component at the peak with the formula that made it, the numbers filled in."""

from collections import defaultdict
from collections.abc import Callable

from vramgate.costmodel.breakdown import BillLine, Component
from vramgate.costmodel.job import ShardingImplementation
from vramgate.costmodel.moments import Moment
from vramgate.costmodel.rest import (
    BIDIRECTIONAL,
    WITH_REFERENCE,
    shared_gradients,
    standing_gathered,
)
from vramgate.costmodel.sharding import SHARDS_GRADIENTS, SHARDS_OPTIMIZER, SHARDS_WEIGHTS
from vramgate.costmodel.states import States
from vramgate.costmodel.step import Step
from vramgate.costmodel.tape import ACTIVATION
from vramgate.costmodel.terms import FIRST_PRINCIPLES, Factors, factor_on, with_factors
from vramgate.costmodel.weights import Weight

ORDER = tuple(Component)
DTYPE_BY_WIDTH = {4: "fp32", 2: "16-bit", 1: "8-bit"}


def bill(step: Step, peak: Moment, factors: Factors = FIRST_PRINCIPLES) -> tuple[BillLine, ...]:
    """Return the lines of the bill, largest first; their bytes add up to the peak exactly."""
    sizes = with_factors(peak.components, factors)
    lines = [
        BillLine(
            component=component,
            bytes=sizes[component],
            formula=_FORMULAS[component](step, peak) + _factor(component, factors),
            note=_NOTES.get(component, ""),
        )
        for component in ORDER
        if sizes.get(component)
    ]
    return tuple(sorted(lines, key=lambda line: -line.bytes))


def _factor(component: Component, factors: Factors) -> str:
    """Return the factor of a component as it is multiplied; nothing where it has none."""
    factor = factor_on(component, factors)
    return "" if factor is None else f", × {factor:.6f} by calibration"


def _weights(step: Step, peak: Moment) -> str:
    total = peak.components[Component.WEIGHTS]
    if step.job.sharding.offload_parameters != "none":
        return f"parameters wait on the host; {total:,} of scales and buffers stay"
    held: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for count, weight in _layers(step):
        for name, elements, size in _storages(weight):
            held[name][0] += count * elements
            held[name][1] += count * size
    terms = [f"{elements:,} {name} = {size:,}" for name, (elements, size) in held.items() if size]
    share = _share(step, from_stage=SHARDS_WEIGHTS)
    shared = step.plan.weights_share(
        sum(size for _, size in held.values()), step.model.expert_states.weights
    )
    if share and step.model.expert_states.weights:
        dealt = step.model.expert_states.weights
        share += f", but {dealt:,} of it, of experts, ÷ {step.plan.expert_ranks}"
    text = f"({' + '.join(terms)}){share}" if share else " + ".join(terms)
    rest = total - shared
    if not rest:
        return text
    kinds = ["buffers"]
    if share:
        kinds.append("what is not sharded")
    if step.job.task in WITH_REFERENCE:
        kinds.append("the reference model")
    if step.job.parallelism.pipeline_schedule == BIDIRECTIONAL:
        kinds.append("the second stage")
    return f"{text} + {rest:,} ({', '.join(kinds)})"


def _layers(step: Step) -> list[tuple[int, Weight]]:
    found = [
        (count, weight) for count, layer in step.model.layers for weight in layer.weights.values()
    ]
    found.extend((1, weight) for weight in step.model.outside.values())
    return found


def _storages(weight: Weight) -> list[tuple[str, int, int]]:
    """Return name, elements and bytes of each way a module's parameters are stored."""
    kind = f"parameters × {weight.rest_width} bytes"
    if weight.quantization is not None:
        kind = f"parameters in {weight.quantization}, scales included"
    stored = [(kind, weight.parameters, weight.stored_bytes)]
    if weight.saved_copy_bytes:
        stored.append(
            ("frozen originals of modules to save", weight.parameters, weight.saved_copy_bytes)
        )
    if weight.adapter is not None:
        adapter = weight.adapter
        elements = adapter.a.elements + adapter.b.elements + adapter.magnitude_elements
        width = adapter.a.rest_width
        stored.append((f"adapter parameters × {width} bytes", elements, elements * width))
    return stored


def _share(step: Step, *, from_stage: int) -> str:
    plan = step.plan
    return f" ÷ {plan.ranks} ranks" if plan.stage >= from_stage else ""


def _of_trained(
    step: Step, which: Callable[[States], int], *, from_stage: int, note: str = ""
) -> str:
    """Return a sum over everything that trains as it is shared out: experts over ranks of their own."""
    whole, experts = step.model.states, step.model.expert_states
    plan = step.plan
    apart = plan.stage >= from_stage and which(experts) > 0
    terms = []
    dealt = experts if apart else States()
    size, trained = which(whole) - which(dealt), whole.trainable - dealt.trainable
    if size:
        terms.append(_term(size, trained, "trainable parameters") + note)
        terms[-1] += _share(step, from_stage=from_stage)
    if apart:
        term = _term(which(experts), experts.trainable, "trainable parameters of experts")
        terms.append(f"{term}{note} ÷ {plan.expert_ranks} ranks")
    return " + ".join(terms)


def _term(size: int, trained: int, name: str) -> str:
    """Return bytes as a product where every parameter takes the same, else as they are."""
    each, rest = divmod(size, max(trained, 1))
    if rest or not each:
        return f"{size:,} bytes for {trained:,} {name}"
    return f"{trained:,} {name} × {each} bytes"


def _on_card(step: Step) -> str:
    sharding = step.job.sharding
    if sharding.offload_optimizer == "none":
        return ""
    return f", {1 - sharding.offload_fraction:.3g} of it on the card"


def _optimizer_states(step: Step, peak: Moment) -> str:
    del peak
    name = step.job.optimizer.name
    text = _of_trained(
        step, lambda states: states.optimizer, from_stage=SHARDS_OPTIMIZER, note=f" ({name})"
    )
    return text + _on_card(step)


def _master_weights(step: Step, peak: Moment) -> str:
    del peak
    text = _of_trained(step, lambda states: states.master, from_stage=SHARDS_OPTIMIZER)
    return text + _on_card(step)


def _gradients(step: Step, peak: Moment) -> str:
    size = peak.components[Component.GRADIENTS]
    if size == shared_gradients(step.model, step.plan):
        return _of_trained(step, lambda states: states.gradients, from_stage=SHARDS_GRADIENTS)
    if step.plan.accumulates_whole:
        return f"unsharded gradients kept between micro-batches: {size:,}"
    return f"gradients made so far ({peak.label}): {size:,}"


def _activations(step: Step, peak: Moment) -> str:
    terms = []
    rest = peak.components[Component.ACTIVATIONS]
    for (layer, segment), number in peak.waiting.items():
        kept = segment.kept[ACTIVATION]
        if number and kept:
            terms.append(f"{number} waiting {layer.block.name} blocks × {kept:,}")
            rest -= number * kept
    if rest:
        where = "the running block, inputs, tables" if terms else "kept tensors, inputs, tables"
        terms.append(f"{rest:,} ({where})")
    tokens = step.setting.tokens
    return " + ".join(terms) + f" for {tokens:,} tokens"


def _logits(step: Step, peak: Moment) -> str:
    tokens, vocabulary = step.setting.tokens, step.job.architecture.vocab_size
    size = peak.components[Component.LOGITS]
    each, rest = divmod(size, max(tokens * vocabulary, 1))
    if not each:
        return f"{size:,} of logits in chunks, for {tokens:,} tokens × {vocabulary:,} vocabulary"
    more = f" + {rest:,}" if rest else ""
    return f"{tokens:,} tokens × {vocabulary:,} vocabulary × {each:,} bytes alive at once{more}"


def _temporaries(step: Step, peak: Moment) -> str:
    size = peak.components[Component.TEMPORARIES]
    if peak.label == "optimizer step":
        optimizer = step.job.optimizer
        return f"{optimizer.name} {optimizer.implementation}: {size:,} for the update"
    return f"{peak.label}: {size:,} for a moment"


def _communication_buffers(step: Step, peak: Moment) -> str:
    size = peak.components[Component.COMMUNICATION_BUFFERS]
    if step.plan.implementation is ShardingImplementation.DDP:
        return f"a second copy of every gradient in buckets: {size:,}"
    return f"reduction buckets: {size:,}"


def _gathered(step: Step, peak: Moment) -> str:
    size = peak.components[Component.GATHERED_PARAMETERS]
    root = standing_gathered(step.model, step.plan)
    if size > root:
        return f"outside the blocks {root:,} + gathered blocks {size - root:,}"
    return f"gathered for the whole step: {root:,}"


def _cast_cache(step: Step, peak: Moment) -> str:
    size = peak.components[Component.AUTOCAST_CACHE]
    return f"{size // step.setting.compute_width:,} weights × {step.setting.compute_width} bytes"


def _dequantization(step: Step, peak: Moment) -> str:
    del step
    return f"one weight unpacked: {peak.components[Component.DEQUANTIZATION]:,}"


def _workspace(step: Step, peak: Moment) -> str:
    del step
    return f"{peak.components[Component.WORKSPACE]:,}"


_FORMULAS: dict[Component, Callable[[Step, Moment], str]] = {
    Component.WEIGHTS: _weights,
    Component.GRADIENTS: _gradients,
    Component.OPTIMIZER_STATES: _optimizer_states,
    Component.MASTER_WEIGHTS: _master_weights,
    Component.ACTIVATIONS: _activations,
    Component.LOGITS: _logits,
    Component.AUTOCAST_CACHE: _cast_cache,
    Component.TEMPORARIES: _temporaries,
    Component.COMMUNICATION_BUFFERS: _communication_buffers,
    Component.GATHERED_PARAMETERS: _gathered,
    Component.DEQUANTIZATION: _dequantization,
    Component.WORKSPACE: _workspace,
}

_NOTES = {
    Component.WEIGHTS: "parameters at rest on this rank, with buffers",
    Component.ACTIVATIONS: "what autograd keeps for backward",
    Component.LOGITS: "tensors as wide as the vocabulary, in the loss",
    Component.AUTOCAST_CACHE: "16-bit copies of fp32 weights that autocast makes and keeps",
    Component.TEMPORARIES: "tensors that live for a moment, with the gradients of activations",
    Component.GATHERED_PARAMETERS: "whole parameters put together from their shards",
    Component.DEQUANTIZATION: "a quantised weight in the compute format, for one product",
}
