"""How each weight is held: its number format, whether it trains, its quantised storage, its adapter.

``Weight`` is a module under a method and a precision, on one rank: what the operations and the static sum need.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vramgate.costmodel.architecture import Module, ModuleKind, Part
from vramgate.costmodel.expert_adapters import is_adapted_parameter, mapped_names, rank_factor
from vramgate.costmodel.job import Dtype, Method, MethodKind, ShardingImplementation, TrainingJob
from vramgate.costmodel.quantization import quantized_storage, unpacked_scale_bytes

FP32_BYTES = 4
ADAPTING = frozenset({MethodKind.LORA, MethodKind.QLORA})
QUANTIZES_HEAD = frozenset({"litgpt"})
"""Frameworks that quantise every linear layer, the output layer too."""
FULLY_SHARDED = frozenset({ShardingImplementation.FSDP, ShardingImplementation.FSDP2})
ACCELERATE_FRAMEWORKS = frozenset(
    {"transformers", "trl", "llama_factory", "axolotl", "ms-swift", "accelerate"}
)
"""Frameworks that shard through accelerate, which raises trainable parameters to fp32 under mixed precision."""
STACKED_EXPERTS_SINCE = (5, 0)
"""transformers holds experts as stacked 3-D parameters from here on; before, as lists of linear layers."""


@dataclass(slots=True, kw_only=True)
class Adapter:
    """A LoRA adapter of one linear layer: A is rank × in, B is out × rank."""

    a: "Weight"
    b: "Weight"
    dropout: float
    magnitude_elements: int
    """DoRA's magnitude vector; 0 without DoRA."""
    has_magnitude: bool


@dataclass(slots=True, kw_only=True, eq=False)
class Weight:
    """One weight as it lies on a card."""

    module: Module
    in_features: int
    out_features: int
    elements: int
    """Elements of the weight itself."""
    bias_elements: int
    width: int
    """Bytes of an element as the operations see it (gathered, where a framework gathers)."""
    rest_width: int
    """Bytes of an element at rest: what the optimizer updates."""
    trainable: bool
    stored_bytes: int
    """Bytes of weight and bias at rest: quantised storage with its scales, or elements × rest_width."""
    replicated_bytes: int = 0
    """The part of ``stored_bytes`` that sharding leaves on every rank: scales of quantised weights."""
    quantization: str | None = None
    absmax_bytes: int = 0
    """What dequantisation makes before the weight: the unpacked block scales."""
    adapter: Adapter | None = None
    saved_copy_bytes: int = 0
    """peft ``modules_to_save``: the frozen original beside the trainable copy."""

    @property
    def has_bias(self) -> bool:
        """Whether the layer adds a bias."""
        return self.module.bias > 0

    @property
    def parameters(self) -> int:
        """Parameters of weight and bias."""
        return self.elements + self.bias_elements

    @property
    def trainable_elements(self) -> int:
        """Parameters that train here: the weight's own or its adapter's."""
        own = self.parameters if self.trainable else 0
        if self.adapter is None:
            return own
        adapter = self.adapter
        return own + adapter.a.elements + adapter.b.elements + adapter.magnitude_elements

    @property
    def gathered_bytes(self) -> int:
        """Bytes of the whole weight as a framework gathers it for use: packed where it is quantised."""
        adapters = 0
        if self.adapter is not None:
            sides = self.adapter.a, self.adapter.b
            adapters = sum(side.elements * side.width for side in sides)
        if self.quantization is not None:
            return self.stored_bytes - self.replicated_bytes + adapters
        return self.parameters * self.width + adapters


ADAPTED_HEADS = frozenset({"classifier"})
"""Output layers that ``all-linear`` takes: peft leaves out a model's output embedding alone."""


def is_adapted(module: Module, targets: str | tuple[str, ...], *, stacked_experts: bool) -> bool:
    """Return whether a LoRA with these ``target_modules`` adapts a module, as peft decides it.

    A list matches whole names or dotted suffixes; a string is a regular expression over the whole name, and
    "all-linear" is every linear layer except the output head.

    >>> from vramgate.costmodel.architecture import linear
    >>> query = linear("self_attn.q_proj", Part.ATTENTION, "query", 8, 8)
    >>> is_adapted(query, ("q_proj", "v_proj"), stacked_experts=True)
    True
    """
    if module.kind is ModuleKind.EXPERTS:
        if stacked_experts:
            return False
    elif not module.is_linear:
        return False
    if targets == "all-linear":
        return module.role != "head" or module.path in ADAPTED_HEADS
    name = module.path if module.part is Part.HEAD else f"model.layers.0.{module.path}"
    if isinstance(targets, str):
        return re.fullmatch(targets, name) is not None
    return f".{name}".endswith(tuple([f".{target}" for target in targets]))


def held_weights(
    modules: Iterable[Module], job: TrainingJob, *, in_block: bool, trainable_layer: bool = True
) -> dict[str, Weight]:
    """Return each module's weight by role, as method and precision hold it.

    A role that occurs again is numbered: ``position_embedding#2`` is the decoder's of an encoder-decoder.

    ``in_block``: modules of a block are quantised by QLoRA, those outside stay whole. ``trainable_layer``: with
    partial freezing, whether this layer trains.
    """
    weights: dict[str, Weight] = {}
    widths = widths_in_use(job)
    trainable = _trains_itself(job.method, trainable_layer=trainable_layer)
    for module in modules:
        role, number = module.role, 1
        while role in weights:
            number += 1
            role = f"{module.role}#{number}"
        weights[role] = _held(module, job, widths, in_block=in_block, trainable=trainable)
    return weights


def held_weight(
    module: Module, job: TrainingJob, *, in_block: bool, trainable_layer: bool = True
) -> Weight:
    """Return one module as method and precision hold it."""
    trainable = _trains_itself(job.method, trainable_layer=trainable_layer)
    return _held(module, job, widths_in_use(job), in_block=in_block, trainable=trainable)


def _trains_itself(method: Method, *, trainable_layer: bool) -> bool:
    """Return whether weights train, not adapters beside them: all of them, or those of the layers left to train."""
    return method.kind is MethodKind.FULL or (method.kind is MethodKind.FREEZE and trainable_layer)


def _held(
    module: Module,
    job: TrainingJob,
    widths: "WidthsInUse",
    *,
    in_block: bool,
    trainable: bool,
) -> Weight:
    """Return one module as ``held_weight`` does; ``widths``: those of the job, found once for all its modules."""
    own = widths.trainable if trainable else widths.frozen
    weight = Weight(
        module=module,
        in_features=module.in_features,
        out_features=module.out_features,
        elements=module.weight * module.copies,
        bias_elements=module.bias * module.copies,
        width=own.width,
        rest_width=own.rest,
        trainable=trainable,
        stored_bytes=0,
    )
    if not trainable:
        _hold_frozen(weight, job, widths.adapter, in_block=in_block)
    if weight.quantization is None:
        weight.stored_bytes = weight.parameters * weight.rest_width
    return weight


class Widths(NamedTuple):
    """Bytes of an element in use and at rest."""

    width: int
    rest: int


class WidthsInUse(NamedTuple):
    """The widths of a job's base weights that train, of those that do not, and of adapters."""

    trainable: Widths
    frozen: Widths
    adapter: Widths


def widths_in_use(job: TrainingJob) -> WidthsInUse:
    """Return the widths of every kind of weight."""
    frozen = job.method.frozen_dtype
    return WidthsInUse(
        trainable=trainable_widths(job),
        frozen=_gathered_widths(job, job.precision.weights if frozen is None else frozen),
        adapter=_gathered_widths(job, job.method.adapter_dtype),
    )


def is_mixed_sharding(job: TrainingJob) -> bool:
    """Return whether FSDP gathers parameters in the compute format (its ``MixedPrecision``)."""
    precision = job.precision
    mixed = precision.autocast or precision.weights.bytes > precision.compute.bytes
    return mixed and job.sharding.implementation in FULLY_SHARDED


def trainable_widths(job: TrainingJob) -> Widths:
    """Return the widths of base weights that train."""
    stored = job.precision.weights.bytes
    if not is_mixed_sharding(job):
        return Widths(stored, stored)
    rest = FP32_BYTES if job.software.framework in ACCELERATE_FRAMEWORKS else stored
    return Widths(job.precision.compute.bytes, rest)


def _gathered_widths(job: TrainingJob, stored: Dtype) -> Widths:
    """Return the widths of weights that rest as they are stored, and are gathered no wider than products need."""
    if is_mixed_sharding(job):
        return Widths(min(stored.bytes, job.precision.compute.bytes), stored.bytes)
    return Widths(stored.bytes, stored.bytes)


def _hold_frozen(weight: Weight, job: TrainingJob, of_adapter: Widths, *, in_block: bool) -> None:
    """Quantise, raise, save or adapt a weight that does not train by itself."""
    method, module = job.method, weight.module
    stacked = job.software.transformers >= STACKED_EXPERTS_SINCE
    if method.kind is MethodKind.QLORA:
        quantizable = module.is_linear or (module.kind is ModuleKind.EXPERTS and not stacked)
        quantized_here = in_block or (
            module.part is Part.HEAD and job.software.framework in QUANTIZES_HEAD
        )
        if quantized_here and quantizable:
            _quantize(weight, method)
        elif method.prepare_for_kbit_training:
            weight.width = weight.rest_width = FP32_BYTES
    name = module.path.rsplit(".", 1)[-1]
    if name in method.modules_to_save:
        weight.saved_copy_bytes = weight.parameters * weight.rest_width
        weight.trainable = True  # peft copies the module in its own format; only adapters are cast
    elif method.kind in ADAPTING:
        if name in mapped_names(job):
            if is_adapted_parameter(module, method.target_modules):
                factor = rank_factor(module)
                weight.adapter = _adapter(module, method, of_adapter, factor=factor)
        elif is_adapted(module, method.target_modules, stacked_experts=stacked):
            weight.adapter = _adapter(module, method, of_adapter)


def _quantize(weight: Weight, method: Method) -> None:
    quantization = method.quantization or "nf4"
    module = weight.module
    storage = quantized_storage(
        quantization,
        in_features=module.in_features,
        out_features=module.out_features,
        double_quant=method.double_quant,
    )
    weight.quantization = quantization
    weight.stored_bytes = storage.total * module.copies + weight.bias_elements * weight.rest_width
    weight.replicated_bytes = storage.replicated * module.copies
    weight.absmax_bytes = unpacked_scale_bytes(
        quantization, module.weight, double_quant=method.double_quant
    )


def _adapter(module: Module, method: Method, widths: Widths, *, factor: int = 1) -> Adapter:
    """Return a module's adapter; ``factor``: how much wider its second factor is than the rank (fused experts)."""
    return Adapter(
        a=_adapter_weight(module, widths, module.in_features, method.rank),
        b=_adapter_weight(module, widths, factor * method.rank, module.out_features),
        dropout=method.dropout,
        magnitude_elements=module.out_features * module.copies if method.dora else 0,
        has_magnitude=method.dora,
    )


_ADAPTER_MODULE = Module(path="lora", part=Part.OTHER, kind=ModuleKind.LINEAR, role="adapter")


def _adapter_weight(module: Module, widths: Widths, in_features: int, out_features: int) -> Weight:
    elements = in_features * out_features * module.copies
    return Weight(
        module=_ADAPTER_MODULE,
        in_features=in_features,
        out_features=out_features,
        elements=elements,
        bias_elements=0,
        width=widths.width,
        rest_width=widths.rest,
        trainable=True,
        stored_bytes=elements * widths.rest,
    )
