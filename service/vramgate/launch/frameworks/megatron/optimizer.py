"""Megatron-LM's optimizer, and where its states rest.

Sources, Megatron-LM d98e8a64: ``training/arguments.py``, ``core/optimizer/optimizer_config.py``:
SGD's momentum is 0.9 where nobody says it; offload reuses the precision-aware optimizer.
"""

from vramgate.jobs.vocabulary import Offload
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.megatron.arguments import Arguments
from vramgate.launch.frameworks.optimizers import say_momentum, say_optimizer
from vramgate.launch.reading import Found

_SGD_MOMENTUM = 0.9
_LAYER_WISE = "dist_muon"


def say_megatron_optimizer(arguments: Arguments, draft: Draft) -> None:
    """Say the optimizer and where its states rest."""
    named = arguments.settings.text("optimizer")
    if isinstance(named, Found) and named.value == _LAYER_WISE:
        named = Found("muon", named.source)
    say_optimizer(named, draft)
    if isinstance(named, Found) and named.value == "sgd":
        momentum = arguments.settings.number("sgd_momentum")
        default = Found(_SGD_MOMENTUM, named.source)
        say_momentum(momentum if momentum is not None else default, draft)
    aware = arguments.on("use_precision_aware_optimizer")
    if aware and isinstance(named, Found) and named.value != "adam":
        draft.problem(
            Problem(
                rule="precision_aware_optimizer_not_adam",
                detail=f"use-precision-aware-optimizer works with adam, not {named.value[:80]}",
                fix="leave it out, or write --optimizer adam",
                values={aware.source: True, named.source: named.value[:200]},
                field="optimizer.name",
            )
        )
    _say_offload(arguments, draft)


def _say_offload(arguments: Arguments, draft: Draft) -> None:
    offload = arguments.on("optimizer_cpu_offload", "cpu_optimizer")
    if offload is None:
        return
    draft.say("sharding.offload_optimizer", Found(Offload.CPU, offload.source))
    draft.say("sharding.offload_fraction", arguments.settings.number("optimizer_offload_fraction"))
    needs = arguments.is_whole and "deepspeed" not in arguments.settings
    if needs and not arguments.on("use_precision_aware_optimizer"):
        draft.problem(
            Problem(
                rule="offload_without_precision_aware_optimizer",
                detail="optimizer-cpu-offload needs use-precision-aware-optimizer",
                fix="add --use-precision-aware-optimizer",
                values={offload.source: True},
                field="sharding.offload_optimizer",
            )
        )
