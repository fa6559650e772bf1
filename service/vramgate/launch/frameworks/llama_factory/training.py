"""How LLaMA-Factory trains: sizes, number formats, optimizer, checkpointing, attention, sharding.

Sources: llamafactory 0.9.5 ``hparams/data_args.py``, ``hparams/model_args.py``,
``hparams/parser.py``, ``model/adapter.py``, ``model/model_utils/``, ``train/``.
"""

from collections.abc import Mapping

from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Dtype,
    Loss,
    Packing,
    ShardingImplementation,
)
from vramgate.jobs.frameworks.registry import framework_defaults
from vramgate.jobs.vocabulary import LinearFormat
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.hugging_face.sharding import say_sharding
from vramgate.launch.frameworks.llama_factory.method import OFT
from vramgate.launch.frameworks.llama_factory.optimizer import say_optimizers
from vramgate.launch.frameworks.tuners import (
    check_halves,
    chosen,
    is_on,
    is_under,
    say_checkpointing_mode,
    say_formats,
    say_liger,
    say_mixed,
    say_sizes,
    say_trainer_rest,
)
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Settings
from vramgate.launch.words import Word

_ATTENTION = {
    "disabled": AttentionImplementation.EAGER,
    "off": AttentionImplementation.EAGER,
    "sdpa": AttentionImplementation.SDPA,
    "fa2": AttentionImplementation.FLASH_2,
    "fa3": AttentionImplementation.FLASH_3,
    # Up to 0.6 a switch.
    "true": AttentionImplementation.FLASH_2,
}
_LOSS_OF_LOGITS = frozenset({"sft", "pt"})
_OFF = "LLaMA-Factory default (bf16 and fp16 off)"
_PART_FROZEN = "LLaMA-Factory (only what trains is cast to fp32)"
_FP8 = {"te": LinearFormat.FP8_DELAYED}


def say_training(
    settings: Settings,
    kind: str,
    environment: Mapping[str, Word],
    context: Context,
    *,
    is_whole: bool,
) -> None:
    """Say how the model trains; ``is_whole``: whether everything that decides it is in sight."""
    draft = context.draft
    say_sizes(settings, draft, "per_device_train_batch_size", sequence_length="cutoff_len")
    _say_packing(settings, draft)
    say_optimizers(settings, draft)
    _say_precision(settings, kind, draft, is_whole=is_whole)
    _say_checkpointing(settings, draft)
    _say_attention(settings, draft)
    _say_kernels(settings, draft)
    say_trainer_rest(settings, draft)
    stack = draft.said("software.stack")
    say_sharding(settings, context, stack=stack.value if stack else None)
    _warn_of_backends(settings, environment, draft)


def _say_packing(settings: Settings, draft: Draft) -> None:
    """Say packing; neat_packing turns it on (``data_args.py``), with a mask that keeps rows apart."""
    packing = settings.flag("packing")
    neat = settings.flag("neat_packing")
    if isinstance(neat, Found) and neat.value:
        packing = neat
    if isinstance(packing, Found):
        how = Packing.PACKED if packing.value else Packing.PADDED
        draft.say("packing", Found(how, packing.source))
    else:
        draft.say("packing", packing)


def _say_precision(settings: Settings, kind: str, draft: Draft, *, is_whole: bool) -> None:
    check_halves(settings, draft)
    _say_fp8(settings, draft)
    if kind == OFT:
        return
    pure, bf16, fp16 = (settings.flag(name) for name in ("pure_bf16", "bf16", "fp16"))
    # model/adapter.py: what trains is cast to fp32, but for pure_bf16 and BAdam.
    raised = kind in {"full", "freeze"} and not is_on(settings.flag("use_badam"))
    has_engine = settings.text("deepspeed") is not None
    if isinstance(pure, Found) and pure.value:
        if is_on(fp16):
            draft.warn(
                "pure_bf16_with_fp16",
                "pure_bf16 with fp16: bf16 weights under a scaler for fp16 gradients.",
            )
        weights = Found(Dtype.BF16, pure.source)
        say_formats(weights, draft, compute=Dtype.BF16, autocast=is_on(bf16))
        return
    for flag, half in ((bf16, Dtype.BF16), (fp16, Dtype.FP16)):
        if isinstance(flag, Found) and flag.value:
            if has_engine:
                draft.say("precision.compute", Found(half, flag.source))
            else:
                say_mixed(Found(half, flag.source), draft, weights=Dtype.FP32 if raised else half)
            _say_frozen(kind, draft, half)
            return
    if is_whole and not has_engine:
        _say_without_amp(draft, raised=raised)
        _say_frozen(kind, draft, Dtype.BF16)


def _say_without_amp(draft: Draft, *, raised: bool) -> None:
    """Say what runs where nobody turns mixed precision on: no autocast, and fp32 where it trains."""
    if is_under(draft, ShardingImplementation.DEEPSPEED) or draft.said("precision.compute"):
        return  # accelerate was told
    formats = Dtype.FP32 if raised else Dtype.BF16
    draft.assume("precision.weights", formats, _OFF)
    draft.assume("precision.compute", formats, _OFF)
    draft.assume("precision.autocast", value=False, source=_OFF)


def _say_frozen(kind: str, draft: Draft, half: Dtype) -> None:
    if kind == "freeze":
        draft.assume("method.frozen_dtype", half, _PART_FROZEN)


def _say_fp8(settings: Settings, draft: Draft) -> None:
    """Say FP8 products; ``train/fp8_utils.py``: torchao's rowwise recipe, or Transformer Engine's."""
    fp8 = settings.flag("fp8")
    if isinstance(fp8, Found) and fp8.value:
        backend = settings.text("fp8_backend")
        name = backend.value.lower() if isinstance(backend, Found) else "auto"
        draft.say("precision.linear", Found(_FP8.get(name, LinearFormat.FP8_ROWWISE), fp8.source))


def _say_checkpointing(settings: Settings, draft: Draft) -> None:
    """Say checkpointing: on unless disabled, and the Trainer's own switch turns it on again."""
    disabled = settings.flag("disable_gradient_checkpointing")
    trainers = settings.flag("gradient_checkpointing", "activation_checkpointing")
    mode = None
    if isinstance(trainers, Found) and trainers.value:
        mode = Found(CheckpointMode.FULL, trainers.source)
    elif isinstance(disabled, Found):
        off = CheckpointMode.NONE if disabled.value else CheckpointMode.FULL
        mode = Found(off, disabled.source)
    else:
        draft.say("activation_checkpointing.mode", disabled)
    if mode is not None and not say_checkpointing_mode(mode, draft):
        return
    draft.say("activation_checkpointing.reentrant", settings.flag("use_reentrant_gc"))
    if is_under(draft, ShardingImplementation.FSDP2):
        # model_utils/checkpointing.py: use_reentrant_gc is turned off under FSDP2.
        draft.assume(
            "activation_checkpointing.reentrant", value=False, source="LLaMA-Factory under FSDP2"
        )
    offloaded = settings.flag("use_unsloth_gc")
    if isinstance(offloaded, Found) and offloaded.value:
        draft.say("activation_checkpointing.offload", offloaded)


def _say_attention(settings: Settings, draft: Draft) -> None:
    said = chosen(settings.text("flash_attn"), ("auto", "false", *_ATTENTION))
    if isinstance(said, Found):
        if said.value in _ATTENTION:
            draft.say("attention", Found(_ATTENTION[said.value], said.source))
    else:
        draft.say("attention", said)
    if is_on(settings.flag("shift_attn")):
        draft.warn("shift_attn", "Shifted attention (shift_attn) is estimated as whole attention.")


def _say_kernels(settings: Settings, draft: Draft) -> None:
    liger, unsloth = settings.flag("enable_liger_kernel"), settings.flag("use_unsloth")
    if isinstance(liger, Found) and liger.value:
        # model_utils/liger_kernel.py: the fused head in sft and pt only.
        stage = settings.text("stage")
        name = stage.value.lower() if isinstance(stage, Found) else "sft"
        loss = Loss.FUSED_LINEAR if name in _LOSS_OF_LOGITS else None
        say_liger(liger.source, draft, loss)
    if isinstance(unsloth, Found) and unsloth.value:
        _say_unsloth(unsloth.source, draft)


def _say_unsloth(source: str, draft: Draft) -> None:
    """Say what Unsloth's model brings: its kernels, and checkpoints in host memory."""
    stack = draft.said("software.stack")
    kernels = framework_defaults("unsloth", stack.value if stack else None).kernels
    draft.assume("fused_kernels", kernels.fused.value, kernels.fused.source)
    draft.assume("loss", kernels.loss.value, kernels.loss.source)
    draft.say("activation_checkpointing.mode", Found(CheckpointMode.FULL, source))
    draft.say("activation_checkpointing.offload", Found(value=True, source=source))


def _warn_of_backends(settings: Settings, environment: Mapping[str, Word], draft: Draft) -> None:
    """Name engines that hold the model their own way."""
    mca = environment.get("USE_MCA")
    engines = {
        "KTransformers": settings.flag("use_kt"),
        "HyperParallel": settings.flag("use_hyper_parallel"),
        "Megatron (USE_MCA)": (
            Found(mca.text.lower() in {"1", "y", "true"}, mca.source)
            if mca is not None
            else settings.flag("use_mca")
        ),
    }
    for engine, flag in engines.items():
        if isinstance(flag, Found) and flag.value:
            draft.warn(
                "engine_unknown_to_the_reader",
                f"{engine} shards and stores the model its own way ({flag.source}); that is not"
                " read here.",
            )
            _say_engine(engine, flag, draft)


def _say_engine(engine: str, flag: Found[bool], draft: Draft) -> None:
    for group in ("sharding", "parallelism", "precision"):
        draft.forget(group)
        draft.unknown(
            group,
            Unseen(flag.source, f"{engine} has settings of its own", "say them in the job itself"),
        )
