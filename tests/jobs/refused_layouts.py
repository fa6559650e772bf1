"""Layouts over ranks that no run has: fields, the pointer, what is said, and the way out."""

from typing import Any

# 30 heads, as in the example of STYLE.md 15.
THIRTY_HEADS = {
    "model_type": "llama",
    "hidden_size": 1920,
    "intermediate_size": 5040,
    "num_hidden_layers": 6,
    "num_attention_heads": 30,
    "num_key_value_heads": 30,
    "vocab_size": 1000,
}
GPT2 = {"name": "openai-community/gpt2"}
MIXTRAL = {"name": "mistralai/Mixtral-8x7B-v0.1"}

Row = tuple[dict[str, Any], str, str, str]

PARALLEL: list[Row] = [
    (
        {
            "model": {"config": THIRTY_HEADS},
            "parallelism": {"tensor_parallel_size": 8},
            "hardware": {"devices": 8},
        },
        "/job/parallelism/tensor_parallel_size",
        "tensor_parallel_size 8 does not divide num_attention_heads 30",
        "try 6 or 10",
    ),
    (
        {"parallelism": {"tensor_parallel_size": 3}},
        "/job/parallelism/tensor_parallel_size",
        "num_attention_heads 32 and num_key_value_heads 8 and intermediate_size 14336",
        "try 2 or 4",
    ),
    (
        {"hardware": {"devices": 6}, "parallelism": {"tensor_parallel_size": 4}},
        "/job/hardware/devices",
        "devices 6 are not divisible by tensor × pipeline × context parallel = 4 × 1 × 1 = 4",
        "try 4 or 8 devices",
    ),
    (
        {
            "model": {"name": "openai/whisper-tiny"},
            "parallelism": {"pipeline_parallel_size": 2},
            "hardware": {"devices": 2},
        },
        "/job/parallelism/pipeline_parallel_size",
        "no framework known here cuts such a model into pipeline stages",
        "shard it over data-parallel ranks",
    ),
    (
        {"parallelism": {"pipeline_parallel_size": 64}},
        "/job/parallelism/pipeline_parallel_size",
        "pipeline_parallel_size 64 is more than num_hidden_layers 32",
        "write at most 32",
    ),
    (
        {"parallelism": {"pipeline_parallel_size": 8, "virtual_pipeline_stages": 8}},
        "/job/parallelism/virtual_pipeline_stages",
        "8 × virtual_pipeline_stages 8 = 64 is more than num_hidden_layers 32",
        "try at most 4",
    ),
    (
        {"parallelism": {"context_parallel_size": 4}, "sequence_length": 1002},
        "/job/parallelism/context_parallel_size",
        "sequence_length 1002 is not divisible by 2 × context_parallel_size = 8",
        "try a sequence_length of 1000 or 1008",
    ),
    (
        {
            "parallelism": {"tensor_parallel_size": 4, "sequence_parallel": True},
            "sequence_length": 1001,
        },
        "/job/sequence_length",
        "sequence_length 1001 is not divisible by tensor_parallel_size 4",
        "try 1000 or 1004",
    ),
    (
        {"parallelism": {"expert_parallel_size": 2}, "hardware": {"devices": 2}},
        "/job/parallelism/expert_parallel_size",
        "has no experts",
        "leave it out",
    ),
    (
        {
            "model": MIXTRAL,
            "parallelism": {"expert_parallel_size": 3},
            "hardware": {"devices": 3},
        },
        "/job/parallelism/expert_parallel_size",
        "expert_parallel_size 3 does not divide num_experts 8",
        "try 2 or 4",
    ),
    (
        {
            "model": MIXTRAL,
            "parallelism": {"expert_parallel_size": 4},
            "hardware": {"devices": 2},
        },
        "/job/parallelism/expert_parallel_size",
        "expert_parallel_size 4 does not divide the 2 devices of a pipeline stage",
        "try 2",
    ),
    (
        {"parallelism": {"virtual_pipeline_stages": 2}},
        "/job/parallelism/virtual_pipeline_stages",
        "virtual_pipeline_stages 2 with pipeline_parallel_size 1",
        "raise pipeline_parallel_size",
    ),
    (
        {
            "parallelism": {
                "pipeline_parallel_size": 2,
                "virtual_pipeline_stages": 2,
                "pipeline_schedule": "1f1b",
            }
        },
        "/job/parallelism/pipeline_schedule",
        "1f1b runs one part a stage, not 2",
        '"interleaved"',
    ),
    (
        {"parallelism": {"pipeline_parallel_size": 2, "pipeline_schedule": "interleaved"}},
        "/job/parallelism/virtual_pipeline_stages",
        "interleaved needs several parts",
        "2 or more",
    ),
    (
        {
            "parallelism": {"pipeline_parallel_size": 4, "virtual_pipeline_stages": 2},
            "gradient_accumulation_steps": 6,
        },
        "/job/gradient_accumulation_steps",
        "in groups of pipeline_parallel_size 4, and gradient_accumulation_steps is 6",
        "try 4 or 8",
    ),
    (
        {"parallelism": {"pipeline_parallel_size": 3, "pipeline_schedule": "dualpipe"}},
        "/job/parallelism/pipeline_parallel_size",
        "dualpipe pairs its stages; 3 is odd",
        "try 2 or 4",
    ),
]

SHARDING: list[Row] = [
    (
        {"sharding": {"implementation": "ddp", "zero_stage": 2}},
        "/job/sharding/zero_stage",
        "zero_stage 2 with implementation ddp, which shards nothing",
        "deepspeed, fsdp",
    ),
    (
        {"sharding": {"implementation": "fsdp", "zero_stage": 1}},
        "/job/sharding/zero_stage",
        "fsdp has no strategy that shards optimizer states only",
        "2 (SHARD_GRAD_OP)",
    ),
    (
        {
            "sharding": {"implementation": "deepspeed", "zero_stage": 3},
            "parallelism": {"pipeline_parallel_size": 2},
        },
        "/job/sharding/zero_stage",
        "DeepSpeed's pipeline",
        "zero_stage 1 or 0",
    ),
    (
        {
            "sharding": {"implementation": "fsdp", "shard_group_size": 3},
            "hardware": {"devices": 8},
        },
        "/job/sharding/shard_group_size",
        "shard_group_size 3 does not divide the data-parallel size 8",
        "try 2 or 4",
    ),
    (
        {"sharding": {"implementation": "ddp", "shard_group_size": 2}, "hardware": {"devices": 2}},
        "/job/sharding/shard_group_size",
        "ddp shards nothing",
        "leave it out",
    ),
    (
        {
            "sharding": {
                "implementation": "deepspeed",
                "zero_stage": 2,
                "offload_parameters": "cpu",
            }
        },
        "/job/sharding/offload_parameters",
        "offload_parameters cpu with zero_stage 2",
        "write zero_stage 3",
    ),
    (
        {"sharding": {"implementation": "deepspeed", "zero_stage": 0, "offload_optimizer": "cpu"}},
        "/job/sharding/offload_optimizer",
        "offload_optimizer cpu with zero_stage 0",
        "write zero_stage 1 or more",
    ),
    (
        {"sharding": {"implementation": "ddp", "offload_optimizer": "cpu"}},
        "/job/sharding/offload_optimizer",
        "offload_optimizer cpu with implementation ddp",
        "deepspeed or fsdp",
    ),
    (
        {"sharding": {"implementation": "fsdp", "offload_parameters": "nvme"}},
        "/job/sharding/offload_parameters",
        "offload_parameters nvme with implementation fsdp",
        "write cpu",
    ),
    (
        {
            "optimizer": {"name": "adamw", "in_backward": True},
            "gradient_accumulation_steps": 4,
        },
        "/job/optimizer/in_backward",
        "in_backward with gradient_accumulation_steps 4",
        "gradient_accumulation_steps 1",
    ),
]
