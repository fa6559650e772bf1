"""The keys that DeepSpeed's ``zero_optimization`` has: it refuses all others.

Source: DeepSpeed 0.19.8 ``runtime/zero/config.py`` (``DeepSpeedZeroConfig``, ``extra="forbid"``) and
``runtime/config.py`` (``_REMOVED_ZERO_CONFIG_KEYS``).
"""

import difflib

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.settings import Settings

_NAMES = """
    stage contiguous_gradients reduce_scatter reduce_bucket_size use_multi_rank_bucket_allreduce
    allgather_partitions allgather_bucket_size overlap_comm compute_grad_norm load_from_fp32_weights
    elastic_checkpoint offload_param offload_optimizer zenflow sub_group_size cpu_offload_param
    cpu_offload_use_pin_memory cpu_offload prefetch_bucket_size param_persistence_threshold
    model_persistence_threshold max_live_parameters max_reuse_distance gather_16bit_weights_on_model_save
    module_granularity_threshold use_all_reduce_for_fetch_params allgather_sequential
    stage3_gather_fp16_weights_on_model_save ignore_unused_parameters legacy_stage1 round_robin_gradients
    parameter_alignment zero_hpz_partition_size zero_quantized_weights
    zero_quantized_nontrainable_weights zero_quantized_gradients memory_efficient_linear
    pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings enable_sanity_checks
    save_muon_momentum_buffer_in_memory leaf_module stage3_prefetch_bucket_size
    stage3_param_persistence_threshold stage3_model_persistence_threshold stage3_max_live_parameters
    stage3_max_reuse_distance stage3_gather_16bit_weights_on_model_save
    stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params
    stage3_allgather_sequential
"""
_KNOWN = frozenset(_NAMES.split())
_REMOVED = frozenset(
    {
        "mics_shard_size",
        "mics_hierarchical_params_gather",
        "zeropp_loco_param",
        "cpu_offload_params",
    }
)
_NEAR = 0.85
_LOOKED_AT = 200


def check_keys(zero: Settings, draft: Draft) -> None:
    """Report misspelt keys; warn of those that this version refuses and others may know."""
    for key, setting in list(zero.items())[:_LOOKED_AT]:
        if key in _KNOWN:
            continue
        near = difflib.get_close_matches(key, _KNOWN, n=1, cutoff=_NEAR)
        if near and key not in _REMOVED:
            draft.problem(
                Problem(
                    rule="deepspeed_unknown_key",
                    detail=f"{setting.source}: DeepSpeed knows no such key",
                    fix=f"write {near[0]}",
                    values={setting.source: str(setting.said)[:80]},
                    field="sharding",
                )
            )
        else:
            draft.warn(
                "deepspeed_key_removed", f"{setting.source}: DeepSpeed 0.19.8 refuses this key."
            )
