"""What trains: the whole model, some layers, or adapters over a frozen or quantised base."""

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.job import (
    Dtype,
    Method,
    MethodKind,
    Sharding,
    ShardingImplementation,
    Software,
)
from vramgate.costmodel.sharding import SHARDS_WEIGHTS
from vramgate.costmodel.weights import STACKED_EXPERTS_SINCE
from vramgate.jobs.frameworks.defaults import AdapterDefaults
from vramgate.jobs.ledger import Default, off
from vramgate.jobs.lora_targets import (
    ALL_LINEAR,
    block_paths,
    is_named,
    meant_paths,
    outside_paths,
    peft_targets,
)
from vramgate.jobs.setting import Setting
from vramgate.jobs.target_patterns import UnsafePatternError, matched_modules
from vramgate.jobs.vocabulary import Quantization

ADAPTER_KINDS = frozenset({MethodKind.LORA, MethodKind.QLORA})
BITSANDBYTES_4BIT = frozenset({Quantization.NF4, Quantization.FP4})
_NEVER_UPCAST = frozenset({Quantization.GPTQ_INT4, Quantization.GPTQ_INT8})
_OWN_ADAPTERS = frozenset({"litgpt", "torchtune", "torchtitan", "megatron", "unsloth"})
"""Frameworks that split or name projections their own way before adapters are put on."""
_SHARDS = frozenset({ShardingImplementation.FSDP, ShardingImplementation.FSDP2})


def method_kind(setting: Setting) -> MethodKind:
    """Return what trains; a quantised model trains adapters where nobody says otherwise."""
    said, known = setting.said.method.kind, setting.model.quantization
    if said is MethodKind.LORA and (known or setting.said.method.quantization):
        over = known or setting.said.method.quantization
        return setting.ledger.take(
            "method.kind", Default(MethodKind.QLORA, f"LoRA over {over} weights is QLoRA")
        )
    if said is not None:
        return said
    if setting.said.method.quantization is not None:
        return setting.ledger.take(
            "method.kind", Default(MethodKind.QLORA, "method.quantization was given")
        )
    if known is not None:
        return setting.ledger.take(
            "method.kind", Default(MethodKind.QLORA, f"the weights are {known}")
        )
    return setting.ledger.take("method.kind", setting.defaults.method.kind)


def find_method(
    setting: Setting, kind: MethodKind, sharding: Sharding, *, base_dtype: Dtype, engine_casts: bool
) -> Method:
    """Return the method with every field that matters for its kind.

    ``base_dtype``: the dtype of the weights around the adapters. ``engine_casts``: the training
    engine holds every parameter, adapters included, in it, beside an fp32 master copy (DeepSpeed
    ``engine.py`` ``_configure_distributed_model``; Megatron's params_dtype).
    """
    said, ledger = setting.said.method, setting.ledger
    if kind is MethodKind.FREEZE:
        layers = ledger.said_or(
            "method.trainable_layers",
            said.trainable_layers,
            setting.defaults.method.trainable_layers,
        )
        return Method(kind=kind, trainable_layers=layers, frozen_dtype=said.frozen_dtype)
    if kind is MethodKind.FULL:
        return Method(kind=kind)
    defaults = setting.defaults.adapters
    quantization = _quantization(setting, defaults) if kind is MethodKind.QLORA else None
    return Method(
        kind=kind,
        rank=ledger.said_or("method.rank", said.rank, defaults.rank),
        target_modules=_target_modules(setting, defaults),
        dropout=ledger.said_or("method.dropout", said.dropout, defaults.dropout),
        dora=said.dora or False,
        modules_to_save=said.modules_to_save or (),
        adapter_dtype=_adapter_dtype(
            setting, defaults, kind, base_dtype=base_dtype, engine_casts=engine_casts
        ),
        frozen_dtype=said.frozen_dtype,
        quantization=quantization,
        double_quant=_double_quant(setting, defaults, quantization),
        prepare_for_kbit_training=_prepare(setting, defaults, quantization, sharding),
    )


def _quantization(setting: Setting, defaults: AdapterDefaults) -> Quantization:
    said = setting.said.method.quantization
    if said is not None:
        return Quantization(said)
    known = setting.model.quantization
    if known is not None:
        return setting.ledger.take(
            "method.quantization", Default(Quantization(known), "the model's name or config")
        )
    return setting.ledger.take("method.quantization", defaults.quantization)


def _target_modules(setting: Setting, defaults: AdapterDefaults) -> str | tuple[str, ...]:
    said = setting.said.method.target_modules
    default = _default_targets(setting, defaults)
    targets = setting.ledger.said_or("method.target_modules", said, default)
    if targets == ALL_LINEAR:
        return targets
    return _matched(setting, targets) if isinstance(targets, str) else _named(setting, targets)


def _default_targets(setting: Setting, defaults: AdapterDefaults) -> Default[str | tuple[str, ...]]:
    """Return the framework's targets under this model's names, or peft's where it has none of them."""
    default, architecture = defaults.target_modules, setting.model.architecture
    if default is None:
        return _peft_default(architecture)
    names = default.value
    if isinstance(names, str) or setting.framework in _OWN_ADAPTERS:
        return default
    paths = block_paths(architecture, stacked_experts=False)
    if any(is_named(path, names) for path in paths):
        return default
    meant = meant_paths(architecture, names)
    return Default(meant, default.source) if meant else _peft_default(architecture)


def _named(setting: Setting, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, or what they mean in a model whose modules are called otherwise."""
    architecture = setting.model.architecture
    paths = block_paths(architecture, stacked_experts=False) + outside_paths(architecture)
    idle = tuple(name for name in names if not any(is_named(p, (name,)) for p in paths))
    if not idle or (idle != names and setting.framework not in _OWN_ADAPTERS):
        return names  # peft passes over names that match nothing beside some that do
    meant = meant_paths(architecture, idle)
    if not meant:
        return names
    setting.ledger.warn(
        "targets_renamed",
        f"{setting.model.name} has no {', '.join(idle)}: {', '.join(meant)} do their work and were"
        " taken. peft itself refuses the names.",
    )
    kept = tuple(name for name in names if name not in idle)
    return kept + tuple(path for path in meant if not is_named(path, kept))


def _matched(setting: Setting, pattern: str) -> tuple[str, ...]:
    """Return the modules that a regular expression adapts; none where it cannot be run.

    The cost model takes every layer alike: an expression for some layers only is warned about.
    """
    architecture = setting.model.architecture
    stacked = setting.stack.transformers >= STACKED_EXPERTS_SINCE
    blocks = block_paths(architecture, stacked_experts=stacked)
    layers = architecture.num_hidden_layers
    try:
        found = matched_modules(pattern, blocks, outside_paths(architecture), layers)
    except UnsafePatternError:
        return ()
    if 0 < found.layers < layers:
        setting.ledger.warn(
            "some_layers_adapted",
            f"target_modules match in {found.layers} of {layers} layers; the estimate adapts all.",
        )
    return found.modules


def holds_stacked_experts(software: Software) -> bool:
    """Return whether experts are stacked parameters, which LoRA by module name passes over."""
    return software.transformers >= STACKED_EXPERTS_SINCE


def _peft_default(architecture: ModelArchitecture) -> Default[str | tuple[str, ...]]:
    known = peft_targets(architecture.model_type)
    if known is not None:
        return Default(known, f"peft default for {architecture.model_type}")
    return Default("all-linear", f"vramgate: peft has no default for {architecture.model_type}")


def _adapter_dtype(
    setting: Setting,
    defaults: AdapterDefaults,
    kind: MethodKind,
    *,
    base_dtype: Dtype,
    engine_casts: bool,
) -> Dtype:
    said = setting.said.method.adapter_dtype
    if said is not None:
        return said
    if engine_casts:
        return setting.ledger.take(
            "method.adapter_dtype", Default(base_dtype, "the engine holds every parameter in it")
        )
    default = defaults.kbit_dtype if kind is MethodKind.QLORA else defaults.dtype
    value = default.value or base_dtype
    return setting.ledger.take("method.adapter_dtype", Default(value, default.source))


def _double_quant(
    setting: Setting, defaults: AdapterDefaults, quantization: Quantization | None
) -> bool:
    said = setting.said.method.double_quant
    if quantization not in BITSANDBYTES_4BIT:
        return False
    return setting.ledger.said_or("method.double_quant", said, defaults.double_quant)


def _prepare(
    setting: Setting,
    defaults: AdapterDefaults,
    quantization: Quantization | None,
    sharding: Sharding,
) -> bool:
    """Return whether peft's k-bit preparation casts 16-bit parameters to fp32.

    Sources: peft ``utils/other.py`` skips the cast for GPTQ; TRL ``sft_trainer.py`` and axolotl
    ``loaders/model.py`` skip the call where FSDP or ZeRO-3 shards the base.
    """
    said = setting.said.method.prepare_for_kbit_training
    if said is not None:
        return said
    if quantization is None:
        return False
    default = defaults.prepare_for_kbit_training
    if quantization in _NEVER_UPCAST:
        default = off("peft: GPTQ bases are not cast")
    elif default.value and (
        sharding.implementation in _SHARDS or sharding.zero_stage == SHARDS_WEIGHTS
    ):
        default = off("TRL, axolotl: a sharded base is not cast")
    return setting.ledger.take("method.prepare_for_kbit_training", default)
