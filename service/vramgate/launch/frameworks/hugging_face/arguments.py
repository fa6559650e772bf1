"""Command lines as transformers' ``HfArgumentParser`` and TRL's ``TrlParser`` take them.

``--flag value``, ``--flag=value``, ``--flag`` alone, ``--no_flag``, dashes or underscores, unique
beginnings of a name; one YAML or JSON file instead of, or under, the flags.

Sources: transformers 5.24.0 and 4.45.2 ``hf_argparser.py``, ``training_args.py``,
``training_args_seq2seq.py``; TRL 1.16.0 ``scripts/utils.py``; Python's ``argparse`` (allow_abbrev).
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping
from functools import lru_cache

from vramgate.jobs.stack import Stack, parse_stack
from vramgate.launch.frameworks.tuners import Told, from_file, is_config
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.settings import Setting, Settings, of_flags
from vramgate.launch.words import Word


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


TRAINING_ARGUMENTS = names(
    """
    accelerator_config activation_checkpointing activation_checkpointing_kwargs adafactor
    adam_beta1 adam_beta2 adam_epsilon auto_find_batch_size average_tokens_across_devices
    batch_eval_metrics bf16 bf16_full_eval data_seed dataloader_drop_last dataloader_in_order
    dataloader_multiprocessing_context dataloader_num_workers dataloader_persistent_workers
    dataloader_pin_memory dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers
    ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout debug deepspeed
    disable_tqdm dispatch_batches do_eval do_predict do_train enable_jit_checkpoint
    eval_accumulation_steps eval_delay eval_do_concat_batches eval_on_start eval_steps
    eval_strategy eval_use_gather_object evaluation_strategy fp16 fp16_backend fp16_full_eval
    fp16_opt_level fsdp fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap
    full_determinism generation_config generation_max_length generation_num_beams
    gradient_accumulation_steps gradient_checkpointing gradient_checkpointing_kwargs
    greater_is_better group_by_length half_precision_backend hub_always_push hub_model_id
    hub_private_repo hub_revision hub_strategy hub_token ignore_data_skip include_for_metrics
    include_inputs_for_metrics include_num_input_tokens_seen include_tokens_per_second
    jit_mode_eval label_names label_smoothing_factor learning_rate length_column_name
    liger_kernel_config load_best_model_at_end local_rank log_level log_level_replica
    log_on_each_node logging_dir logging_first_step logging_nan_inf_filter logging_steps
    logging_strategy lr_scheduler_kwargs lr_scheduler_type max_grad_norm max_steps
    metric_for_best_model mp_parameters neftune_noise_alpha no_cuda num_train_epochs optim
    optim_args optim_target_modules output_dir overwrite_output_dir parallelism_config past_index
    per_device_eval_batch_size per_device_train_batch_size per_gpu_eval_batch_size
    per_gpu_train_batch_size predict_with_generate prediction_loss_only project push_to_hub
    push_to_hub_model_id push_to_hub_organization push_to_hub_token ray_scope
    remove_unused_columns report_to restore_callback_states_from_checkpoint resume_from_checkpoint
    run_name save_on_each_node save_only_model save_safetensors save_steps save_strategy
    save_total_limit seed skip_memory_metrics sortish_sampler split_batches tf32 torch_compile
    torch_compile_backend torch_compile_mode torch_empty_cache_steps torchdynamo tpu_metrics_debug
    tpu_num_cores trackio_bucket_id trackio_space_id trackio_static_space_id
    train_sampling_strategy use_cache use_cpu use_ipex use_legacy_prediction_loop use_liger_kernel
    use_mps_device warmup_ratio warmup_steps weight_decay
    """
)
"""Fields of ``TrainingArguments`` and ``Seq2SeqTrainingArguments``, 4.45 to 5.24."""

_SHORTEST_BEGINNING = 4
"""Shorter ones are more likely a script's own option than a beginning of one of these."""


def read_arguments(
    words: tuple[Word, ...], context: Context, *, known: Collection[str], config: str | None = None
) -> Told:
    """Return the options of a command line over those of its file.

    ``config``: the option that names the file; a file before the first option counts as well
    (transformers' examples, the alignment handbook).

    Raises:
        UnreadableLaunchError: the file is not what its name says.
    """
    flags = _canonical(of_flags(words), known)
    path = _file_word(flags, words, config)
    if path is None:
        return Told(settings=flags)
    told = from_file(path, Settings(), context)
    return Told(settings=flags.over(_canonical(told.settings, known)), unseen=told.unseen)


def stack_of(context: Context, environment: Mapping[str, Word] | None = None) -> str | None:
    """Return the versions as far as they are said before the trainer's words are read."""
    said = context.draft.said("software.stack")
    if said is not None:
        return str(said.value)
    word = (environment or {}).get("VRAMGATE_STACK")
    return word.text if word is not None and word.is_known else None


def versions_of(stack: str | None) -> Stack:
    """Return the versions of a stack's text; those it does not name are inferred."""
    return parse_stack(stack)


def program_words(invocation: Invocation) -> str:
    """Return how the program is called in messages: ``train.py``."""
    return invocation.program.rpartition("/")[2] or invocation.program


def _file_word(flags: Settings, words: tuple[Word, ...], config: str | None) -> Word | None:
    if config is not None and config in flags:
        said = flags[config].said
        if isinstance(said, tuple) and said and isinstance(said[0], Word):
            return said[0]
    return words[0] if words and is_config(words[0]) else None


def _canonical(settings: Settings, known: Collection[str]) -> Settings:
    """Return the settings under the parser's own names; ``no_`` turns a switch off."""
    named: dict[str, Setting] = {}
    for key, setting in settings.items():
        name = _full_name(key, known)
        off = name.removeprefix("no_")
        if name != off and name not in known and off in known:
            named.pop(off, None)
            named[off] = Setting(said=False, source=setting.source)
        else:
            named.pop(name, None)
            named[name] = setting
    return Settings(named)


def _full_name(key: str, known: Collection[str]) -> str:
    if key in known or len(key) < _SHORTEST_BEGINNING:
        return key
    names = _in_order(frozenset(known))
    first = bisect_left(names, key)
    matches = [name for name in names[first : first + 2] if name.startswith(key)]
    return matches[0] if len(matches) == 1 else key


@lru_cache(maxsize=16)
def _in_order(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
