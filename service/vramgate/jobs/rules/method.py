"""What trains against the model and its weights."""

import difflib
from collections.abc import Iterator

from vramgate.costmodel.job import MethodKind
from vramgate.errors import shortened
from vramgate.jobs.lora_targets import (
    ALL_LINEAR,
    all_paths,
    block_paths,
    is_named,
    meant_paths,
    outside_paths,
)
from vramgate.jobs.method import ADAPTER_KINDS, BITSANDBYTES_4BIT, holds_stacked_experts
from vramgate.jobs.rules.case import Case, Finding
from vramgate.jobs.target_patterns import UnsafePatternError, matched_modules

_SHOWN = 24
_UNTRAINABLE = "quantised weights have no gradients of their own"


def quantised_full(case: Case) -> Iterator[Finding]:
    """Quantised weights do not train; adapters over them do."""
    kind = case.job.method.kind
    if kind in ADAPTER_KINDS:
        return
    said = case.said.method.quantization
    known = case.model.quantization
    if said is not None:
        yield Finding(
            field="method/quantization",
            code="conflict",
            detail=f"quantization {said} with method {kind.value}: {_UNTRAINABLE}",
            hint="write method qlora, or leave quantization out",
            value=said,
        )
    elif known is not None:
        yield Finding(
            field="method/kind" if case.said.method.kind else "method",
            code="conflict",
            detail=f"method {kind.value} on {known} weights ({case.said.model.name or 'config'}):"
            f" {_UNTRAINABLE}",
            hint="write method qlora, or name the model whose weights are not quantised",
            value=kind.value,
        )


def fields_apply(case: Case) -> Iterator[Finding]:
    """A field that does nothing under this method hides a mistake: it is refused."""
    said, kind = case.said.method, case.job.method.kind
    adapter_fields = {
        "rank": said.rank,
        "target_modules": said.target_modules,
        "dropout": said.dropout,
        "dora": said.dora or None,
        "modules_to_save": said.modules_to_save or None,
        "adapter_dtype": said.adapter_dtype,
    }
    kbit_fields = {
        "double_quant": said.double_quant or None,
        "prepare_for_kbit_training": said.prepare_for_kbit_training or None,
    }
    dead: dict[str, object] = {}
    if kind not in ADAPTER_KINDS:
        dead |= adapter_fields
    if kind is not MethodKind.QLORA:
        dead |= kbit_fields
    if kind is not MethodKind.FREEZE:
        dead["trainable_layers"] = said.trainable_layers
    ways = {"trainable_layers": "freeze", **dict.fromkeys(kbit_fields, "qlora")}
    for name, value in dead.items():
        if value is not None:
            yield Finding(
                field=f"method/{name}",
                code="not_applicable",
                detail=f"method.{name} has no effect with method {kind.value}",
                hint=f"write method {ways.get(name, 'lora or qlora')}, or leave it out",
                value=value if isinstance(value, bool | int | float | str) else None,
            )
    quantization = case.job.method.quantization
    if said.double_quant and quantization and quantization not in BITSANDBYTES_4BIT:
        yield Finding(
            field="method/double_quant",
            code="not_applicable",
            detail=f"double_quant is for nf4 and fp4, not {quantization}",
            hint="leave it out",
            value=True,
        )


def lora_targets(case: Case) -> Iterator[Finding]:
    """Targets that match no module leave nothing to train, or everything."""
    if case.job.method.kind not in ADAPTER_KINDS:
        return
    architecture = case.job.architecture
    blocks = block_paths(architecture, stacked_experts=holds_stacked_experts(case.job.software))
    outside = outside_paths(architecture)
    said = case.said.method.target_modules
    targets = case.job.method.target_modules if said is None else said
    if targets == ALL_LINEAR:
        return
    if isinstance(targets, str):
        try:
            found = matched_modules(targets, blocks, outside, architecture.num_hidden_layers)
        except UnsafePatternError as error:
            yield Finding(
                field="method/target_modules",
                code="invalid_pattern",
                detail=f"target_modules {_short(targets)} was not run: {error}",
                hint='write a list of names or "all-linear"',
                value=_short(targets),
            )
        else:
            if not found.modules:
                yield _no_match(case, targets, blocks + outside)
    elif not any(is_named(path, targets) for path in blocks + outside) and not meant_paths(
        architecture, targets
    ):
        yield _no_match(case, ", ".join(targets), blocks + outside)


def _no_match(case: Case, targets: str, paths: tuple[str, ...]) -> Finding:
    names = tuple(dict.fromkeys(path.rsplit(".", 1)[-1] for path in paths))
    wanted = targets.split(", ")
    near = [name for target in wanted for name in difflib.get_close_matches(target, names, n=2)]
    shown = ", ".join(dict.fromkeys(near or names[:_SHOWN]))
    known = f"did you mean {shown}" if near else f"it has {shown}" if shown else "it has none"
    return Finding(
        field="method/target_modules",
        code="no_match",
        detail=f"target_modules {_short(targets)} match no linear layer of {case.model.name}",
        hint=f'{known}; "all-linear" takes every one but the head',
        value=_short(targets),
    )


def modules_to_save(case: Case) -> Iterator[Finding]:
    """Modules to train whole are named by their last part; one that is not there trains nothing."""
    if not case.job.method.modules_to_save:
        return
    names = {path.rsplit(".", 1)[-1] for path in all_paths(case.job.architecture)}
    for index, wanted in enumerate(case.job.method.modules_to_save):
        if wanted.rsplit(".", 1)[-1] not in names:
            yield Finding(
                field=f"method/modules_to_save/{index}",
                code="no_match",
                detail=f"modules_to_save {_short(wanted)} is no module of {case.model.name}",
                hint=f"it has {', '.join(sorted(names)[:_SHOWN])}",
                value=_short(wanted),
            )


def sizes(case: Case) -> Iterator[Finding]:
    """Ranks and layers are bounded by the model."""
    method, architecture = case.job.method, case.job.architecture
    if method.kind in ADAPTER_KINDS and int(method.rank) > architecture.hidden_size:
        yield Finding(
            field="method/rank",
            code="out_of_range",
            detail=f"rank {method.rank} is more than hidden_size {architecture.hidden_size}",
            hint="a low-rank adapter needs 8 to 256; for more train the layers whole",
            value=int(method.rank),
        )
    layers = architecture.num_hidden_layers
    if method.kind is MethodKind.FREEZE and method.trainable_layers > layers:
        yield Finding(
            field="method/trainable_layers",
            code="out_of_range",
            detail=f"trainable_layers {method.trainable_layers} is more than num_hidden_layers"
            f" {layers}",
            hint=f"write at most {layers}, or method full",
            value=method.trainable_layers,
        )


def _short(text: str) -> str:
    return shortened(text, 80)
