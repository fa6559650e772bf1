"""The parts of a job as they arrive, and their ways to the parts of a ``JobDescription``.

Short forms (``"lora"``, ``"bf16-mixed"``) become objects before validation, so that one set of
fields carries the bounds.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from vramgate.costmodel.job import (
    CheckpointMode,
    Dtype,
    MethodKind,
    OptimizerName,
    ShardingImplementation,
)
from vramgate.jobs.description import (
    BucketsDescription,
    CheckpointingDescription,
    HardwareDescription,
    MethodDescription,
    ModelDescription,
    OptimizerDescription,
    ParallelismDescription,
    PrecisionDescription,
    ShardingDescription,
    SoftwareDescription,
)
from vramgate.jobs.precision import PrecisionPreset, preset_description
from vramgate.jobs.vocabulary import (
    LinearFormat,
    Offload,
    OptimizerImplementation,
    PipelineSchedule,
    Quantization,
    Wrap,
)
from vramgate.wire.model_config import ModelConfig
from vramgate.wire.numbers import (
    MAX_BYTES,
    MAX_PARAMETERS,
    MAX_PATTERN,
    MAX_RANK,
    TEXT,
    WHOLE,
    ByteCount,
    ElementCount,
    Flag,
    Fraction,
    ModuleName,
    Size,
    Text,
)

Rank: TypeAlias = Annotated[int, Field(ge=1, le=MAX_RANK), WHOLE]
Layers: TypeAlias = Annotated[int, Field(ge=1, le=4096), WHOLE]
TargetPattern: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_PATTERN), TEXT
]
ModuleNames: TypeAlias = Annotated[tuple[ModuleName, ...], Field(max_length=256)]


def _target_form(value: object) -> str | None:
    if isinstance(value, str):
        return "pattern"
    return "names" if isinstance(value, list | tuple) else None


TargetModules: TypeAlias = Annotated[
    Annotated[tuple[ModuleName, ...], Field(min_length=1, max_length=256), Tag("names")]
    | Annotated[TargetPattern, Tag("pattern")],
    Discriminator(
        _target_form,
        custom_error_type="target_modules",
        custom_error_message='Input should be a list of names, a regular expression or "all-linear"',
    ),
]
"""Last parts of module names, or one regular expression, or "all-linear", as peft takes them."""


class WireIn(BaseModel):
    """Base of what arrives: unknown fields are refused, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelIn(WireIn):
    """Exactly one of a catalog name, a Hugging Face ``config.json``, a number of parameters."""

    name: Text | None = None
    config: ModelConfig | None = None
    parameters: Annotated[int, Field(ge=1, le=MAX_PARAMETERS), WHOLE] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [
            field for field in ("name", "config", "parameters") if getattr(self, field) is not None
        ]
        if len(given) != 1:
            raise PydanticCustomError(
                "exactly_one",
                "Give exactly one of name, config and parameters; got {given}",
                {"given": ", ".join(given) or "none"},
            )
        return self

    def to_domain(self) -> ModelDescription:
        """Return the domain value."""
        return ModelDescription(name=self.name, config=self.config, parameters=self.parameters)


class MethodIn(WireIn):
    """Which parameters train."""

    kind: MethodKind | None = None
    rank: Rank | None = None
    target_modules: TargetModules | None = None
    dropout: Fraction | None = None
    dora: Flag | None = None
    modules_to_save: ModuleNames | None = None
    adapter_dtype: Dtype | None = None
    frozen_dtype: Dtype | None = None
    quantization: Quantization | None = None
    double_quant: Flag | None = None
    prepare_for_kbit_training: Flag | None = None
    trainable_layers: Layers | None = None

    def to_domain(self) -> MethodDescription:
        """Return the domain value."""
        return MethodDescription(
            kind=self.kind,
            rank=self.rank,
            target_modules=self.target_modules,
            dropout=self.dropout,
            dora=self.dora,
            modules_to_save=self.modules_to_save,
            adapter_dtype=self.adapter_dtype,
            frozen_dtype=self.frozen_dtype,
            quantization=self.quantization,
            double_quant=self.double_quant,
            prepare_for_kbit_training=self.prepare_for_kbit_training,
            trainable_layers=self.trainable_layers,
        )


class PrecisionIn(WireIn):
    """Number formats of weights, products, gradients and states."""

    weights: Dtype | None = None
    compute: Dtype | None = None
    autocast: Flag | None = None
    gradients: Dtype | None = None
    master_weights: Flag | None = None
    optimizer_states: Dtype | None = None
    linear: LinearFormat | None = None

    def to_domain(self) -> PrecisionDescription:
        """Return the domain value."""
        return PrecisionDescription(
            weights=self.weights,
            compute=self.compute,
            autocast=self.autocast,
            gradients=self.gradients,
            master_weights=self.master_weights,
            optimizer_states=self.optimizer_states,
            linear=self.linear,
        )


class OptimizerIn(WireIn):
    """The optimizer and how its step runs."""

    name: OptimizerName | None = None
    implementation: OptimizerImplementation | None = None
    in_backward: Flag | None = None
    rank: Rank | None = None
    quantized: Flag | None = None

    def to_domain(self) -> OptimizerDescription:
        """Return the domain value."""
        return OptimizerDescription(
            name=self.name,
            implementation=self.implementation,
            in_backward=self.in_backward,
            rank=self.rank,
            quantized=self.quantized,
        )


class CheckpointingIn(WireIn):
    """Activation checkpointing."""

    mode: CheckpointMode | None = None
    every_n_layers: Layers | None = None
    offload: Flag | None = None
    reentrant: Flag | None = None
    modules: ModuleNames | None = None

    def to_domain(self) -> CheckpointingDescription:
        """Return the domain value."""
        return CheckpointingDescription(
            mode=self.mode,
            every_n_layers=self.every_n_layers,
            offload=self.offload,
            reentrant=self.reentrant,
            modules=self.modules,
        )


class ParallelismIn(WireIn):
    """Model-parallel sizes; the data-parallel size is what is left of the devices."""

    tensor_parallel_size: Size | None = None
    pipeline_parallel_size: Size | None = None
    context_parallel_size: Size | None = None
    expert_parallel_size: Size | None = None
    sequence_parallel: Flag | None = None
    pipeline_schedule: PipelineSchedule | None = None
    virtual_pipeline_stages: Layers | None = None

    def to_domain(self) -> ParallelismDescription:
        """Return the domain value."""
        return ParallelismDescription(
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            context_parallel_size=self.context_parallel_size,
            expert_parallel_size=self.expert_parallel_size,
            sequence_parallel=self.sequence_parallel,
            pipeline_schedule=self.pipeline_schedule,
            virtual_pipeline_stages=self.virtual_pipeline_stages,
        )


class BucketsIn(WireIn):
    """Communication buckets, in elements; DDP's in bytes."""

    reduce_elements: ElementCount | None = None
    allgather_elements: ElementCount | None = None
    prefetch_elements: ElementCount | None = None
    max_live_elements: ElementCount | None = None
    ddp_bytes: ByteCount | None = None

    def to_domain(self) -> BucketsDescription:
        """Return the domain value."""
        return BucketsDescription(
            reduce_elements=self.reduce_elements,
            allgather_elements=self.allgather_elements,
            prefetch_elements=self.prefetch_elements,
            max_live_elements=self.max_live_elements,
            ddp_bytes=self.ddp_bytes,
        )


class ShardingIn(WireIn):
    """Sharding of the states over data-parallel ranks."""

    implementation: ShardingImplementation | None = None
    zero_stage: Annotated[int, Field(ge=0, le=3), WHOLE] | None = None
    shard_group_size: Size | None = None
    reshard_after_forward: Flag | None = None
    wrap: Wrap | None = None
    sync_each_micro_batch: Flag | None = None
    offload_optimizer: Offload | None = None
    offload_parameters: Offload | None = None
    offload_fraction: Fraction | None = None
    buckets: BucketsIn | None = None

    def to_domain(self) -> ShardingDescription:
        """Return the domain value."""
        return ShardingDescription(
            implementation=self.implementation,
            zero_stage=self.zero_stage,
            shard_group_size=self.shard_group_size,
            reshard_after_forward=self.reshard_after_forward,
            wrap=self.wrap,
            sync_each_micro_batch=self.sync_each_micro_batch,
            offload_optimizer=self.offload_optimizer,
            offload_parameters=self.offload_parameters,
            offload_fraction=self.offload_fraction,
            buckets=self.buckets.to_domain() if self.buckets else BucketsDescription(),
        )


class HardwareIn(WireIn):
    """The cards."""

    accelerator: Text | None = None
    devices: Size | None = None
    devices_per_node: Size | None = None
    device_memory_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES), WHOLE] | None = None
    occupied_bytes: ByteCount | None = None

    def to_domain(self) -> HardwareDescription:
        """Return the domain value."""
        return HardwareDescription(
            accelerator=self.accelerator,
            devices=self.devices,
            devices_per_node=self.devices_per_node,
            device_memory_bytes=self.device_memory_bytes,
            occupied_bytes=self.occupied_bytes,
        )


class SoftwareIn(WireIn):
    """The framework and its versions."""

    framework: Text | None = None
    stack: Text | None = None
    expandable_segments: Flag | None = None

    def to_domain(self) -> SoftwareDescription:
        """Return the domain value."""
        return SoftwareDescription(
            framework=self.framework,
            stack=self.stack,
            expandable_segments=self.expandable_segments,
        )


def _short(field: str, names: type[StrEnum]) -> Callable[[Any], Any]:
    """Return a validator that reads the short form, a name, as ``{field: name}``."""
    known = {name.value for name in names}

    def expand(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
        if not isinstance(value, str):
            return value
        if value not in known:
            raise PydanticCustomError(
                "enum", "Input should be one of {expected}", {"expected": ", ".join(sorted(known))}
            )
        return {field: value}

    return expand


def _preset(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(value, str):
        return value
    try:
        preset = PrecisionPreset(value)
    except ValueError:
        known = ", ".join(preset.value for preset in PrecisionPreset)
        raise PydanticCustomError(
            "enum", "Input should be one of {expected}", {"expected": known}
        ) from None
    return _PRESETS[preset]


MethodField: TypeAlias = Annotated[
    MethodIn,
    BeforeValidator(_short("kind", MethodKind), json_schema_input_type=MethodKind | MethodIn),
]
PrecisionField: TypeAlias = Annotated[
    PrecisionIn, BeforeValidator(_preset, json_schema_input_type=PrecisionPreset | PrecisionIn)
]
OptimizerField: TypeAlias = Annotated[
    OptimizerIn,
    BeforeValidator(
        _short("name", OptimizerName), json_schema_input_type=OptimizerName | OptimizerIn
    ),
]
CheckpointingField: TypeAlias = Annotated[
    CheckpointingIn,
    BeforeValidator(
        _short("mode", CheckpointMode), json_schema_input_type=CheckpointMode | CheckpointingIn
    ),
]

_PRESETS: Mapping[PrecisionPreset, dict[str, Any]] = {
    preset: PrecisionIn.model_validate(
        {field: getattr(preset_description(preset), field) for field in PrecisionIn.model_fields}
    ).model_dump(exclude_none=True)
    for preset in PrecisionPreset
}
