"""Number formats under DeepSpeed: its bf16, fp16, torch_autocast and data_types sections.

Sources: DeepSpeed 0.19.8 ``runtime/precision_config.py``, ``runtime/config.py``
(``_initialize_params``, ``_do_error_check``), ``runtime/engine.py`` (``get_data_types``,
``_configure_optimizer``): 16-bit weights with an fp32 master copy, whether ZeRO shards or not;
transformers 5.24.0 ``integrations/deepspeed.py`` (``trainer_config_process``).
"""

from collections.abc import Mapping

from vramgate.costmodel.job import Dtype
from vramgate.jobs.number_formats import HALVES, KEEPS_MASTER
from vramgate.jobs.precision import PrecisionPreset
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.deepspeed.file import DeepSpeedFile
from vramgate.launch.reading import Found, Misread, Reading, Unseen, value_or
from vramgate.launch.settings import Settings

_PRESETS = {"bf16": PrecisionPreset.BF16_MASTER, "fp16": PrecisionPreset.FP16_MASTER}
_MASTER = {Dtype.BF16: PrecisionPreset.BF16_MASTER, Dtype.FP16: PrecisionPreset.FP16_MASTER}
_DTYPES: Mapping[str, Dtype] = {
    **dict.fromkeys(("fp16", "float16", "half", "torch.float16"), Dtype.FP16),
    **dict.fromkeys(("bf16", "bfloat16", "torch.bfloat16"), Dtype.BF16),
    **dict.fromkeys(("fp32", "float32", "float", "torch.float32"), Dtype.FP32),
}
_AUTOCAST = "torch_autocast"


def say_precision(file: DeepSpeedFile, draft: Draft, trainer: Settings | None) -> None:
    """Say the number formats that a configuration, with the trainer's words for ``"auto"``, turns on."""
    switches = {name: _enabled(file, name, trainer) for name in _PRESETS}
    on = {name: one for name, one in switches.items() if isinstance(one, Found) and one.value}
    if len(on) > 1:
        _report_both(on, draft)
        return
    for name, switch in on.items():
        draft.say_preset(Found(_PRESETS[name], switch.source))
        _say_low_master(file, name, draft)
    for reading in switches.values():
        if isinstance(reading, Misread):
            draft.misread("precision", reading)
        elif isinstance(reading, Unseen):
            draft.unknown("precision", reading)
    if not on:
        _say_without_halves(file, draft, trainer)
    _say_gradients(file, draft)


def _enabled(file: DeepSpeedFile, name: str, trainer: Settings | None) -> Reading[bool]:
    section = "bfloat16" if name == "bf16" and name not in file.values else name
    if file.is_auto(section, "enabled"):
        own = None if trainer is None else trainer.flag(name)
        return None if isinstance(own, Misread) else own  # its own reader reports it
    return file.section(section).flag("enabled")


def _report_both(on: Mapping[str, Found[bool]], draft: Draft) -> None:
    draft.problem(
        Problem(
            rule="fp16_with_bf16",
            detail="bf16 and fp16 are both enabled; DeepSpeed runs in one of them",
            fix="turn one off",
            values={one.source: True for one in on.values()},
            field="precision",
        )
    )


def _say_low_master(file: DeepSpeedFile, name: str, draft: Draft) -> None:
    """Say what ``…_master_weights_and_grads`` and ``bf16_optimizer_states`` lower."""
    section = file.section(name)
    low = section.flag(f"{name}_master_weights_and_grads")
    states = section.flag("bf16_optimizer_states") if name == "bf16" else None
    stage = draft.said("sharding.zero_stage")
    for switch in (low, states):
        if value_or(switch, default=False) and not (stage and stage.value):
            _report_needs(switch, "ZeRO stage 1, 2 or 3", draft)
    if value_or(states, default=False) and not value_or(low, default=False):
        _report_needs(states, "bf16_master_weights_and_grads", draft)
    if isinstance(low, Found) and low.value:
        draft.say("precision.gradients", Found(Dtype(name), low.source))
        draft.warn(
            "low_precision_master",
            f"{low.source}: the master copy is kept in {name}; it is counted in fp32.",
        )
    if isinstance(states, Found) and states.value:
        draft.say("precision.optimizer_states", Found(Dtype.BF16, states.source))


def _report_needs(switch: Reading[bool], needed: str, draft: Draft) -> None:
    if isinstance(switch, Found):
        key = switch.source.rpartition(".")[2]
        draft.problem(
            Problem(
                rule="low_precision_master_needs",
                detail=f"{switch.source} needs {needed}",
                fix=f"turn on {needed}, or leave {key} out",
                values={switch.source: switch.value},
                field="precision",
            )
        )


def _say_without_halves(file: DeepSpeedFile, draft: Draft, trainer: Settings | None) -> None:
    """Say fp32, or autocast over fp32 weights; under a trainer, the trainer's words decide."""
    autocast = file.section(_AUTOCAST).flag("enabled")
    if isinstance(autocast, Found) and autocast.value:
        dtype = _dtype(file.section(_AUTOCAST), "dtype")
        is_fp16 = isinstance(dtype, Found) and dtype.value is Dtype.FP16
        preset = PrecisionPreset.FP16_MIXED if is_fp16 else PrecisionPreset.BF16_MIXED
        draft.say_preset(Found(preset, autocast.source))
    elif trainer is None:
        place = f"{file.prefix.rstrip(': .')} (neither bf16 nor fp16 enabled)"
        draft.say_preset(Found(PrecisionPreset.FP32, place))


def _say_gradients(file: DeepSpeedFile, draft: Draft) -> None:
    draft.say("precision.gradients", _dtype(file.section("data_types"), "grad_accum_dtype"))


def _dtype(settings: Settings, name: str) -> Reading[Dtype]:
    said = settings.text(name)
    if not isinstance(said, Found):
        return said
    dtype = _DTYPES.get(said.value.lower())
    if dtype is None:
        return Misread(said.source, said.value, "fp32, bf16 or fp16")
    return Found(dtype, said.source)


def settle_precision(draft: Draft) -> None:
    """Turn a trainer's mixed precision into its engine's, where DeepSpeed or Megatron-LM runs it.

    A trainer asks for bf16 or fp16; the engine then makes the weights 16-bit and keeps an fp32 copy,
    and nothing is cast on the way. DeepSpeed's own ``torch_autocast`` is another matter.
    """
    engine = draft.said("sharding.implementation")
    compute, autocast = draft.said("precision.compute"), draft.said("precision.autocast")
    if engine is None or engine.value not in KEEPS_MASTER or compute is None:
        return
    if autocast is None or not autocast.value or _AUTOCAST in autocast.source:
        return
    dtype = Dtype(compute.value)
    if dtype in HALVES:
        gradients = draft.said("precision.gradients")
        draft.forget("precision")
        draft.say_preset(Found(_MASTER[dtype], compute.source))
        if gradients is not None and gradients.source != autocast.source:
            draft.say("precision.gradients", gradients)
