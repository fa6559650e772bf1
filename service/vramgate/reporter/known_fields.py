"""Names that may leave the machine: fields of the frameworks that change a run's memory or speed.

An allow-list: what is not named here stays, whatever it is called. Left out on purpose: tokens,
run and project names, hub repositories, server addresses, prompts and templates.

Read from transformers 5.24.0, TRL 1.16.0, peft 0.21.2, bitsandbytes' settings in transformers,
DeepSpeed 0.19.8, accelerate 1.15.0 and Lightning 2.6.6.
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRAINING_ARGUMENTS = _names(
    """
    per_device_train_batch_size per_gpu_train_batch_size num_train_epochs max_steps learning_rate
    lr_scheduler_type warmup_steps warmup_ratio optim optim_target_modules weight_decay adam_beta1
    adam_beta2 adam_epsilon adafactor gradient_accumulation_steps average_tokens_across_devices
    max_grad_norm label_smoothing_factor bf16 fp16 fp16_opt_level fp16_backend
    half_precision_backend bf16_full_eval fp16_full_eval tf32 jit_mode_eval use_ipex
    activation_checkpointing activation_checkpointing_kwargs gradient_checkpointing
    gradient_checkpointing_kwargs torch_compile torch_compile_backend torch_compile_mode
    use_liger_kernel liger_kernel_config use_cache neftune_noise_alpha torch_empty_cache_steps
    auto_find_batch_size logging_strategy logging_steps eval_strategy evaluation_strategy eval_steps
    eval_delay per_device_eval_batch_size per_gpu_eval_batch_size prediction_loss_only eval_on_start
    eval_do_concat_batches eval_accumulation_steps batch_eval_metrics fp16_full_eval save_strategy
    save_steps save_only_model load_best_model_at_end full_determinism seed data_seed use_cpu no_cuda
    use_mps_device accelerator_config parallelism_config dataloader_drop_last
    dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers
    dataloader_prefetch_factor dataloader_in_order remove_unused_columns group_by_length
    train_sampling_strategy ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers
    ddp_static_graph ddp_backend ddp_timeout fsdp fsdp_config fsdp_min_num_params
    fsdp_transformer_layer_cls_to_wrap deepspeed skip_memory_metrics do_train do_eval do_predict
    local_rank predict_with_generate generation_max_length generation_num_beams past_index
    include_num_input_tokens_seen include_tokens_per_second split_batches dispatch_batches
    tpu_num_cores mp_parameters
    """
)

TRL = _names(
    """
    max_length max_seq_length max_prompt_length max_completion_length packing packing_strategy
    padding_free pad_to_multiple_of eval_packing completion_only_loss assistant_only_loss loss_type
    loss_weights activation_offloading use_liger_loss use_liger model_init_kwargs
    ref_model_init_kwargs router_aux_loss_coef disable_dropout dataset_num_proc truncation_mode
    shuffle_dataset precompute_ref_log_probs precompute_ref_batch_size ld_alpha f_divergence_type
    f_alpha_divergence_coef label_smoothing beta use_weighting discopop_tau sync_ref_model
    ref_model_mixup_alpha ref_model_sync_steps reference_free rpo_alpha desirable_weight
    undesirable_weight center_rewards_coefficient cast_lm_head_to_fp32 num_generations
    num_generations_eval ds3_gather_for_generation generation_batch_size steps_per_generation
    temperature top_p top_k min_p repetition_penalty cache_implementation use_vllm vllm_mode
    vllm_gpu_memory_utilization vllm_max_model_length vllm_tensor_parallel_size
    vllm_enable_sleep_mode num_iterations epsilon epsilon_high delta importance_sampling_level
    scale_rewards mask_truncated_completions top_entropy_quantile chunk_size
    use_transformers_continuous_batching dtype torch_dtype attn_implementation low_cpu_mem_usage
    """
)

PEFT = _names(
    """
    peft_type task_type inference_mode r target_modules exclude_modules target_parameters lora_alpha
    lora_dropout fan_in_fan_out bias use_rslora modules_to_save init_lora_weights
    layers_to_transform layers_pattern rank_pattern alpha_pattern trainable_token_indices use_dora
    use_qalora qalora_group_size layer_replication runtime_config ephemeral_gpu_offload lora_bias
    num_virtual_tokens prefix_projection encoder_hidden_size feedforward_modules
    ensure_weight_tying autocast_adapter_dtype
    """
)

QUANTIZATION = _names(
    """
    quantization_config quant_method load_in_8bit load_in_4bit llm_int8_threshold
    llm_int8_skip_modules llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight
    bnb_4bit_compute_dtype bnb_4bit_quant_type bnb_4bit_use_double_quant bnb_4bit_quant_storage bits
    group_size desc_act sym damp_percent zero_point version modules_to_not_convert dequantize
    weight_block_size activation_scheme fmt
    """
)

DEEPSPEED = _names(
    """
    train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps gradient_clipping
    prescale_gradients gradient_predivide_factor sparse_gradients communication_data_type
    seq_parallel_communication_data_type fp32_allreduce bf16 bfloat16 fp16 amp data_types
    grad_accum_dtype enabled auto_cast loss_scale loss_scale_window initial_scale_power hysteresis
    consecutive_hysteresis min_loss_scale immediate_grad_update check_grad_overflow opt_level
    optimizer scheduler type params lr betas eps weight_decay torch_adam adam_w_mode bias_correction
    warmup_min_lr warmup_max_lr warmup_num_steps total_num_steps zero_optimization stage
    allgather_partitions allgather_bucket_size overlap_comm reduce_scatter reduce_bucket_size
    contiguous_gradients offload_optimizer offload_param device pin_memory buffer_count buffer_size
    max_in_cpu ratio fast_init pipeline pipeline_read pipeline_write super_offload cpu_offload
    cpu_offload_params cpu_offload_use_pin_memory sub_group_size stage3_prefetch_bucket_size
    stage3_param_persistence_threshold stage3_model_persistence_threshold
    stage3_max_live_parameters stage3_max_reuse_distance
    stage3_gather_16bit_weights_on_model_save stage3_use_all_reduce_for_fetch_params
    stage3_module_granularity_threshold ignore_unused_parameters round_robin_gradients
    legacy_stage1 elastic_checkpoint mics_shard_size mics_hierarchical_params_gather
    zero_hpz_partition_size zero_quantized_weights zero_quantized_nontrainable_weights
    zero_quantized_gradients memory_efficient_linear leaf_module log_trace_cache_warnings
    load_from_fp32_weights zero_allow_untested_optimizer zero_force_ds_cpu_optimizer
    activation_checkpointing partition_activations cpu_checkpointing contiguous_memory_optimization
    number_checkpoints synchronize_checkpoint_boundary profile steps_per_print wall_clock_breakdown
    dump_state sequence_parallel_size tensor_parallel autotp_size tp_size compile
    """
)

FSDP_AND_ACCELERATE = _names(
    """
    version fsdp_version sharding_strategy reshard_after_forward offload_params cpu_offload
    auto_wrap_policy transformer_layer_cls_to_wrap min_num_params backward_prefetch
    backward_prefetch_policy forward_prefetch limit_all_gathers use_orig_params
    cpu_ram_efficient_loading sync_module_states activation_checkpointing
    activation_checkpointing_offload state_dict_type mixed_precision_policy param_dtype
    reduce_dtype output_dtype buffer_dtype cast_forward_inputs cast_root_forward_inputs xla
    xla_fsdp_v2 xla_fsdp_grad_ckpt tensor_parallel_size split_batches dispatch_batches even_batches
    use_seedable_sampler non_blocking gradient_accumulation_kwargs num_steps adjust_scheduler
    sync_with_dataloader sync_each_batch use_configured_state dp_replicate_size dp_shard_size
    tp_size cp_size sp_size cp_backend sp_backend sp_seq_length sp_attn_implementation
    cp_comm_strategy use_reentrant preserve_rng_state determinism_check early_stop
    """
)

KERNELS = _names(
    """
    rope swiglu geglu rms_norm layer_norm cross_entropy fused_linear_cross_entropy relu
    """
)

LIGHTNING = _names(
    """
    precision accumulate_grad_batches gradient_clip_val gradient_clip_algorithm num_devices
    num_nodes world_size max_steps max_epochs strategy accelerator enable_checkpointing
    val_check_interval sync_batchnorm detect_anomaly
    """
)

NESTED = PEFT | QUANTIZATION | DEEPSPEED | FSDP_AND_ACCELERATE | KERNELS | TRL
"""Names inside the settings objects that a known field may hold."""

TOP = TRAINING_ARGUMENTS | TRL | QUANTIZATION | {"peft_config"}

ENVIRONMENT = _names(
    """
    WORLD_SIZE LOCAL_WORLD_SIZE GROUP_WORLD_SIZE RANK LOCAL_RANK NODE_RANK GROUP_RANK NNODES
    NPROC_PER_NODE PET_NNODES PET_NPROC_PER_NODE PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF
    PYTORCH_HIP_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING PYTORCH_NPU_ALLOC_CONF
    CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES ASCEND_RT_VISIBLE_DEVICES
    ZE_AFFINITY_MASK CUDA_MODULE_LOADING CUBLAS_WORKSPACE_CONFIG CUDA_DEVICE_MAX_CONNECTIONS
    CUDA_LAUNCH_BLOCKING NCCL_BUFFSIZE NCCL_MAX_NCHANNELS NCCL_MIN_NCHANNELS NCCL_NTHREADS
    NCCL_P2P_DISABLE NCCL_CUMEM_ENABLE NCCL_NVLS_ENABLE TORCH_NCCL_AVOID_RECORD_STREAMS
    NVTE_FLASH_ATTN NVTE_FUSED_ATTN NVTE_UNFUSED_ATTN OMP_NUM_THREADS SLURM_NNODES SLURM_JOB_NUM_NODES
    SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_GPUS
    SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_CPUS_PER_TASK
    SLURM_MEM_PER_NODE SLURM_MEM_PER_GPU SLURM_JOB_GPUS ACCELERATE_MIXED_PRECISION
    ACCELERATE_USE_DEEPSPEED ACCELERATE_DEEPSPEED_ZERO_STAGE ACCELERATE_DEEPSPEED_CONFIG_FILE
    ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE
    ACCELERATE_GRADIENT_ACCUMULATION_STEPS ACCELERATE_USE_FSDP ACCELERATE_USE_CPU
    ACCELERATE_USE_PARALLELISM_CONFIG ACCELERATE_DYNAMO_BACKEND ACCELERATE_DYNAMO_MODE
    FSDP_VERSION FSDP_SHARDING_STRATEGY FSDP_RESHARD_AFTER_FORWARD FSDP_OFFLOAD_PARAMS
    FSDP_AUTO_WRAP_POLICY FSDP_TRANSFORMER_CLS_TO_WRAP FSDP_MIN_NUM_PARAMS FSDP_BACKWARD_PREFETCH
    FSDP_FORWARD_PREFETCH FSDP_USE_ORIG_PARAMS FSDP_CPU_RAM_EFFICIENT_LOADING
    FSDP_SYNC_MODULE_STATES FSDP_ACTIVATION_CHECKPOINTING FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD
    PARALLELISM_CONFIG_DP_REPLICATE_SIZE PARALLELISM_CONFIG_DP_SHARD_SIZE
    PARALLELISM_CONFIG_TP_SIZE PARALLELISM_CONFIG_CP_SIZE PARALLELISM_CONFIG_SP_SIZE
    FORCE_TORCHRUN
    """
)
