"""Options of TRL's configurations beside ``TrainingArguments``: rows, packing, loss, checkpointing.

Sources: TRL 0.9.6 to 1.16.0 ``trainer/sft_config.py``, ``dpo_config.py``, ``kto_config.py``,
``reward_config.py``, ``grpo_config.py``, ``model_config.py``, ``sft_trainer.py``.
"""

from vramgate.costmodel.job import CheckpointMode, Loss, Packing
from vramgate.jobs.frameworks.hugging_face import trl_version
from vramgate.jobs.stack import Version
from vramgate.jobs.training import TASKS_WITHOUT_LOGITS
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.hugging_face.arguments import names, versions_of
from vramgate.launch.frameworks.hugging_face.precision import Trained
from vramgate.launch.frameworks.trl.trainers import Trainer
from vramgate.launch.frameworks.tuners import at_least_one, first_said, is_on, nested
from vramgate.launch.reading import Found, Reading, Unseen, converted, value_or
from vramgate.launch.settings import Settings

OPTIONS = names(
    """
    model_name_or_path model_revision dtype torch_dtype attn_implementation trust_remote_code
    use_peft lora_r lora_alpha lora_dropout lora_target_modules lora_target_parameters
    lora_modules_to_save lora_task_type use_rslora use_dora load_in_8bit load_in_4bit
    bnb_4bit_quant_type use_bnb_nested_quant bnb_4bit_quant_storage
    model_init_kwargs ref_model_init_kwargs max_length max_seq_length max_prompt_length
    max_completion_length packing packing_strategy padding_free eval_packing pad_to_multiple_of
    completion_only_loss assistant_only_loss loss_type loss_weights activation_offloading
    precompute_ref_log_probs precompute_ref_batch_size reference_free sync_ref_model beta
    use_liger_loss num_generations use_vllm vllm_mode vllm_gpu_memory_utilization
    vllm_tensor_parallel_size vllm_enable_sleep_mode dataset_name dataset_config
    dataset_streaming dataset_train_split dataset_test_split ignore_bias_buffers
    center_rewards_coefficient desirable_weight undesirable_weight disable_dropout
    accelerate_config config num_processes num_machines config_file
    """
)
"""Names of TRL's own options, and of accelerate's that start alike."""
ITS_OWN_HEAD: Version = (1, 15)
"""From here on SFT, DPO and KTO compute the loss from the hidden states, Liger or not."""


def say_rows(settings: Settings, draft: Draft, trainer: Trainer) -> None:
    """Keep how long rows are and how they share a batch."""
    if trainer.generates:
        _say_generated(settings, draft)
        return
    # sft_config.py of 0.16 to 0.19: the older name counts where both are given.
    length = first_said(settings.whole(name) for name in ("max_seq_length", "max_length"))
    explicit = settings.value("max_length")
    if length is None and isinstance(explicit, Found):
        # TRL: None truncates nothing.
        draft.unknown(
            "sequence_length",
            Unseen(
                explicit.source,
                "rows are as long as the data",
                "say the tokens of the longest row with VRAMGATE_SEQ_LEN",
            ),
        )
    draft.say("sequence_length", at_least_one(length))
    draft.say("packing", _packing(settings))


def _packing(settings: Settings) -> Reading[Packing]:
    packed, free = settings.flag("packing"), settings.flag("padding_free")
    if is_on(packed):
        return converted(packed, lambda _: Packing.PACKED)
    if is_on(free):
        return converted(free, lambda _: Packing.PADDING_FREE)
    return converted(packed, lambda _: Packing.PADDED)


def _say_generated(settings: Settings, draft: Draft) -> None:
    """Name rows that are a prompt and what is generated behind it."""
    prompt, answer = settings.whole("max_prompt_length"), settings.whole("max_completion_length")
    if isinstance(prompt, Found) and isinstance(answer, Found):
        source = f"{prompt.source} + {answer.source}"
        draft.say("sequence_length", Found(prompt.value + answer.value, source))
        return
    draft.unknown(
        "sequence_length",
        Unseen(
            answer.source if isinstance(answer, Found) else "max_completion_length",
            "a row is a prompt of the data and what is generated behind it",
            "say the tokens of both together with VRAMGATE_SEQ_LEN",
        ),
    )


def say_trl_checkpointing(settings: Settings, draft: Draft, run: Trained) -> None:
    """Keep what TRL adds to checkpointing: a selective mode, and activations in host memory."""
    kwargs = nested(settings, "gradient_checkpointing_kwargs")
    selective = kwargs.flag("selective")
    if is_on(selective):
        draft.say(
            "activation_checkpointing.mode",
            converted(selective, lambda _: CheckpointMode.SELECTIVE),
        )
    # The switch is on where nobody turns it off, so that its options count without it.
    draft.say("activation_checkpointing.reentrant", kwargs.flag("use_reentrant"))
    offload = settings.flag("activation_offloading")
    if isinstance(offload, Found) and offload.value:
        _say_offload(offload, draft, run)


def _say_offload(offload: Found[bool], draft: Draft, run: Trained) -> None:
    """Keep activations in host memory: what checkpointing keeps; without it a job has no word."""
    mode = draft.said("activation_checkpointing.mode")
    is_open = mode is None and trl_version(versions_of(run.stack)) < _CHECKPOINTS_SINCE
    if is_open or (mode is not None and mode.value == CheckpointMode.NONE.value):
        draft.unknown(
            "activation_checkpointing.offload",
            Unseen(
                offload.source,
                "activations go to host memory without being checkpointed, which a job cannot say",
                "leave it out for an upper bound",
            ),
        )
        return
    draft.say("activation_checkpointing.offload", offload)


_CHECKPOINTS_SINCE: Version = (0, 22)
"""gradient_checkpointing is on by default from here on (``jobs.frameworks.hugging_face``)."""


def say_trl_loss(settings: Settings, draft: Draft, trainer: Trainer, stack: str | None) -> None:
    """Keep how the loss is computed where TRL does it its own way."""
    if trainer.task is None or trainer.task in TASKS_WITHOUT_LOGITS:
        return
    switch = settings.flag("use_liger_kernel", "use_liger_loss", "use_liger")
    if isinstance(switch, Found) and switch.value:
        version = trl_version(versions_of(stack))
        config = nested(settings, "liger_kernel_config")
        if version >= ITS_OWN_HEAD or value_or(
            config.flag("fused_linear_cross_entropy"), default=True
        ):
            draft.say("loss", Found(Loss.FUSED_LINEAR, switch.source))
    chunked = settings.text("loss_type")
    if isinstance(chunked, Found) and chunked.value == "chunked_nll":
        draft.say("loss", Found(Loss.CHUNKED, chunked.source))
        if trl_version(versions_of(stack)) >= ITS_OWN_HEAD:
            draft.say("loss", Found(Loss.FUSED_LINEAR, chunked.source))
    _warn_reference(settings, draft)


def _warn_reference(settings: Settings, draft: Draft) -> None:
    """Name a reference model that is not there, or a copy more, which a job cannot say."""
    for name in ("precompute_ref_log_probs", "reference_free"):
        reading = settings.flag(name)
        if isinstance(reading, Found) and reading.value:
            draft.warn(
                "reference_model_counted",
                f"{name} is on ({reading.source}): no reference model stays on the card, the"
                " estimate of a full fine-tuning counts one.",
            )
