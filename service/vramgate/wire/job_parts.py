"""The parts of a job that say what trains: model, method, precision, optimizer, checkpointing.

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
)
from vramgate.jobs.description import (
    CheckpointingDescription,
    MethodDescription,
    ModelDescription,
    OptimizerDescription,
    PrecisionDescription,
)
from vramgate.jobs.precision import PrecisionPreset, preset_description
from vramgate.jobs.vocabulary import (
    LinearFormat,
    OptimizerImplementation,
    Quantization,
)
from vramgate.wire.model_config import ModelConfig
from vramgate.wire.numbers import (
    MAX_PARAMETERS,
    MAX_PATTERN,
    MAX_RANK,
    TEXT,
    WHOLE,
    Flag,
    Fraction,
    ModuleName,
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
