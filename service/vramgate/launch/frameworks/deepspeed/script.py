"""Words of scripts that drive DeepSpeed themselves, as DeepSpeed's own examples spell them.

Source: deepspeedai/DeepSpeedExamples 38ef1962 ``applications/DeepSpeed-Chat``: ``training/*/main.py``,
``dschat/utils/ds_utils.py`` (``get_train_ds_config``).
"""

from vramgate.costmodel.job import CheckpointMode, MethodKind, ShardingImplementation
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.sharding import FULL_SHARD
from vramgate.jobs.vocabulary import Offload
from vramgate.launch.draft import Draft
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Misread, Unseen, converted
from vramgate.launch.settings import Settings

_MODEL = ("model_name_or_path", "model_name", "model", "model_path")
_LENGTH = ("max_seq_len", "max_seq_length", "seq_length", "seq_len", "max_length", "block_size")
_MICRO = ("per_device_train_batch_size", "train_micro_batch_size_per_gpu", "micro_batch_size")
_DTYPES = {
    "bf16": PrecisionPreset.BF16_MASTER,
    "bfloat16": PrecisionPreset.BF16_MASTER,
    "fp16": PrecisionPreset.FP16_MASTER,
    "float16": PrecisionPreset.FP16_MASTER,
}


def say_script(flags: Settings, invocation: Invocation, context: Context) -> None:
    """Say what the words of a script say beside DeepSpeed's own file."""
    draft = context.draft
    model = flags.text(*_MODEL)
    if model is None:
        place = f"{invocation.program} names no model on its command line"
        draft.unknown(
            "model", Unseen(invocation.source, place, "name the model with VRAMGATE_MODEL")
        )
    elif isinstance(model, Unseen):
        draft.unknown("model", model)
    else:
        draft.say("model.name", model)
    draft.say("micro_batch_size", flags.whole(*_MICRO))
    draft.say("gradient_accumulation_steps", flags.whole("gradient_accumulation_steps"))
    draft.say("sequence_length", flags.whole(*_LENGTH))
    checkpointing = flags.flag("gradient_checkpointing", "activation_checkpointing")
    draft.say("activation_checkpointing.mode", converted(checkpointing, _mode))
    _say_dtype(flags, draft)
    _say_stage(flags, draft)
    _say_lora(flags, draft)


def _mode(on: bool) -> CheckpointMode:  # noqa: FBT001 what ``converted`` hands over
    return CheckpointMode.FULL if on else CheckpointMode.NONE


def _say_dtype(flags: Settings, draft: Draft) -> None:
    said = flags.text("dtype")
    if isinstance(said, Found) and said.value.lower() in _DTYPES:
        draft.say_preset(Found(_DTYPES[said.value.lower()], said.source))
    elif isinstance(said, Unseen | Misread):
        draft.say_preset(said)
    for name in ("bf16", "fp16"):
        switch = flags.flag(name)
        if isinstance(switch, Found) and switch.value:
            draft.say_preset(Found(_DTYPES[name], switch.source))


def _say_stage(flags: Settings, draft: Draft) -> None:
    stage = flags.whole("zero_stage")
    if stage is None:
        return
    draft.say(
        "sharding.implementation",
        Found(ShardingImplementation.DEEPSPEED, flags["zero_stage"].source),
    )
    draft.say("sharding.zero_stage", stage)
    offload = flags.flag("offload")
    if not isinstance(offload, Found) or not offload.value or not isinstance(stage, Found):
        return
    if stage.value > 0:
        draft.say("sharding.offload_optimizer", Found(Offload.CPU, offload.source))
    if stage.value == FULL_SHARD:
        draft.say("sharding.offload_parameters", Found(Offload.CPU, offload.source))


def _say_lora(flags: Settings, draft: Draft) -> None:
    rank, only = flags.whole("lora_dim"), flags.flag("only_optimize_lora")
    if isinstance(rank, Found) and rank.value > 0 and isinstance(only, Found) and only.value:
        draft.say("method.kind", Found(MethodKind.LORA, only.source))
        draft.say("method.rank", rank)
        draft.say("method.target_modules", Found("all-linear", rank.source))
