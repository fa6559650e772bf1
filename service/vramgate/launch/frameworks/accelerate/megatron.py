"""Megatron-LM under accelerate: its sizes, by the names of ``megatron_lm_config``.

Source: accelerate 1.15.0 ``utils/dataclasses.py``: ``MegatronLMPlugin``, ``MegatronLMDummy…``.
"""

from vramgate.costmodel.job import CheckpointMode, ShardingImplementation
from vramgate.launch.draft import Draft
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Settings

_SIZES = {
    "megatron_lm_tp_degree": "tensor_parallel_size",
    "megatron_lm_pp_degree": "pipeline_parallel_size",
    "megatron_lm_context_parallel_size": "context_parallel_size",
    "megatron_lm_expert_model_parallel_size": "expert_parallel_size",
}


def say_megatron_section(flat: Settings, source: str, draft: Draft) -> None:
    """Say the parallel sizes, the distributed optimizer and the recomputation."""
    draft.forget("sharding")
    draft.say("sharding.implementation", Found(ShardingImplementation.MEGATRON, source))
    for name, field in _SIZES.items():
        draft.say(f"parallelism.{field}", flat.whole(name))
    draft.say("parallelism.sequence_parallel", flat.flag("megatron_lm_sequence_parallelism"))
    sharded = flat.flag("megatron_lm_use_distributed_optimizer")
    if isinstance(sharded, Found):
        draft.say("sharding.zero_stage", Found(int(sharded.value), sharded.source))
    draft.say("activation_checkpointing.mode", _recomputation(flat))


def _recomputation(flat: Settings) -> Reading[CheckpointMode]:
    granularity = flat.text("megatron_lm_recompute_granularity")
    if isinstance(granularity, Found) and granularity.value.lower() in {"full", "selective"}:
        return Found(CheckpointMode(granularity.value.lower()), granularity.source)
    selective = flat.flag("megatron_lm_recompute_activations")
    if isinstance(selective, Found) and selective.value:
        return Found(CheckpointMode.SELECTIVE, selective.source)
    return None
