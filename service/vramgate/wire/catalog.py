"""Models and accelerators as the catalog tells them; read from the domain's values by attribute."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vramgate.catalog.accelerator_facts import Accelerator
from vramgate.catalog.accelerators import ResolvedAccelerator
from vramgate.catalog.clashes import SITE, TENANT
from vramgate.catalog.models import BUILT_IN, ModelEntry, ResolvedModel
from vramgate.catalog.site import Catalogs

_ORIGIN = '"built-in", the site\'s file, or "tenant" for one of the caller\'s own.'
_CLASHES = "What names of the entry meant before it took them over, where it is no built-in one."


class CatalogOut(BaseModel):
    """Base of what the catalog tells."""

    model_config = ConfigDict(from_attributes=True)


class CatalogSummary(CatalogOut):
    """An entry in a list."""

    name: str


class ModelSummary(CatalogSummary):
    """A model in a list."""

    aliases: list[str]
    parameters: int | None = Field(description="Exact count; null where only a config is known.")
    active_parameters: int | None = Field(
        description="Parameters a token passes through, where it is fewer than all."
    )
    config_confidence: str = Field(description="high, medium or low.")
    origin: str = Field(description=_ORIGIN)


class ModelMatch(CatalogOut):
    """How the asked name led to the entry."""

    asked: str
    how: str = Field(description="id, alias, copy, variant, quantized or path.")
    note: str = Field(description="What had to be read into the name; empty where nothing.")
    quantization: str | None = Field(description="As `method.quantization` takes it.")
    weight_format: str | None = Field(description="The same in words, for any format.")


class ModelOut(ModelSummary):
    """A model with its configuration and how each figure is known."""

    config: dict[str, Any] | None = Field(description="Keys of the Hugging Face `config.json`.")
    parameters_source: str
    verified: str | None
    published_parameters: int | None
    published_source: str | None
    note: str | None
    clashes: list[str] = Field(description=_CLASHES)
    match: ModelMatch


class PeakFlopsOut(CatalogOut):
    """Dense peak rates of the datasheet, operations per second."""

    fp32: int | None
    tf32: int | None
    fp16: int | None
    bf16: int | None
    fp8: int | None


class InterconnectOut(CatalogOut):
    """Links to other cards, bytes per second both ways together."""

    nvlink_bytes_per_s: int | None
    xgmi_bytes_per_s: int | None
    link_bytes_per_s: int | None
    pcie_gen: int | None


class MigProfileOut(CatalogOut):
    """A slice the card can be cut into."""

    name: str
    memory_bytes: int
    basis: str


class AcceleratorSummary(CatalogSummary):
    """An accelerator in a list."""

    display_name: str
    vendor: str
    architecture: str
    aliases: list[str]
    memory_bytes_nominal: int
    usable_bytes: int = Field(description="What a framework can hand out on an idle card.")
    usable_basis: str = Field(description="How the usable bytes are known.")
    origin: str = Field(description=_ORIGIN)


class AcceleratorMatchOut(CatalogOut):
    """How the asked name led to the entry."""

    asked: str
    how: str = Field(description="id, alias, read, instance or memory.")
    note: str = Field(description="What had to be assumed; empty where nothing.")
    shared: bool = Field(description="The name says that several jobs share the card.")


class AcceleratorOut(AcceleratorSummary):
    """An accelerator with its facts and where they come from."""

    compute_capability: str | None
    memory_mib_reported: int | None
    usable_bytes_range: tuple[int, int] | None
    usable_explained: str
    memory_bandwidth_bytes_per_s: int | None
    peak_flops: PeakFlopsOut
    bf16_native: bool
    fp8_native: bool
    interconnect: InterconnectOut
    mig_profiles: list[MigProfileOut]
    mig_of: str | None
    typical_gpus_per_node: int
    cloud_instances: list[str]
    multiprocessors: int | None
    source: str
    note: str | None
    clashes: list[str] = Field(description=_CLASHES)
    match: AcceleratorMatchOut


def shown_model(found: ResolvedModel, catalogs: Catalogs) -> ModelOut:
    """Return a model as it is told, and how a name led to it."""
    return ModelOut.model_validate(
        {
            **_told(found.entry, ModelOut, catalogs),
            "match": ModelMatch.model_validate(found),
        }
    )


def shown_accelerator(found: ResolvedAccelerator, catalogs: Catalogs) -> AcceleratorOut:
    """Return an accelerator as it is told, and how a name led to it."""
    return AcceleratorOut.model_validate(
        {
            **_told(found.entry, AcceleratorOut, catalogs),
            "match": AcceleratorMatchOut.model_validate(found),
        }
    )


def _told(
    entry: ModelEntry | Accelerator, shape: type[BaseModel], catalogs: Catalogs
) -> dict[str, Any]:
    names = shape.model_fields.keys() - {"match", "clashes"}
    owner = TENANT if entry.origin == TENANT else SITE
    clashes = [
        one.message
        for one in catalogs.clashes
        if one.theirs == entry.name and one.owner == owner and entry.origin != BUILT_IN
    ]
    return {**{name: getattr(entry, name) for name in names}, "clashes": clashes}
