"""FSDP by accelerate's names: ``fsdp_version``, ``fsdp_sharding_strategy``, ``fsdp_auto_wrap_policy``, ….

Sources: accelerate 1.15.0 ``utils/dataclasses.py`` (``FullyShardedDataParallelPlugin.__post_init__``),
``commands/launch.py`` and ``utils/launch.py`` (what the command line leaves out), ``accelerator.py``
(``sharding_strategy or reshard_after_forward``).
"""

from vramgate.costmodel.job import CheckpointMode, ShardingImplementation
from vramgate.jobs.sharding import FULL_SHARD
from vramgate.jobs.vocabulary import Offload, Wrap
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen, value_or
from vramgate.launch.settings import Settings

_GRADIENTS = 2
_STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
"""utils/constants.py: named, or numbered from 1."""
_STAGES = {
    "FULL_SHARD": FULL_SHARD,
    "SHARD_GRAD_OP": _GRADIENTS,
    "NO_SHARD": 0,
    "HYBRID_SHARD": FULL_SHARD,
    "HYBRID_SHARD_ZERO2": _GRADIENTS,
}
_POLICIES = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
_VERSIONS = {1: ShardingImplementation.FSDP, 2: ShardingImplementation.FSDP2}
_BOOLEAN = "true or false"


def say_fsdp(settings: Settings, context: Context) -> None:
    """Say how FSDP shards; what was said of sharding before gives way.

    Where nobody says the version it is 1, and nothing is wrapped, as on accelerate's command line.
    """
    draft = context.draft
    version = settings.whole("fsdp_version")
    if isinstance(version, Found) and version.value not in _VERSIONS:
        draft.misread("sharding.implementation", Misread(version.source, version.value, "1 or 2"))
        return
    draft.forget("sharding")
    if isinstance(version, Found):
        draft.say("sharding.implementation", Found(_VERSIONS[version.value], version.source))
    elif version is None:
        draft.assume("sharding.implementation", _VERSIONS[1], "accelerate default (fsdp_version 1)")
    else:
        draft.say("sharding.implementation", version)
    if value_or(version, 1) == 1:
        _say_strategy(settings, draft)
    else:
        _say_reshard(settings, draft)
    _say_wrap(settings, draft)
    _say_offload(settings, draft)
    _say_checkpointing(settings, draft, version=value_or(version, 1))
    _check_loading(settings, draft)


def _say_strategy(settings: Settings, draft: Draft) -> None:
    """Say version 1's strategy; the command line always has one, so ``reshard_after_forward`` is not read."""
    said = settings.text("fsdp_sharding_strategy")
    reshard = settings.get("fsdp_reshard_after_forward")
    if reshard is not None and str(reshard.said).upper() not in {"FULL_SHARD", "TRUE", "1"}:
        draft.warn(
            "fsdp_reshard_ignored",
            f"{reshard.source} has no effect with FSDP version 1 on accelerate's command line; there"
            " fsdp_sharding_strategy counts.",
        )
    if not isinstance(said, Found):
        draft.say("sharding.zero_stage", said)
        return
    name = said.value.upper()
    if name.isdecimal() and 1 <= int(name) <= len(_STRATEGIES):
        name = _STRATEGIES[int(name) - 1]
    if name not in _STAGES:
        expected = f"one of {', '.join(_STRATEGIES)}"
        draft.misread("sharding.zero_stage", Misread(said.source, said.value, expected))
        return
    draft.say("sharding.zero_stage", Found(_STAGES[name], said.source))
    if name.startswith("HYBRID"):
        draft.say("sharding.shard_group_size", _one_node(draft, said.source))


def _one_node(draft: Draft, source: str) -> Reading[int]:
    """Return the ranks of a node: torch shards inside it and copies between nodes."""
    per_node = draft.said("hardware.devices_per_node")
    if per_node is not None:
        return Found(int(per_node.value), source)
    return Unseen(
        source,
        "it shards inside a node, and nothing says how many devices one has",
        "give hardware.devices_per_node",
    )


def _say_reshard(settings: Settings, draft: Draft) -> None:
    """Say version 2's ``reshard_after_forward``: a switch, or accelerate refuses it."""
    strategy = settings.text("fsdp_sharding_strategy")
    if isinstance(strategy, Found) and strategy.value.upper() not in {"FULL_SHARD", "1"}:
        draft.warn(
            "fsdp_strategy_ignored",
            f"{strategy.source} {strategy.value} has no effect with FSDP version 2; there"
            " fsdp_reshard_after_forward counts.",
        )
    reshard = settings.flag("fsdp_reshard_after_forward")
    if isinstance(reshard, Misread):
        draft.problem(
            Problem(
                rule="fsdp2_reshard_is_a_switch",
                detail=f"{reshard.source} is {reshard.value}; with FSDP version 2 it is {_BOOLEAN}",
                fix="write true for FULL_SHARD, false for SHARD_GRAD_OP",
                values={reshard.source: reshard.value},
                field="sharding.reshard_after_forward",
            )
        )
        return
    draft.say("sharding.reshard_after_forward", reshard)
    if isinstance(reshard, Found):
        stage = FULL_SHARD if reshard.value else _GRADIENTS
        draft.say("sharding.zero_stage", Found(stage, reshard.source))


def _say_wrap(settings: Settings, draft: Draft) -> None:
    said = settings.text("fsdp_auto_wrap_policy")
    if isinstance(said, Unseen | Misread):
        draft.say("sharding.wrap", said)
        return
    policy = said.value.upper() if said is not None else "NO_WRAP"
    if policy not in _POLICIES and said is not None:
        expected = f"one of {', '.join(_POLICIES)}"
        draft.misread("sharding.wrap", Misread(said.source, said.value, expected))
        return
    by_size = policy == "SIZE_BASED_WRAP"
    least = settings.whole("fsdp_min_num_params")
    if by_size and isinstance(least, Found) and least.value == 0:
        policy = "NO_WRAP"
    if policy == "NO_WRAP":
        _say_whole(said, draft)
    elif said is not None:
        draft.say("sharding.wrap", Found(Wrap.BLOCK, said.source))
    if by_size and policy != "NO_WRAP":
        draft.warn(
            "fsdp_size_based_wrap",
            "SIZE_BASED_WRAP makes units by their number of parameters; they are counted as blocks.",
        )


def _say_whole(said: Found[str] | None, draft: Draft) -> None:
    if said is None:
        source = "accelerate default (fsdp_auto_wrap_policy NO_WRAP)"
        draft.assume("sharding.wrap", Wrap.NONE, source)
    else:
        source = said.source
        draft.say("sharding.wrap", Found(Wrap.NONE, source))
    stage = draft.said("sharding.zero_stage")
    if stage is not None and stage.value == 0:
        return
    # It runs, but shards nothing of use: every rank gathers the whole model at once.
    draft.problem(
        Problem(
            rule="fsdp_without_wrap_policy",
            detail=f"FSDP wraps nothing ({source}): the whole model is one unit, gathered at once",
            fix="write fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP",
            values={source: "NO_WRAP"},
            field="sharding.wrap",
        )
    )


def _say_offload(settings: Settings, draft: Draft) -> None:
    """Say offload: torch's CPUOffload moves parameters, gradients and the optimizer's step together."""
    offload = settings.flag("fsdp_offload_params", "fsdp_cpu_offload")
    if isinstance(offload, Found):
        device = Offload.CPU if offload.value else Offload.NONE
        draft.say("sharding.offload_parameters", Found(device, offload.source))
        draft.say("sharding.offload_optimizer", Found(device, offload.source))
    else:
        draft.say("sharding.offload_parameters", offload)


def _say_checkpointing(settings: Settings, draft: Draft, *, version: int) -> None:
    """Say FSDP's own activation checkpointing: of each wrapped unit, not reentrant (``accelerator.py``)."""
    on = settings.flag("fsdp_activation_checkpointing")
    offload = settings.flag("fsdp_activation_checkpointing_offload")
    if isinstance(on, Found) and on.value:
        draft.say("activation_checkpointing.mode", Found(CheckpointMode.FULL, on.source))
        source = "accelerate (CheckpointImpl.NO_REENTRANT)"
        draft.assume("activation_checkpointing.reentrant", value=False, source=source)
    elif not isinstance(on, Found):
        draft.say("activation_checkpointing.mode", on)
    if not isinstance(offload, Found) or not offload.value:
        return
    needs = "fsdp_activation_checkpointing" if not value_or(on, default=False) else "fsdp_version 2"
    if version == _GRADIENTS and value_or(on, default=False):
        draft.say("activation_checkpointing.offload", offload)
        return
    draft.problem(
        Problem(
            rule="fsdp_checkpoint_offload_needs",
            detail=f"{offload.source} needs {needs}",
            fix=f"turn on {needs}, or leave the offload out",
            values={offload.source: True},
            field="activation_checkpointing.offload",
        )
    )


def _check_loading(settings: Settings, draft: Draft) -> None:
    """Report what ``accelerate launch`` refuses: only rank 0 loads, and nothing sends it round."""
    sync = settings.get("fsdp_sync_module_states")
    loading = settings.flag("fsdp_cpu_ram_efficient_loading")
    if sync is None or sync.said is not False or not value_or(loading, default=True):
        return
    draft.problem(
        Problem(
            rule="fsdp_loading_needs_sync",
            detail=f"{sync.source} is false, with fsdp_cpu_ram_efficient_loading on",
            fix="write fsdp_sync_module_states: true",
            values={sync.source: False},
            field="sharding",
        )
    )
