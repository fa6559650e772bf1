"""LLaMA-Factory's optimizers: the Trainer's, or one of its own in their place.

Source: llamafactory 0.9.5 ``train/trainer_utils.py``, ``hparams/finetuning_args.py``.
"""

from vramgate.costmodel.job import OptimizerName
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.optimizers import say_optimizer
from vramgate.launch.frameworks.tuners import at_least_one, say_unknown
from vramgate.launch.reading import Found
from vramgate.launch.settings import Settings

EIGHT_BIT = frozenset({"adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit"})
"""What ``--optim`` may be for GaLore to keep its states in 8 bits."""

_RANK = 16  # galore_rank and apollo_rank
_UNKNOWN = {"use_badam": "BAdam", "use_adam_mini": "Adam-mini"}


def say_optimizers(settings: Settings, draft: Draft) -> None:
    """Say the optimizer."""
    optim = settings.text("optim")
    say_optimizer(optim, draft)
    galore, apollo, muon = (
        settings.flag(name) for name in ("use_galore", "use_apollo", "use_muon")
    )
    if isinstance(galore, Found) and galore.value:
        in_8_bits = isinstance(optim, Found) and optim.value.lower() in EIGHT_BIT
        name = OptimizerName.GALORE_ADAMW_8BIT if in_8_bits else OptimizerName.GALORE_ADAMW
        _say_projected("galore", Found(name, galore.source), settings, draft)
    elif isinstance(apollo, Found) and apollo.value:
        _say_projected("apollo", Found(OptimizerName.APOLLO, apollo.source), settings, draft)
    elif isinstance(muon, Found) and muon.value:
        draft.forget("optimizer")
        draft.say("optimizer.name", Found(OptimizerName.MUON, muon.source))
    for flag, optimizer in _UNKNOWN.items():
        _say_unknown_one(flag, optimizer, settings, draft)


def _say_projected(
    prefix: str, name: Found[OptimizerName], settings: Settings, draft: Draft
) -> None:
    draft.forget("optimizer")
    draft.say("optimizer.name", name)
    rank = at_least_one(settings.whole(f"{prefix}_rank"))
    if rank is None:
        draft.assume("optimizer.rank", _RANK, f"LLaMA-Factory default ({prefix}_rank)")
    else:
        draft.say("optimizer.rank", rank)
    layerwise = settings.flag(f"{prefix}_layerwise")
    if isinstance(layerwise, Found) and layerwise.value:
        draft.say("optimizer.in_backward", layerwise)


def _say_unknown_one(flag: str, name: str, settings: Settings, draft: Draft) -> None:
    used = settings.flag(flag)
    if not (isinstance(used, Found) and used.value):
        return
    draft.warn(
        "optimizer_unknown_to_the_model",
        f"The sizes of {name}'s states are not known here ({used.source}).",
    )
    say_unknown(
        "optimizer",
        used,
        draft,
        reason=f"the sizes of {name}'s states are not known here",
        hint="name the known optimizer whose states are closest with VRAMGATE_OPTIMIZER",
    )
