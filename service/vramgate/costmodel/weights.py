"""How each weight is held: its number format, whether it trains, its quantised storage, its adapter.

``Weight`` is a module under a method and a precision, on one rank: what the operations and the static sum need.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from vramgate.costmodel.architecture import Block, Module, ModuleKind, Part
from vramgate.costmodel.job import Method, MethodKind, TrainingJob
from vramgate.costmodel.quantization import quantized_bytes, unpacked_scale_bytes
from vramgate.units import Bytes, Count

FP32_BYTES = 4
STACKED_EXPERTS_SINCE = (5, 0)
"""transformers holds experts as stacked 3-D parameters from here on; before, as lists of linear layers."""


@dataclass(slots=True, kw_only=True)
class Adapter:
    """A LoRA adapter of one linear layer: A is rank × in, B is out × rank."""

    a: "Weight"
    b: "Weight"
    dropout: float
    magnitude_elements: Count
    """DoRA's magnitude vector; 0 without DoRA."""
    has_magnitude: bool


@dataclass(slots=True, kw_only=True, eq=False)
class Weight:
    """One weight as it lies on a card."""

    module: Module
    in_features: Count
    out_features: Count
    elements: Count
    """Elements of the weight itself."""
    bias_elements: Count
    width: int
    """Bytes an element of the weight (and bias) takes where it is not quantised."""
    trainable: bool
    stored_bytes: Bytes
    """Bytes of weight and bias at rest: quantised storage with its scales, or elements × width."""
    quantization: str | None = None
    absmax_bytes: Bytes = 0
    """What dequantisation makes before the weight: the unpacked block scales."""
    adapter: Adapter | None = None
    saved_copy_bytes: Bytes = 0
    """peft ``modules_to_save``: the frozen original beside the trainable copy."""

    @property
    def has_bias(self) -> bool:
        """Whether the layer adds a bias."""
        return self.module.bias > 0

    @property
    def parameters(self) -> Count:
        """Parameters of weight and bias."""
        return self.elements + self.bias_elements

    @property
    def trainable_elements(self) -> Count:
        """Parameters that train here: the weight's own or its adapter's."""
        own = self.parameters if self.trainable else 0
        if self.adapter is None:
            return own
        adapter = self.adapter
        return own + adapter.a.elements + adapter.b.elements + adapter.magnitude_elements

    @property
    def trainable_width(self) -> int:
        """Bytes of an element of what trains here."""
        return self.width if self.adapter is None else self.adapter.a.width


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
        return module.part is not Part.HEAD
    name = module.path if module.part is Part.HEAD else f"model.layers.0.{module.path}"
    if isinstance(targets, str):
        return re.fullmatch(targets, name) is not None
    return any(name == target or name.endswith(f".{target}") for target in targets)


def held_weights(
    modules: Iterable[Module], job: TrainingJob, *, in_block: bool, trainable_layer: bool = True
) -> dict[str, Weight]:
    """Return each module's weight by role, as method and precision hold it.

    ``in_block``: modules of a block are quantised by QLoRA, those outside stay whole. ``trainable_layer``: with
    partial freezing, whether this layer trains.
    """
    return {
        module.role: held_weight(module, job, in_block=in_block, trainable_layer=trainable_layer)
        for module in modules
    }


def held_weight(
    module: Module, job: TrainingJob, *, in_block: bool, trainable_layer: bool = True
) -> Weight:
    """Return one module as method and precision hold it."""
    method = job.method
    width = job.precision.weights.bytes
    trainable = method.kind is MethodKind.FULL or (
        method.kind is MethodKind.FREEZE and trainable_layer
    )
    elements = module.weight * module.copies
    bias = module.bias * module.copies
    weight = Weight(
        module=module,
        in_features=module.in_features,
        out_features=module.out_features,
        elements=elements,
        bias_elements=bias,
        width=width,
        trainable=trainable,
        stored_bytes=(elements + bias) * width,
    )
    if trainable:
        return weight
    if method.frozen_dtype is not None:
        weight.width = method.frozen_dtype.bytes
    stacked = job.software.transformers >= STACKED_EXPERTS_SINCE
    quantizable = module.is_linear or (module.kind is ModuleKind.EXPERTS and not stacked)
    if method.kind is MethodKind.QLORA and in_block and quantizable:
        _quantize(weight, method)
    elif method.kind is MethodKind.QLORA and method.prepare_for_kbit_training:
        weight.width = FP32_BYTES
    if weight.quantization is None:
        weight.stored_bytes = weight.parameters * weight.width
    name = module.path.rsplit(".", 1)[-1]
    if name in method.modules_to_save:
        weight.saved_copy_bytes = weight.stored_bytes
        weight.trainable = True
        weight.width = method.adapter_dtype.bytes
        weight.stored_bytes = weight.parameters * weight.width
    elif method.kind in {MethodKind.LORA, MethodKind.QLORA} and is_adapted(
        module, method.target_modules, stacked_experts=stacked
    ):
        weight.adapter = _adapter(module, method)
    return weight


def _quantize(weight: Weight, method: Method) -> None:
    quantization = method.quantization or "nf4"
    copies = weight.module.copies
    weight.quantization = quantization
    weight.stored_bytes = (
        quantized_bytes(
            quantization,
            in_features=weight.in_features,
            out_features=weight.out_features,
            double_quant=method.double_quant,
        )
        * copies
        + weight.bias_elements * weight.width
    )
    weight.absmax_bytes = unpacked_scale_bytes(
        quantization, weight.module.weight, double_quant=method.double_quant
    )


def _adapter(module: Module, method: Method) -> Adapter:
    a = _adapter_weight(module, method, module.in_features, method.rank)
    b = _adapter_weight(module, method, method.rank, module.out_features)
    return Adapter(
        a=a,
        b=b,
        dropout=method.dropout,
        magnitude_elements=module.out_features * module.copies if method.dora else 0,
        has_magnitude=method.dora,
    )


_ADAPTER_MODULE = Module(path="lora", part=Part.OTHER, kind=ModuleKind.LINEAR, role="adapter")


def _adapter_weight(
    module: Module, method: Method, in_features: Count, out_features: Count
) -> Weight:
    elements = in_features * out_features * module.copies
    width = method.adapter_dtype.bytes
    return Weight(
        module=_ADAPTER_MODULE,
        in_features=in_features,
        out_features=out_features,
        elements=elements,
        bias_elements=0,
        width=width,
        trainable=True,
        stored_bytes=elements * width,
    )


def block_weights(block: Block, job: TrainingJob, *, trainable_layer: bool = True) -> dict[str, Weight]:
    """Return the weights of one block by role."""
    return held_weights(block.modules, job, in_block=True, trainable_layer=trainable_layer)
