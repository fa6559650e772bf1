"""What a site may write of a model or a card, and the catalog entry that becomes of it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any, TypeAlias

from vramgate.catalog import site_checks as checks
from vramgate.catalog.accelerator_facts import (
    Accelerator,
    Interconnect,
    PeakFlops,
    accelerator_from_row,
)
from vramgate.catalog.accelerator_names import name_key
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.catalog.models import ModelEntry
from vramgate.costmodel.families import architecture_from_config
from vramgate.errors import DomainError, FieldError
from vramgate.units import GIB, MIB


class EntryKind(StrEnum):
    """What an entry describes."""

    MODEL = "model"
    ACCELERATOR = "accelerator"


EntryId: TypeAlias = tuple[EntryKind, str]
"""The kind of an entry and its name, whatever its case: what there is one of."""

_PARAMETERS = checks.whole(low=1, high=10**14, unit="parameters")
_MEMORY = checks.whole(low=MIB, high=16 * 1024 * GIB, unit="bytes")
_RATE = checks.or_null(checks.whole(low=1, high=10**19, unit="operations or bytes per second"))
_COUNT = checks.whole(low=1, high=4096, unit="pieces")
_NAMES = checks.list_of(checks.name)


def _any_object(pointer: str, value: object) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        detail = "must be the object of a config.json"
        yield checks.problem(pointer, "not_object", detail, value)


_MODEL = checks.record(
    {
        "name": checks.name,
        "aliases": _NAMES,
        "config": checks.Check(_any_object, {"type": "object", "additionalProperties": True}),
        "parameters": _PARAMETERS,
        "note": checks.note,
    },
    required=("name",),
)
_PROFILE = checks.record(
    {
        "name": checks.text(pattern=r"[1-7]g\.\d{1,3}gb", example='"3g.40gb"'),
        "memory_bytes": _MEMORY,
        "basis": checks.note,
    },
    required=("name", "memory_bytes"),
)
_ACCELERATOR = checks.record(
    {
        "name": checks.text(limit=100, pattern=r"[a-z0-9][a-z0-9.+-]*", example='"a100-sxm4-64gb"'),
        "display_name": checks.name,
        "aliases": _NAMES,
        "vendor": checks.name,
        "architecture": checks.name,
        "compute_capability": checks.or_null(
            checks.text(pattern=r"\d{1,2}\.\d|gfx[0-9a-f]{3,4}", example='"8.0"')
        ),
        "memory_bytes_nominal": _MEMORY,
        "memory_mib_reported": checks.or_null(checks.whole(low=1, high=2**24, unit="MiB")),
        "usable_bytes": _MEMORY,
        "memory_bandwidth_bytes_per_s": _RATE,
        "peak_flops": checks.record(dict.fromkeys((f.name for f in fields(PeakFlops)), _RATE)),
        "bf16_native": checks.yes_or_no,
        "fp8_native": checks.yes_or_no,
        "interconnect": checks.record(dict.fromkeys((f.name for f in fields(Interconnect)), _RATE)),
        "mig_profiles": checks.list_of(_PROFILE),
        "typical_gpus_per_node": _COUNT,
        "cloud_instances": _NAMES,
        "multiprocessors": checks.or_null(_COUNT),
        "source": checks.note,
        "note": checks.note,
    },
    required=("name",),
)
_DOCUMENT = checks.record(
    {"models": checks.list_of(_MODEL), "accelerators": checks.list_of(_ACCELERATOR)}
)
_NEEDED_OF_NEW = ("vendor", "memory_bytes_nominal")


def document_faults(document: object, known: AcceleratorCatalog) -> list[FieldError]:
    """Return everything wrong with a site's document; its form first, then what it says."""
    faults = list(_DOCUMENT("", document))
    if faults or not isinstance(document, dict):
        return faults
    models = document.get("models", [])
    cards = document.get("accelerators", [])
    for index, row in enumerate(models):
        faults.extend(_model_faults(f"/models/{index}", row))
    for index, row in enumerate(cards):
        faults.extend(_card_faults(f"/accelerators/{index}", row, known))
    faults.extend(_repeated("/models", models, _name_key(EntryKind.MODEL)))
    faults.extend(_repeated("/accelerators", cards, _name_key(EntryKind.ACCELERATOR)))
    return faults


def entry_faults(kind: EntryKind, row: object, known: AcceleratorCatalog) -> list[FieldError]:
    """Return everything wrong with one entry, with pointers into it."""
    faults = list(_entry_check(kind)("", row))
    if faults or not isinstance(row, dict):
        return faults
    return list(_model_faults("", row) if kind is EntryKind.MODEL else _card_faults("", row, known))


def entry_schema(kind: EntryKind) -> Mapping[str, Any]:
    """Return the form of one entry as JSON Schema; it lets more pass than ``entry_faults``."""
    return _entry_check(kind).schema


def claimed_faults(
    kind: EntryKind, row: Mapping[str, Any], owners: Mapping[str, str]
) -> Iterator[FieldError]:
    """Yield the names of an entry that others claim: ``owners`` has theirs as ``claimed_names``."""
    for place, name in _places(row):
        owner = owners.get(_name_key(kind)(name))
        if owner is not None:
            detail = f"is claimed by {owner} already: drop it"
            yield checks.problem(f"/{place}", "claimed_twice", detail, name)


def claimed_names(kind: EntryKind, row: Mapping[str, Any]) -> list[str]:
    """Return the names that an entry claims, each as those are written that mean the same."""
    return list(dict.fromkeys(_name_key(kind)(name) for _, name in _places(row)))


def is_name(text: str) -> bool:
    """Return whether an entry can have this name at all."""
    return not any(checks.name("", text))


def _entry_check(kind: EntryKind) -> checks.Check:
    return _MODEL if kind is EntryKind.MODEL else _ACCELERATOR


def _name_key(kind: EntryKind) -> Callable[[str], str]:
    return str.casefold if kind is EntryKind.MODEL else name_key


def _places(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each name an entry claims, with where it stands in it."""
    yield "name", row["name"]
    for index, alias in enumerate(row.get("aliases", [])):
        yield f"aliases/{index}", alias


def _model_faults(pointer: str, row: Mapping[str, Any]) -> Iterator[FieldError]:
    if ("config" in row) == ("parameters" in row):
        detail = "give exactly one of config (the model's config.json) and parameters (a count)"
        yield checks.problem(pointer, "exactly_one", detail, row.get("parameters"))
    if "config" not in row:
        return
    shown = row["config"].get("model_type")
    try:
        architecture_from_config(_as_json(row["config"]))
    except DomainError as error:
        detail = f"{error.message}. {error.hint}".rstrip()
        yield checks.problem(f"{pointer}/config", error.code, detail, shown)
    except ValueError as error:
        detail = f"must hold JSON values only: {error}; put dates in quotes"
        yield checks.problem(f"{pointer}/config", "not_json", detail, shown)


def _card_faults(
    pointer: str, row: Mapping[str, Any], known: AcceleratorCatalog
) -> Iterator[FieldError]:
    base = known.get(row["name"])
    if base is not None and base.mig_of is not None:
        detail = f"is a slice: state the profile in mig_profiles of {base.mig_of}"
        yield checks.problem(f"{pointer}/name", "is_slice", detail, row["name"])
        return
    for name in _NEEDED_OF_NEW if base is None else ():
        if name not in row:
            detail = "is required of a card the catalog does not know: add it"
            yield checks.problem(f"{pointer}/{name}", "missing", detail, None)
    nominal = row.get("memory_bytes_nominal", base.memory_bytes_nominal if base else None)
    usable = row.get("usable_bytes")
    if nominal is not None and usable is not None and usable > nominal:
        detail = f"cannot exceed memory_bytes_nominal, {nominal}"
        yield checks.problem(f"{pointer}/usable_bytes", "above_nominal", detail, usable)


def _repeated(
    pointer: str, rows: Sequence[Mapping[str, Any]], key: Callable[[str], str]
) -> Iterator[FieldError]:
    """Yield the names that two entries of one file claim."""
    owners: dict[str, int] = {}
    for index, row in enumerate(rows):
        for place, name in _places(row):
            owner = owners.setdefault(key(name), index)
            if owner != index:
                detail = f"is claimed by {pointer}/{owner} ({rows[owner]['name']}) already: drop it"
                yield checks.problem(f"{pointer}/{index}/{place}", "claimed_twice", detail, name)


def site_model(row: Mapping[str, Any], source: str) -> ModelEntry:
    """Return a site's model; its parameters are counted from its config where it gives one."""
    config = _as_json(row["config"]) if "config" in row else None
    counted = None if config is None else architecture_from_config(config).parameters
    return ModelEntry(
        name=row["name"],
        aliases=tuple(row.get("aliases", ())),
        config=config,
        parameters=row.get("parameters", counted),
        parameters_source="stated by the site" if config is None else "counted from its config",
        note=row.get("note"),
        origin=source,
    )


def site_card(row: Mapping[str, Any], known: AcceleratorCatalog, source: str) -> Accelerator:
    """Return a site's card; one with a known id keeps what the site does not state."""
    stated = dict(row)
    if "mig_profiles" in row:
        stated["mig_profiles"] = [{"basis": "site", **profile} for profile in row["mig_profiles"]]
    if "usable_bytes" in row:
        stated.update(usable_basis="site", usable_bytes_range=None)
    elif "memory_bytes_nominal" in row:
        stated.update(usable_bytes=None, usable_bytes_range=None)
    base = known.get(row["name"])
    if base is None:
        return accelerator_from_row(
            {"display_name": row["name"], "source": "site", **stated, "origin": source}
        )
    kept = asdict(base)
    if "memory_bytes_nominal" in row:
        kept["memory_mib_reported"] = None
    for name in ("peak_flops", "interconnect"):
        stated[name] = {**kept[name], **row.get(name, {})}
    stated["aliases"] = list(dict.fromkeys((*base.aliases, *row.get("aliases", ()))))
    return accelerator_from_row({**kept, **stated, "origin": source})


def _as_json(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a config, made of JSON's values only.

    Raises:
        ValueError: it holds what JSON has not (a date that YAML read, a number without end,
            itself).
    """
    try:
        copied: dict[str, Any] = json.loads(json.dumps(config, allow_nan=False))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return copied
