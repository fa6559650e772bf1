"""Every option that changes memory, in every stack that has it, stands in a golden launch."""

import json
from collections.abc import Mapping

import pytest

from tests.launch.goldens import goldens

# The options of each stack that a job's fields come from: its own reference pages and sources, read
# in transformers 5.24.0, TRL 1.16.0, LLaMA-Factory 0.9.5, axolotl 0.19.0, torchtune 0.6.1, Megatron-LM
# d98e8a64 and DeepSpeed 0.19.8.
OPTIONS: Mapping[str, str] = {
    "transformers": """
        model_name_or_path per_device_train_batch_size gradient_accumulation_steps block_size
        max_seq_length bf16 fp16 tf32 dtype optim optim_args optim_target_modules
        activation_checkpointing gradient_checkpointing gradient_checkpointing_kwargs
        attn_implementation deepspeed fsdp fsdp_config parallelism_config use_liger_kernel
        per_device_eval_batch_size torch_empty_cache_steps auto_find_batch_size torch_compile
        ddp_bucket_cap_mb group_by_length
    """,
    "trl": """
        model_name_or_path dtype max_length max_completion_length packing padding_free bf16
        gradient_checkpointing activation_offloading attn_implementation use_peft lora_r
        lora_target_modules lora_modules_to_save use_dora load_in_4bit load_in_8bit
        bnb_4bit_quant_type use_bnb_nested_quant loss_type precompute_ref_log_probs use_vllm
        vllm_gpu_memory_utilization num_generations
    """,
    "llama_factory": """
        model_name_or_path per_device_train_batch_size gradient_accumulation_steps cutoff_len packing
        neat_packing bf16 fp16 pure_bf16 optim use_galore use_apollo use_badam
        disable_gradient_checkpointing use_reentrant_gc use_unsloth_gc flash_attn deepspeed use_mca
        finetuning_type stage lora_rank lora_target additional_target use_dora quantization_bit
        quantization_method quantization_type double_quantization enable_liger_kernel
        freeze_trainable_layers resize_vocab
    """,
    "axolotl": """
        base_model micro_batch_size gradient_accumulation_steps batch_size sequence_len sample_packing
        pad_to_sequence_len batch_flattening bf16 fp16 bfloat16 fp8 optimizer gradient_checkpointing
        activation_offloading attn_implementation flash_attention sdp_attention deepspeed fsdp_version
        fsdp_config dp_shard_size tensor_parallel_size context_parallel_size adapter rl lora_r
        lora_target_modules lora_target_linear lora_modules_to_save peft_use_dora load_in_4bit
        load_in_8bit plugins chunked_cross_entropy eval_batch_size unfrozen_parameters relora
    """,
    "torchtune": """
        model._component_ checkpoint_dir batch_size gradient_accumulation_steps max_seq_len packed
        dtype optimizer optimizer_in_bwd enable_activation_checkpointing enable_activation_offloading
        ac_mode fsdp_reshard_after_forward fsdp_cpu_offload custom_sharded_layers tensor_parallel_dim
        lora_rank lora_attn_modules apply_lora_to_mlp apply_lora_to_output use_dora quantize_base loss
        compile
    """,
    "megatron": """
        num-layers hidden-size ffn-hidden-size num-attention-heads group-query-attention
        num-query-groups kv-channels make-vocab-size-divisible-by untie-embeddings-and-output-weights
        swiglu micro-batch-size global-batch-size seq-length bf16 fp16 fp8-format fp8-recipe
        grad-reduce-in-bf16 optimizer recompute-granularity recompute-method recompute-num-layers
        recompute-modules recompute-activations distribute-saved-activations attention-backend
        use-flash-attn use-distributed-optimizer use-megatron-fsdp data-parallel-sharding-strategy
        use-torch-fsdp2 num-distributed-optimizer-instances tensor-model-parallel-size
        pipeline-model-parallel-size context-parallel-size expert-model-parallel-size
        sequence-parallel num-layers-per-virtual-pipeline-stage pipeline-model-parallel-layout
        optimizer-cpu-offload optimizer-offload-fraction cross-entropy-loss-fusion num-experts
        moe-router-topk moe-ffn-hidden-size multi-latent-attention mtp-num-layers
        use-precision-aware-optimizer main-grads-dtype exp-avg-dtype
    """,
    "deepspeed": """
        train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps bf16 fp16
        torch_autocast optimizer activation_checkpointing stage reduce_bucket_size
        allgather_bucket_size stage3_prefetch_bucket_size stage3_max_live_parameters overlap_comm
        offload_optimizer offload_param ratio zero_hpz_partition_size zero_quantized_weights
        sequence_parallel_size autotp_size data_types cpu_offload
    """,
    "accelerate": """
        distributed_type mixed_precision num_machines num_processes zero_stage
        offload_optimizer_device offload_param_device gradient_accumulation_steps
        deepspeed_config_file fsdp_version fsdp_sharding_strategy fsdp_reshard_after_forward
        fsdp_offload_params fsdp_auto_wrap_policy fsdp_min_num_params fsdp_activation_checkpointing
        parallelism_config tp_size cp_size dp_shard_size dp_replicate_size dynamo
    """,
    "litgpt": """
        precision quantize devices num_nodes lora_r lora_query lora_key lora_value lora_projection
        lora_mlp lora_head train.micro_batch_size train.global_batch_size train.max_seq_length
        optimizer
    """,
    "torchtitan": """
        local_batch_size seq_len num_tokens_per_microbatch_per_dp_rank data_parallel_replicate_degree
        data_parallel_shard_degree tensor_parallel_degree pipeline_parallel_degree
        context_parallel_degree expert_parallel_degree enable_cpu_offload mixed_precision_param
        activation_checkpoint compile
    """,
}


@pytest.mark.parametrize("stack", OPTIONS)
def test_every_option_of_a_stack_stands_in_a_golden_launch(stack: str) -> None:
    # Options of files that another stack names stand in that stack's launches.
    texts = [
        json.dumps(dict(golden.launch)).replace("-", "_")
        for folder in {stack, "kubernetes", "launchers", "sbatch", "transformers", "trl"}
        for golden in goldens(folder)
        if folder == stack or stack in {"deepspeed", "accelerate"}
    ]
    missing = [
        option
        for option in OPTIONS[stack].split()
        if not any(_leaf(option) in text for text in texts)
    ]
    assert missing == []


def _leaf(option: str) -> str:
    """Return the last part of a dotted option, which YAML nests."""
    return option.replace("-", "_").rpartition(".")[2]


def test_a_default_that_changed_is_shown_at_two_versions() -> None:
    shown: dict[str, set[str]] = {}
    for golden in goldens():
        stack = golden.launch.get("env", {}).get("VRAMGATE_STACK") or golden.job.get(
            "software.stack"
        )
        if golden.resolved and stack:
            shown.setdefault(golden.name.partition("/")[0], set()).add(str(stack))
    changed = {
        "transformers",
        "trl",
        "llama_factory",
        "ms_swift",
        "torchtitan",
        "megatron",
        "axolotl",
    }
    assert {name for name in changed if len(shown.get(name, ())) < 2} == set()
