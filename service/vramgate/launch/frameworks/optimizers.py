"""Optimizers by any framework's name for them, to the optimizer of the job.

- ``say_optimizer(reading, draft)``: ``adamw_torch_fused``, ``bitsandbytes.optim.PagedAdamW8bit``,
  ``FusedAdam``, ``ao_adamw_4bit``. What was said of the optimizer before is dropped, so options of
  its own (``in_backward``, a rank, fused) are said after it.
- ``say_momentum(reading, draft)``: SGD with a momentum is another optimizer than without.

A plain ``adam`` or ``adamw`` has a name only: how its step runs is its framework's default.

Read in transformers 4.45.2 and 5.24.0 ``training_args.py``, ``trainer_optimizer.py``; bitsandbytes
0.50 ``optim``; torchao 0.18 ``optim``; axolotl 0.19.0 ``utils/schemas/enums.py``; DeepSpeed 0.19.8
``runtime/config.py``; torch 2.13 ``optim``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from vramgate.costmodel.job import Dtype, OptimizerName
from vramgate.errors import shortened
from vramgate.jobs.vocabulary import OptimizerImplementation
from vramgate.launch.draft import Draft
from vramgate.launch.reading import Found, Misread, Reading, Unseen

_FUSED = OptimizerImplementation.FUSED
_FOREACH = OptimizerImplementation.FOREACH
_LOOP = OptimizerImplementation.FOR_LOOP
_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What a name says of an optimizer; None is left to the framework's defaults."""

    name: OptimizerName
    implementation: OptimizerImplementation | None = None
    in_backward: bool | None = None
    quantized: bool | None = None
    states: Dtype | None = None
    """Where they do not follow the parameters."""


def say_optimizer(reading: Reading[str], draft: Draft) -> None:
    """Keep an optimizer by the name that a framework has for it; the last one said counts."""
    if reading is None:
        return
    _drop_former(draft)
    if isinstance(reading, Unseen):
        draft.unknown("optimizer", reading)
    elif isinstance(reading, Misread):
        draft.misread("optimizer.name", reading)
    else:
        known = _known(reading.value)
        if known is None:
            _say_unknown(reading, draft)
        else:
            _say_known(known, reading.source, draft)


def say_momentum(reading: Reading[float], draft: Draft) -> None:
    """Turn an SGD that was said into one with momentum, or into one without."""
    said = draft.said("optimizer.name")
    if said is None or said.value not in {OptimizerName.SGD, OptimizerName.SGD_MOMENTUM}:
        return
    if isinstance(reading, Found):
        name = OptimizerName.SGD_MOMENTUM if reading.value else OptimizerName.SGD
        draft.say("optimizer.name", Found(name, reading.source))
    else:
        draft.say("optimizer.name", reading)


def _drop_former(draft: Draft) -> None:
    former, states = draft.said("optimizer.name"), draft.said("precision.optimizer_states")
    if former is not None and states is not None and states.source == former.source:
        draft.forget("precision.optimizer_states")
    draft.forget("optimizer")


def _say_known(known: _Known, source: str, draft: Draft) -> None:
    said = {
        "optimizer.name": known.name,
        "optimizer.implementation": known.implementation,
        "optimizer.in_backward": known.in_backward,
        "optimizer.quantized": known.quantized,
        "precision.optimizer_states": known.states,
    }
    for field, value in said.items():
        if value is not None:
            draft.say(field, Found(value, source))


def _say_unknown(reading: Found[str], draft: Draft) -> None:
    name = shortened(reading.value, _SHOWN)
    draft.warn(
        "optimizer_unknown_to_the_model",
        f"The sizes of {name}'s states are not known here ({reading.source}).",
    )
    draft.unknown(
        "optimizer",
        Unseen(
            reading.source,
            f"the sizes of {name}'s states are not known here",
            "name the known optimizer whose states are closest with VRAMGATE_OPTIMIZER",
        ),
    )


def _known(name: str) -> _Known | None:
    """Return what a name stands for: a whole class path counts by its package and class."""
    path = name.strip().replace("-", "_").lower()
    package, _, last = path.rpartition(".")
    if package:
        own = _BY_PACKAGE.get(package.partition(".")[0], {})
        if last in own:
            return own[last]
    return _BY_NAME.get(last)


def _torch(name: OptimizerName) -> _Known:
    # torch optim/optimizer.py, _default_to_fused_or_foreach: foreach for CUDA parameters.
    return _Known(name=name, implementation=_FOREACH)


def _bitsandbytes(name: OptimizerName) -> _Known:
    # bitsandbytes optim/optimizer.py, get_state_buffer: fp32, whatever the parameter's dtype.
    return _Known(name=name, implementation=_FUSED, states=Dtype.FP32)


def _layerwise(name: OptimizerName) -> _Known:
    # transformers trainer_optimizer.py: a hook on each parameter steps and frees its gradient.
    return _Known(name=name, in_backward=True)


_ADAMW = _Known(name=OptimizerName.ADAMW)
_FUSED_ADAMW = _Known(name=OptimizerName.ADAMW, implementation=_FUSED)
_LOOP_ADAMW = _Known(name=OptimizerName.ADAMW, implementation=_LOOP)
_ADAMW_8BIT = _Known(name=OptimizerName.ADAMW_8BIT)
_ADAMW_4BIT = _Known(name=OptimizerName.ADAMW_4BIT)
_ADAMW_FP8 = _Known(name=OptimizerName.ADAMW_FP8)
_PAGED_ADAMW = _Known(name=OptimizerName.PAGED_ADAMW)
_PAGED_ADAMW_8BIT = _Known(name=OptimizerName.PAGED_ADAMW_8BIT)
_LION = _Known(name=OptimizerName.LION)
_LION_8BIT = _Known(name=OptimizerName.LION_8BIT)
_PAGED_LION_8BIT = _Known(name=OptimizerName.PAGED_LION_8BIT)
_ADAFACTOR = _Known(name=OptimizerName.ADAFACTOR)
_SGD = _Known(name=OptimizerName.SGD)
_MUON = _Known(name=OptimizerName.MUON)
_GALORE = _Known(name=OptimizerName.GALORE_ADAMW)
_GALORE_8BIT = _Known(name=OptimizerName.GALORE_ADAMW_8BIT)
_Q_GALORE = _Known(name=OptimizerName.GALORE_ADAMW_8BIT, quantized=True)
_APOLLO = _Known(name=OptimizerName.APOLLO)
# LOMO updates each parameter in the backward pass and keeps nothing.
_LOMO = _Known(name=OptimizerName.LOMO, in_backward=True)

_TRAINER: Mapping[str, _Known] = {
    "adamw_torch": _torch(OptimizerName.ADAMW),
    "adamw_torch_fused": _FUSED_ADAMW,
    "adamw_torch_xla": _FUSED_ADAMW,
    "adamw_torch_npu_fused": _FUSED_ADAMW,
    "adamw_apex_fused": _FUSED_ADAMW,
    # transformers optimization.py, AdamW: a loop over the parameters (gone in 5.0).
    "adamw_hf": _LOOP_ADAMW,
    # torchdistx, with the Trainer's momentum_dtype and variance_dtype: float32.
    "adamw_anyprecision": _Known(name=OptimizerName.ADAMW, implementation=_LOOP, states=Dtype.FP32),
    "adamw_torch_4bit": _ADAMW_4BIT,
    "adamw_torch_8bit": _ADAMW_8BIT,
    "adamw_bnb_8bit": _ADAMW_8BIT,
    "adamw_8bit": _ADAMW_8BIT,
    "paged_adamw_32bit": _PAGED_ADAMW,
    "paged_adamw": _PAGED_ADAMW,
    "paged_adamw_8bit": _PAGED_ADAMW_8BIT,
    "lion_32bit": _bitsandbytes(OptimizerName.LION),
    "lion_8bit": _LION_8BIT,
    "paged_lion_8bit": _PAGED_LION_8BIT,
    "adafactor": _ADAFACTOR,
    "sgd": _SGD,
    "adagrad": _torch(OptimizerName.ADAGRAD),
    "rmsprop": _torch(OptimizerName.RMSPROP),
    "rmsprop_bnb": _bitsandbytes(OptimizerName.RMSPROP),
    "rmsprop_bnb_32bit": _bitsandbytes(OptimizerName.RMSPROP),
    "galore_adamw": _GALORE,
    "galore_adamw_8bit": _GALORE_8BIT,
    "galore_adamw_layerwise": _layerwise(OptimizerName.GALORE_ADAMW),
    "galore_adamw_8bit_layerwise": _layerwise(OptimizerName.GALORE_ADAMW_8BIT),
    "apollo_adamw": _APOLLO,
    "apollo_adamw_layerwise": _layerwise(OptimizerName.APOLLO),
    "lomo": _LOMO,
}
"""transformers' ``--optim``."""

_OTHER_NAMES: Mapping[str, _Known] = {
    "adam": _ADAMW,
    "adamw": _ADAMW,
    "lion": _LION,
    "muon": _MUON,
    "dist_muon": _MUON,
    "soap": _Known(name=OptimizerName.SOAP),
    "shampoo": _Known(name=OptimizerName.SHAMPOO),
    "apollo_mini": _Known(name=OptimizerName.APOLLO_MINI),
    "q_galore_adamw8bit": _Q_GALORE,
    "ao_adamw_4bit": _ADAMW_4BIT,
    "ao_adamw_8bit": _ADAMW_8BIT,
    "ao_adamw_fp8": _ADAMW_FP8,
    # mup optim.py: torch's Adam, SGD with other learning rates.
    "muadam": _ADAMW,
    "muadamw": _ADAMW,
    "musgd": _SGD,
}
"""axolotl, DeepSpeed, Megatron and plain words."""

_CLASSES: Mapping[str, _Known] = {
    "fusedadam": _FUSED_ADAMW,
    "fusedsgd": _SGD,
    "fusedlion": _LION,
    "deepspeedcpuadam": _FUSED_ADAMW,
    "deepspeedcpulion": _LION,
    # composer optim/decoupled_weight_decay.py: a loop over the parameters.
    "decoupledadamw": _LOOP_ADAMW,
    "adam8bit": _ADAMW_8BIT,
    "adamw8bit": _ADAMW_8BIT,
    "adam4bit": _ADAMW_4BIT,
    "adamw4bit": _ADAMW_4BIT,
    "adamfp8": _ADAMW_FP8,
    "adamwfp8": _ADAMW_FP8,
    "adam32bit": _bitsandbytes(OptimizerName.ADAMW),
    "adamw32bit": _bitsandbytes(OptimizerName.ADAMW),
    "pagedadam": _PAGED_ADAMW,
    "pagedadamw": _PAGED_ADAMW,
    "pagedadam32bit": _PAGED_ADAMW,
    "pagedadamw32bit": _PAGED_ADAMW,
    "pagedadam8bit": _PAGED_ADAMW_8BIT,
    "pagedadamw8bit": _PAGED_ADAMW_8BIT,
    "lion8bit": _LION_8BIT,
    "lion32bit": _bitsandbytes(OptimizerName.LION),
    "pagedlion8bit": _PAGED_LION_8BIT,
    "galoreadamw": _GALORE,
    "galoreadamw8bit": _GALORE_8BIT,
    "qgaloreadamw8bit": _Q_GALORE,
    "apolloadamw": _APOLLO,
    "distributedshampoo": _Known(name=OptimizerName.SHAMPOO),
}
"""Classes whose names say whose they are."""

_BY_NAME = {**_CLASSES, **_OTHER_NAMES, **_TRAINER}
_BY_PACKAGE: Mapping[str, Mapping[str, _Known]] = {
    "torch": {
        "adam": _torch(OptimizerName.ADAMW),
        "adamw": _torch(OptimizerName.ADAMW),
        "sgd": _torch(OptimizerName.SGD),
    },
    "bitsandbytes": {
        "adam": _bitsandbytes(OptimizerName.ADAMW),
        "adamw": _bitsandbytes(OptimizerName.ADAMW),
        # It refuses a momentum of 0.
        "sgd": _bitsandbytes(OptimizerName.SGD_MOMENTUM),
        "sgd32bit": _bitsandbytes(OptimizerName.SGD_MOMENTUM),
        "lion": _bitsandbytes(OptimizerName.LION),
        "adagrad": _bitsandbytes(OptimizerName.ADAGRAD),
        "adagrad32bit": _bitsandbytes(OptimizerName.ADAGRAD),
        "rmsprop": _bitsandbytes(OptimizerName.RMSPROP),
        "rmsprop32bit": _bitsandbytes(OptimizerName.RMSPROP),
    },
    "transformers": {"adamw": _LOOP_ADAMW},
    # torchao optim/cpu_offload.py and _AdamW: states in the parameters' dtype, one compiled kernel.
    "torchao": {"_adamw": _FUSED_ADAMW},
}
