"""What litgpt refuses before it trains, as far as the options show it.

Sources: litgpt 0.5.13 ``finetune/lora.py`` (quantisation), ``args.py`` (assertions), ``validate_args`` of
each trainer, ``utils.py`` (parse_devices, instantiate_bnb_optimizer).
"""

from collections.abc import Iterator

from vramgate.launch.draft import Problem
from vramgate.launch.frameworks.litgpt.job import Subcommand, optimizer_name, target_modules
from vramgate.launch.reading import Found, value_or
from vramgate.launch.settings import Settings

_NOT_IN_FINETUNING = ("max_tokens", "max_norm", "tie_embeddings", "lr_warmup_fraction")
_NOT_IN_PRETRAINING = ("train.epochs", "eval.max_new_tokens")


def problems(command: Subcommand, settings: Settings, *, world: int | None) -> Iterator[Problem]:
    """Yield why the trainer would stop."""
    if not command.is_known:
        return
    yield from _devices(settings)
    yield from _quantization(command, settings, world=world)
    yield from _batch(command, settings, world=world)
    yield from _options(command, settings)
    targets = target_modules(settings)
    if command.name == "finetune_lora" and isinstance(targets, Found) and not targets.value:
        yield Problem(
            rule="no_lora_modules",
            detail="every lora switch is off; nothing trains",
            fix="turn one of lora_query, lora_key, lora_value, lora_projection, lora_mlp on",
            values={targets.source: []},
            field="method.target_modules",
        )


def _devices(settings: Settings) -> Iterator[Problem]:
    """``parse_devices``: "Devices must be 'auto' or a positive integer"."""
    devices = settings.text("devices")
    if not isinstance(devices, Found) or devices.value in {"auto", "-1"}:
        return
    if not devices.value.isdecimal() or int(devices.value) < 1:
        yield Problem(
            rule="devices_not_positive",
            detail=f"devices {devices.value[:40]} is neither auto nor a positive number",
            fix="write a positive number, or auto",
            values={devices.source: devices.value},
            field="hardware.devices",
        )


def _quantization(
    command: Subcommand, settings: Settings, *, world: int | None
) -> Iterator[Problem]:
    quantize = settings.text("quantize")
    if not isinstance(quantize, Found):
        return
    if command.name == "finetune_full" or command.pretrains:
        yield Problem(
            rule="unknown_option",
            detail=f"{command.name} has no option quantize",
            fix="leave quantize out, or use finetune_lora",
            values={quantize.source: quantize.value},
            field="method.quantization",
        )
        return
    yield from _quantized_precision(quantize, settings)
    yield from _quantized_run(quantize, settings, world=world)


def _quantized_precision(quantize: Found[str], settings: Settings) -> Iterator[Problem]:
    """Without --precision it is bf16-mixed or 16-mixed (get_default_supported_precision)."""
    precision = settings.text("precision")
    if precision is None or (isinstance(precision, Found) and "mixed" in precision.value):
        said = {precision.source: precision.value} if isinstance(precision, Found) else {}
        yield Problem(
            rule="quantized_with_mixed_precision",
            detail="quantised weights and mixed precision, litgpt's default, do not go together",
            fix="write --precision bf16-true",
            values={quantize.source: quantize.value, **said},
            field="precision",
        )


def _quantized_run(
    quantize: Found[str], settings: Settings, *, world: int | None
) -> Iterator[Problem]:
    if world is not None and world > 1:
        yield Problem(
            rule="quantized_on_several_devices",
            detail=f"litgpt trains over quantised weights on one device only, not on {world}",
            fix="write --devices 1 --num_nodes 1, or leave quantize out",
            values={quantize.source: quantize.value},
            field="hardware.devices",
        )
    name = optimizer_name(settings)
    if isinstance(name, Found) and "AdamW" not in name.value:
        yield Problem(
            rule="quantized_without_adamw",
            detail=f"over quantised weights litgpt runs AdamW only, not {name.value[:80]}",
            fix="write --optimizer AdamW",
            values={quantize.source: quantize.value, name.source: name.value},
            field="optimizer.name",
        )


def _batch(command: Subcommand, settings: Settings, *, world: int | None) -> Iterator[Problem]:
    """``args.py``: a rank's share of the global batch holds one micro-batch at least."""
    micro, whole = (
        settings.whole("train.micro_batch_size"),
        settings.whole("train.global_batch_size"),
    )
    rows = value_or(micro, command.micro_batch_size)
    batch = value_or(whole, command.global_batch_size)
    if world is not None and (rows < 1 or batch // world // rows < 1):
        said = {one.source: one.value for one in (micro, whole) if isinstance(one, Found)}
        yield Problem(
            rule="global_batch_too_small",
            detail=f"global_batch_size {batch} over {world} devices is less than micro_batch_size"
            f" {rows}",
            fix=f"write at least {max(1, rows) * world}",
            values=said,
            field="gradient_accumulation_steps",
        )


def _options(command: Subcommand, settings: Settings) -> Iterator[Problem]:
    """``validate_args``: "doesn't support the … argument"."""
    names = (
        _NOT_IN_PRETRAINING
        if command.pretrains
        else tuple(f"train.{name}" for name in _NOT_IN_FINETUNING)
    )
    for name in names:
        said = settings.text(name)
        if isinstance(said, Found):
            yield Problem(
                rule="option_not_supported",
                detail=f"{command.name} does not take {name}",
                fix="leave it out",
                values={said.source: said.value},
            )
