"""What LLaMA-Factory refuses before it starts, as far as it bears on memory.

Sources: llamafactory 0.9.5 ``hparams/parser.py`` (``get_train_args``, ``_verify_model_args``),
``hparams/finetuning_args.py`` (``__post_init__``), ``model/model_utils/quantization.py``,
``train/trainer_utils.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass

from vramgate.costmodel.job import ShardingImplementation
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.llama_factory.optimizer import EIGHT_BIT
from vramgate.launch.frameworks.tuners import is_under, refuse
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Settings

_ADAPTERS = frozenset({"lora", "oft"})
_BITS = frozenset({4, 8})
_FULL_SHARD = 3
_GALORE_OPTIMS = EIGHT_BIT | {"adamw_torch", "adafactor"}
_BITSANDBYTES = frozenset({"bnb", "bitsandbytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    settings: Settings
    kind: str
    draft: Draft

    def on(self, *names: str) -> list[Found[bool]]:
        """Return the switches among these that are on."""
        flags = (self.settings.flag(name) for name in names)
        return [flag for flag in flags if isinstance(flag, Found) and flag.value]

    @property
    def bits(self) -> Found[int] | None:
        """The bits that weights are quantised to on loading."""
        bits = self.settings.whole("quantization_bit")
        return bits if isinstance(bits, Found) else None

    @property
    def stated_kind(self) -> Reading[str]:
        """What is said of the method."""
        return self.settings.text("finetuning_type")

    @property
    def is_zero_3(self) -> bool:
        """Whether DeepSpeed shards the weights."""
        stage = self.draft.said("sharding.zero_stage")
        is_deepspeed = is_under(self.draft, ShardingImplementation.DEEPSPEED)
        return is_deepspeed and stage is not None and stage.value == _FULL_SHARD

    @property
    def is_distributed(self) -> bool:
        """Whether several processes are known to run."""
        devices = self.draft.said("hardware.devices")
        return devices is not None and devices.value > 1


def check(settings: Settings, kind: str, draft: Draft) -> None:
    """Report what LLaMA-Factory would refuse; ``kind``: finetuning_type as it is in effect."""
    case = _Case(settings=settings, kind=kind, draft=draft)
    for rule in _RULES:
        rule(case)


def _model(case: _Case) -> None:
    if case.settings.text("model_name_or_path") is None:
        refuse(
            case.draft,
            "no_model",
            "model_name_or_path is not given",
            "name the model in model_name_or_path",
            field="model.name",
        )


def _quantization_needs_adapters(case: _Case) -> None:
    if case.bits is not None and case.kind not in _ADAPTERS:
        refuse(
            case.draft,
            "quantization_without_lora",
            f"quantization_bit {case.bits.value} with finetuning_type {case.kind}: quantised"
            " weights take lora or oft only",
            "write finetuning_type: lora, or leave quantization_bit out",
            case.bits,
            case.stated_kind,
            field="method.quantization",
        )


def _bits_of_bitsandbytes(case: _Case) -> None:
    method = case.settings.text("quantization_method")
    other = isinstance(method, Found) and method.value.lower() not in _BITSANDBYTES
    if case.bits is None or other:
        return
    if case.bits.value not in _BITS:
        refuse(
            case.draft,
            "bitsandbytes_bits",
            f"quantization_bit {case.bits.value}: bitsandbytes has 4 and 8",
            "write 4 or 8",
            case.bits,
            field="method.quantization",
        )
    fsdp = is_under(case.draft, ShardingImplementation.FSDP, ShardingImplementation.FSDP2)
    if case.bits.value == max(_BITS) and (case.is_zero_3 or fsdp):
        refuse(
            case.draft,
            "int8_sharded",
            "8-bit weights under ZeRO-3 or FSDP: only 4-bit ones are sharded",
            "write quantization_bit: 4, or shard less",
            case.bits,
            case.draft.said("sharding.implementation"),
            field="method.quantization",
        )


def _quantization_excludes(case: _Case) -> None:
    if case.bits is None:
        return
    for flag in case.on("pissa_init", "resize_vocab", "fp8"):
        refuse(
            case.draft,
            "not_with_quantization",
            f"{flag.source} with quantization_bit {case.bits.value}",
            "turn one of them off",
            flag,
            case.bits,
            field="method.quantization",
        )


def _adapters_for_lora(case: _Case) -> None:
    loaded = case.settings.text("adapter_name_or_path")
    if isinstance(loaded, Found) and case.kind != "lora":
        refuse(
            case.draft,
            "adapter_without_lora",
            f"adapter_name_or_path with finetuning_type {case.kind}: adapters are for lora only",
            "write finetuning_type: lora, or leave adapter_name_or_path out",
            loaded,
            case.stated_kind,
            field="method.kind",
        )


def _lora_only(case: _Case) -> None:
    if case.kind == "lora":
        return
    said: list[Found[object]] = [*case.on("use_dora", "use_rslora", "pissa_init")]
    ratio = case.settings.number("loraplus_lr_ratio")
    if isinstance(ratio, Found):
        said.append(ratio)
    for option in said:
        refuse(
            case.draft,
            "lora_option_without_lora",
            f"{option.source} with finetuning_type {case.kind}: it is for lora only",
            "leave it out, or write finetuning_type: lora",
            option,
            case.stated_kind,
            field="method.kind",
        )


def _one_projected_optimizer(case: _Case) -> None:
    used = case.on("use_galore", "use_apollo", "use_badam")
    if len(used) > 1:
        refuse(
            case.draft,
            "several_optimizers",
            f"{' and '.join(one.source for one in used)}: only one of GaLore, APOLLO and BAdam",
            "keep one of them",
            *used,
            field="optimizer.name",
        )
    if used and case.kind == "lora":
        refuse(
            case.draft,
            "lora_with_galore",
            f"{used[0].source} with finetuning_type lora: GaLore, APOLLO and BAdam train weights"
            " whole",
            "write finetuning_type: full, or leave it out",
            *used,
            case.stated_kind,
            field="optimizer.name",
        )


def _projected_with_engine(case: _Case) -> None:
    deepspeed = case.settings.value("deepspeed")
    if isinstance(deepspeed, Found) and deepspeed.value is not None:
        for flag in case.on("use_galore", "use_apollo"):
            refuse(
                case.draft,
                "galore_with_deepspeed",
                f"{flag.source} with deepspeed",
                "leave deepspeed out, or choose another optimizer",
                flag,
                Found(str(deepspeed.value), deepspeed.source),
                field="optimizer.name",
            )
    optim = case.settings.text("optim")
    for flag in case.on("use_galore"):
        if isinstance(optim, Found) and optim.value not in _GALORE_OPTIMS:
            refuse(
                case.draft,
                "galore_optim",
                f"use_galore with optim {optim.value}: it is written for adamw_torch, 8-bit AdamW"
                " and adafactor",
                "write optim: adamw_torch",
                flag,
                optim,
                field="optimizer.name",
            )


def _layerwise(case: _Case) -> None:
    steps = case.draft.said("gradient_accumulation_steps")
    for prefix in ("galore", "apollo"):
        if not case.on(f"use_{prefix}"):
            continue
        for flag in case.on(f"{prefix}_layerwise"):
            if case.is_distributed:
                refuse(
                    case.draft,
                    "layerwise_distributed",
                    f"{flag.source} on several devices",
                    "run on one device, or turn it off",
                    flag,
                    case.draft.said("hardware.devices"),
                    field="optimizer.in_backward",
                )
            if steps is not None and steps.value > 1:
                refuse(
                    case.draft,
                    "layerwise_accumulation",
                    f"{flag.source} with gradient_accumulation_steps {steps.value}",
                    "write gradient_accumulation_steps: 1, or turn it off",
                    flag,
                    steps,
                    field="optimizer.in_backward",
                )


def _badam_distributed(case: _Case) -> None:
    used = case.on("use_badam")
    if not used or not case.is_distributed:
        return
    mode = case.settings.text("badam_mode")
    by_ratio = isinstance(mode, Found) and mode.value == "ratio"
    if by_ratio or not case.is_zero_3:
        refuse(
            case.draft,
            "badam_distributed",
            "BAdam on several devices: by layer and under ZeRO-3 only",
            "write badam_mode: layer with a ZeRO-3 file, or run on one device",
            *used,
            mode,
            field="optimizer.name",
        )


def _not_under_zero_3(case: _Case) -> None:
    if not case.is_zero_3:
        return
    for flag in case.on("pure_bf16", "use_unsloth", "use_kt", "pissa_init"):
        refuse(
            case.draft,
            "not_with_zero_3",
            f"{flag.source} with DeepSpeed ZeRO-3",
            "turn it off, or take a stage below 3",
            flag,
            case.draft.said("sharding.zero_stage"),
            field="sharding.zero_stage",
        )


def _neat_packing(case: _Case) -> None:
    stage = case.settings.text("stage")
    if isinstance(stage, Found) and stage.value.lower() != "sft":
        for flag in case.on("neat_packing"):
            refuse(
                case.draft,
                "neat_packing_without_sft",
                f"neat_packing with stage {stage.value}: it is for sft only",
                "leave it out",
                flag,
                stage,
                field="packing",
            )


def _llama_pro(case: _Case) -> None:
    if case.kind == "full":
        for flag in case.on("use_llama_pro"):
            refuse(
                case.draft,
                "llama_pro_with_full",
                "use_llama_pro with finetuning_type full: it is for freeze and lora",
                "write finetuning_type: freeze",
                flag,
                case.stated_kind,
                field="method.kind",
            )


def _reward_model(case: _Case) -> None:
    stage = case.settings.text("stage")
    is_ppo = isinstance(stage, Found) and stage.value.lower() == "ppo"
    if is_ppo and case.settings.text("reward_model") is None:
        refuse(
            case.draft,
            "ppo_without_reward_model",
            "stage ppo without reward_model",
            "name it in reward_model",
            stage,
            field="task",
        )


_RULES: tuple[Callable[[_Case], None], ...] = (
    _model,
    _quantization_needs_adapters,
    _bits_of_bitsandbytes,
    _quantization_excludes,
    _adapters_for_lora,
    _lora_only,
    _one_projected_optimizer,
    _projected_with_engine,
    _layerwise,
    _badam_distributed,
    _not_under_zero_3,
    _neat_packing,
    _llama_pro,
    _reward_model,
)
