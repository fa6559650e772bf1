"""Jobs as strangers write them: every field well-formed, combinations as they come."""

from enum import StrEnum
from typing import Any

from hypothesis import strategies as st

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Dtype,
    Loss,
    MethodKind,
    OptimizerName,
    Packing,
    ShardingImplementation,
    Task,
)
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.vocabulary import (
    FusedKernel,
    LinearFormat,
    Offload,
    OptimizerImplementation,
    PipelineSchedule,
    Quantization,
    Wrap,
)

Json = dict[str, Any]


def _one_of(words: type[StrEnum]) -> st.SearchStrategy[str]:
    return st.sampled_from([word.value for word in words])


def _size(largest: int) -> st.SearchStrategy[int]:
    return st.sampled_from([1, 2, 4, 8]) | st.integers(1, largest)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=fields)


_TARGETS = st.sampled_from(["all-linear", ["q_proj", "v_proj"], ["query_key_value"], ".*proj", "("])
_METHOD = _one_of(MethodKind) | _some(
    kind=_one_of(MethodKind),
    rank=_size(2**16),
    target_modules=_TARGETS,
    dropout=st.sampled_from([0, 0.05, 1]),
    dora=st.booleans(),
    modules_to_save=st.sampled_from([[], ["lm_head"], ["embed_tokens", "lm_head"]]),
    adapter_dtype=_one_of(Dtype),
    frozen_dtype=_one_of(Dtype),
    quantization=_one_of(Quantization),
    double_quant=st.booleans(),
    prepare_for_kbit_training=st.booleans(),
    trainable_layers=_size(4096),
)
_PRECISION = _one_of(PrecisionPreset) | _some(
    weights=_one_of(Dtype),
    compute=_one_of(Dtype),
    autocast=st.booleans(),
    gradients=_one_of(Dtype),
    master_weights=st.booleans(),
    optimizer_states=_one_of(Dtype),
    linear=_one_of(LinearFormat),
)
_OPTIMIZER = _one_of(OptimizerName) | _some(
    name=_one_of(OptimizerName),
    implementation=_one_of(OptimizerImplementation),
    in_backward=st.booleans(),
    rank=_size(2**16),
    quantized=st.booleans(),
)
_CHECKPOINTING = _one_of(CheckpointMode) | _some(
    mode=_one_of(CheckpointMode),
    every_n_layers=_size(4096),
    offload=st.booleans(),
    reentrant=st.booleans(),
    modules=st.sampled_from([[], ["core_attn"], ["mlp", "moe_act"], ["nothing"]]),
)
_PARALLELISM = _some(
    tensor_parallel_size=_size(64),
    pipeline_parallel_size=_size(64),
    context_parallel_size=_size(16),
    expert_parallel_size=_size(64),
    sequence_parallel=st.booleans(),
    pipeline_schedule=_one_of(PipelineSchedule),
    virtual_pipeline_stages=_size(16),
)
_SHARDING = _some(
    implementation=_one_of(ShardingImplementation),
    zero_stage=st.integers(0, 3),
    shard_group_size=_size(64),
    reshard_after_forward=st.booleans(),
    wrap=_one_of(Wrap),
    sync_each_micro_batch=st.booleans(),
    offload_optimizer=_one_of(Offload),
    offload_parameters=_one_of(Offload),
    offload_fraction=st.floats(0, 1),
    buckets=_some(reduce_elements=st.integers(0, 10**13), ddp_bytes=st.integers(0, 2**50)),
)


def models() -> st.SearchStrategy[Json]:
    """Return models by name, by the config that the catalog has, or by size."""
    entries = builtin_models().entries
    return st.one_of(
        st.sampled_from([{"name": entry.name} for entry in entries]),
        st.sampled_from([{"config": dict(entry.config)} for entry in entries if entry.config]),
        st.integers(1, 10**14).map(lambda count: {"parameters": count}),
    )


def jobs() -> st.SearchStrategy[Json]:
    """Return jobs; many of them contradict themselves, as jobs of strangers do."""
    cards = [card.name for card in builtin_accelerators().entries]
    return st.fixed_dictionaries(
        {"model": models()},
        optional={
            "method": _METHOD,
            "task": _one_of(Task),
            "precision": _PRECISION,
            "optimizer": _OPTIMIZER,
            "micro_batch_size": _size(2**16),
            "sequence_length": st.sampled_from([1, 512, 2048]) | st.integers(1, 2**24),
            "gradient_accumulation_steps": _size(2**20),
            "packing": _one_of(Packing),
            "activation_checkpointing": _CHECKPOINTING,
            "attention": _one_of(AttentionImplementation),
            "loss": _one_of(Loss),
            "fused_kernels": st.lists(_one_of(FusedKernel), max_size=4),
            "compile": st.booleans(),
            "parallelism": _PARALLELISM,
            "sharding": _SHARDING,
            "hardware": _some(
                accelerator=st.sampled_from(cards),
                devices=_size(2**20),
                devices_per_node=_size(64),
                device_memory_bytes=st.integers(1, 2**50),
                occupied_bytes=st.integers(0, 2**50),
            ),
            "software": _some(
                framework=st.sampled_from(["transformers", "axolotl", "megatron", "no such"]),
                stack=st.sampled_from(["torch 2.1", "transformers 4.30", "torch 99999 / peft 0.0"]),
                expandable_segments=st.booleans(),
            ),
        },
    )
