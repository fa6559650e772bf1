"""The model of a job: its shape, the name to call it by, and the format its weights come in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from vramgate.catalog.models import ModelCatalog, ModelEntry
from vramgate.costmodel import families
from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.errors import DomainError, FieldError, InvalidJobError
from vramgate.jobs.description import ModelDescription
from vramgate.jobs.ledger import Ledger

MODEL_POINTER = "/job/model"
MAX_KEPT_CONFIG = 65_536
"""Characters; Hugging Face configs of language models take 1 000 to 5 000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model as the job needs it."""

    name: str
    architecture: ModelArchitecture
    quantization: str | None
    """Format of the weights that the name speaks of (gptq-int4, nf4, …), or None."""
    weight_format: str | None
    """The same in words, also where no training method takes it (GGUF)."""


@lru_cache(maxsize=4096)
def _entry_architecture(entry: ModelEntry) -> ModelArchitecture:
    if entry.config is not None:
        return families.architecture_from_config(entry.config)
    return families.architecture_from_parameters(entry.parameters or 0)


def _config_architecture(config: Mapping[str, object]) -> ModelArchitecture:
    """Return the shape of a config; those of usual size are kept, label tables of megabytes not."""
    text = json.dumps(config, sort_keys=True)
    if len(text) > MAX_KEPT_CONFIG:
        return families.architecture_from_config(config)
    return _kept_architecture(text)


@lru_cache(maxsize=512)
def _kept_architecture(text: str) -> ModelArchitecture:
    return families.architecture_from_config(json.loads(text))


@lru_cache(maxsize=1024)
def _sized_architecture(parameters: int) -> ModelArchitecture:
    return families.architecture_from_parameters(parameters)


def find_model(description: ModelDescription, models: ModelCatalog, ledger: Ledger) -> KnownModel:
    """Return the model that a description names, holds or sizes.

    Raises:
        UnknownNameError: the catalog knows no such name.
        InvalidModelConfigError: the config lacks keys or contradicts itself.
        InvalidJobError: none or several of name, config and parameters were given.
    """
    if description.name is not None and description.config is None:
        return _by_name(description.name, models, ledger)
    if description.config is not None and description.name is None:
        return _by_config(description.config)
    if description.parameters is not None:
        return _by_size(description.parameters, ledger)
    raise InvalidJobError(
        "a job needs exactly one of model.name, model.config and model.parameters",
        hint="Give model.name as on the Hugging Face Hub, or the model's config.json as model.config.",
        fields=[FieldError(pointer=MODEL_POINTER, code="exactly_one", detail="give exactly one")],
    )


def _by_name(name: str, models: ModelCatalog, ledger: Ledger) -> KnownModel:
    try:
        found = models.resolve(name)
        architecture = _entry_architecture(found.entry)
    except DomainError as error:
        raise _located(error, f"{MODEL_POINTER}/name", name) from None
    if found.note:
        ledger.note("model.name", found.entry.name, found.note)
    if found.entry.config is None:
        _warn_inferred(found.entry.parameters or 0, ledger)
    return KnownModel(
        name=found.entry.name,
        architecture=architecture,
        quantization=found.quantization,
        weight_format=found.weight_format,
    )


def _by_config(config: Mapping[str, object]) -> KnownModel:
    try:
        architecture = _config_architecture(config)
    except DomainError as error:
        raise _located(error, f"{MODEL_POINTER}/config", None) from None
    named = config.get("_name_or_path")
    kind = config.get("model_type")
    name = (
        named if isinstance(named, str) and named else kind if isinstance(kind, str) else "config"
    )
    quantization = _config_quantization(config.get("quantization_config"))
    return KnownModel(
        name=name, architecture=architecture, quantization=quantization, weight_format=quantization
    )


def _by_size(parameters: int, ledger: Ledger) -> KnownModel:
    try:
        architecture = _sized_architecture(parameters)
    except DomainError as error:
        raise _located(error, f"{MODEL_POINTER}/parameters", parameters) from None
    _warn_inferred(parameters, ledger)
    return KnownModel(
        name=f"{parameters:,} parameters",
        architecture=architecture,
        quantization=None,
        weight_format=None,
    )


def _warn_inferred(parameters: int, ledger: Ledger) -> None:
    ledger.note("model.config", "a Llama-type shape", "vramgate: inferred from the parameter count")
    ledger.warn(
        "model_shape_inferred",
        f"Only the number of parameters ({parameters:,}) is known: the shape of a Llama-type model of"
        " that size was taken. Give model.config for an exact answer.",
    )


def _config_quantization(value: object) -> str | None:
    """Return what ``quantization_config`` of a ``config.json`` says of the stored weights.

    Source: transformers ``utils/quantization_config.py`` (quant_method, bits, load_in_4bit,
    bnb_4bit_quant_type).
    """
    if not isinstance(value, Mapping):
        return None
    method = value.get("quant_method")
    bits = value.get("bits", 4)
    if method in {"gptq", "awq"} and bits in {4, 8}:
        named = f"{method}-int{bits}"
        return named if named != "awq-int8" else None
    if method == "mxfp4":
        return "mxfp4"
    if value.get("load_in_8bit") is True:
        return "int8"
    if value.get("load_in_4bit") is True:
        kind = value.get("bnb_4bit_quant_type")
        return kind if kind in {"nf4", "fp4"} else "fp4"
    return None


def _placed(inner: str, pointer: str) -> str:
    """Return where a finding about a config shows in the job; a catalog's config has no place there."""
    if pointer != f"{MODEL_POINTER}/config":
        return pointer
    return f"/job{inner}" if inner.startswith("/model") else pointer + inner


def _located(error: DomainError, pointer: str, value: object) -> DomainError:
    """Return the error with the field it is about, where it names none below that field."""
    fields = [
        FieldError(
            pointer=_placed(field.pointer, pointer),
            code=field.code,
            detail=field.detail,
            value=field.value,
        )
        for field in error.fields
    ] or [FieldError(pointer=pointer, code=error.code, detail=error.message, value=value)]
    return type(error)(error.message, hint=error.hint, fields=fields, **error.data)
