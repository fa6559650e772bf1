"""What TRL refuses, and what it runs otherwise than it reads.

Sources: TRL ``trainer/sft_trainer.py`` (padding_free without packing: from 0.26 on; packing under
context parallelism, selective checkpointing: 1.16.0), ``trainer/grpo_config.py``.
"""

from vramgate.jobs.frameworks.hugging_face import trl_version
from vramgate.jobs.stack import Version
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.hugging_face.arguments import versions_of
from vramgate.launch.frameworks.trl.trainers import SFT, Trainer
from vramgate.launch.frameworks.tuners import first_said, is_on, nested
from vramgate.launch.reading import Found, value_or
from vramgate.launch.settings import Settings

_REFUSES_PADDING_FREE: Version = (0, 26)
_REFUSES_PACKED_CONTEXTS: Version = (1, 15)
_FLASH = frozenset({"flash_attention_2", "flash_attention_3"})


def check_trl(settings: Settings, draft: Draft, trainer: Trainer, stack: str | None) -> None:
    """Report what TRL would refuse, and warn of what misleads."""
    version = trl_version(versions_of(stack))
    if trainer is SFT:
        _check_padding_free(settings, draft, version)
        _warn_packing(settings, draft)
        _check_context_parallel(settings, draft, version)
    _check_selective(settings, draft)
    _check_head(draft, version)
    if trainer.generates:
        _warn_generation(settings, draft)


def _check_padding_free(settings: Settings, draft: Draft, version: Version) -> None:
    free, packed = settings.flag("padding_free"), settings.flag("packing")
    if not (isinstance(free, Found) and free.value) or is_on(packed):
        return
    length, unbounded = settings.whole("max_length"), settings.value("max_length")
    if version < _REFUSES_PADDING_FREE or (length is None and unbounded is not None):
        return
    source = length.source if isinstance(length, Found) else "TRL default (max_length)"
    draft.problem(
        Problem(
            rule="padding_free_with_max_length",
            detail="padding_free without packing does not enforce max_length, so TRL refuses it",
            fix="turn packing on, or set max_length to null and truncate the data",
            values={free.source: True, source: length.value if isinstance(length, Found) else 1024},
            field="packing",
        )
    )


def _warn_packing(settings: Settings, draft: Draft) -> None:
    """Packed rows need a kernel that keeps documents apart."""
    packed, strategy = settings.flag("packing"), settings.text("packing_strategy")
    if not is_on(packed) or (isinstance(strategy, Found) and strategy.value == "wrapped"):
        return
    attention = draft.said("attention")
    if attention is None or attention.value not in _FLASH:
        draft.warn(
            "packing_without_flash_attention",
            "Packed rows are kept apart by flash attention alone: with another, documents of a row"
            " attend to each other.",
        )


def _check_context_parallel(settings: Settings, draft: Draft, version: Version) -> None:
    packed = settings.flag("packing")
    config = nested(settings, "parallelism_config").over(settings)
    size = first_said(config.whole(name) for name in ("cp_size", "parallelism_config_cp_size"))
    if version < _REFUSES_PACKED_CONTEXTS or not (isinstance(size, Found) and size.value > 1):
        return
    if isinstance(packed, Found) and packed.value:
        draft.problem(
            Problem(
                rule="packing_with_context_parallelism",
                detail="context parallelism drops the mask that keeps packed documents apart",
                fix="turn packing off, or set cp_size to 1",
                values={packed.source: True, size.source: size.value},
                field="packing",
            )
        )


def _check_selective(settings: Settings, draft: Draft) -> None:
    kwargs = nested(settings, "gradient_checkpointing_kwargs")
    selective, reentrant = kwargs.flag("selective"), kwargs.flag("use_reentrant")
    switch = settings.flag("gradient_checkpointing")
    if not (isinstance(selective, Found) and selective.value):
        return
    against = {
        reading.source: reading.value
        for reading, bad in ((switch, False), (reentrant, True))
        if isinstance(reading, Found) and reading.value is bad
    }
    if against:
        draft.problem(
            Problem(
                rule="selective_checkpointing_refused",
                detail="selective checkpointing needs gradient_checkpointing, and no use_reentrant",
                fix="leave the other option out",
                values={selective.source: True, **against},
                field="activation_checkpointing.mode",
            )
        )


def _check_head(draft: Draft, version: Version) -> None:
    """An adapter on the head is passed by: the loss multiplies with the head's own weight."""
    if version < (1, 15):
        return
    targets = draft.said("method.target_modules")
    if targets is None or not isinstance(targets.value, list) or "lm_head" not in targets.value:
        return
    draft.problem(
        Problem(
            rule="adapter_on_the_head",
            detail="an adapter on lm_head would never train: TRL refuses it",
            fix="take lm_head out of the target modules",
            values={targets.source: targets.value},
            field="method.target_modules",
        )
    )


def _warn_generation(settings: Settings, draft: Draft) -> None:
    """VLLM beside the trainer takes its share of the card, which the launch does not name in bytes."""
    vllm = settings.flag("use_vllm")
    mode = value_or(settings.text("vllm_mode"), "colocate")
    if not is_on(vllm) or mode != "colocate":
        return
    share = value_or(settings.number("vllm_gpu_memory_utilization"), 0.3)
    draft.warn(
        "vllm_beside_the_trainer",
        f"vLLM runs on the trainer's own cards and takes {share:.0%} of each: give those bytes as"
        " hardware.occupied_bytes.",
    )
