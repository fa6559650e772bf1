"""What axolotl's own schema refuses of losses, number formats, checkpointing and kernels.

Sources: axolotl 0.19.0 ``utils/schemas/validation.py``, ``utils/schemas/deprecated.py``,
``integrations/*/args.py``.
"""

from collections.abc import Callable

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.axolotl.training import plugins
from vramgate.launch.frameworks.tuners import is_on, nested, refuse
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Settings

_ONE_LOSS = (
    "cut_cross_entropy",
    "chunked_cross_entropy",
    "liger_cross_entropy",
    "liger_fused_linear_cross_entropy",
)
_REMOVED = (
    "unsloth_cross_entropy_loss",
    "unsloth_lora_mlp",
    "unsloth_lora_qkv",
    "unsloth_lora_o",
    "unsloth_rms_norm",
    "unsloth_rope",
    "s2_attention",
    "flash_attn_rms_norm",
)
_LORA_KERNELS = ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel")


def on(settings: Settings, *names: str) -> list[Found[bool]]:
    """Return the switches among these that are on."""
    flags = (settings.flag(name) for name in names)
    return [flag for flag in flags if isinstance(flag, Found) and flag.value]


def _losses(settings: Settings, draft: Draft) -> None:
    used = on(settings, *_ONE_LOSS)
    if len(used) > 1:
        refuse(
            draft,
            "several_losses",
            f"{' and '.join(one.source for one in used)}: only one of them",
            "keep one of them",
            *used,
            field="loss",
        )
    if "cutcrossentropyplugin" not in plugins(settings):
        return
    chunked = on(settings, "chunked_cross_entropy")
    if chunked and not on(settings, "cut_cross_entropy"):
        refuse(
            draft,
            "several_losses",
            "the cut cross entropy plugin with chunked_cross_entropy",
            "keep one of them",
            *chunked,
            field="loss",
        )
    explicit = on(settings, "cut_cross_entropy")
    if explicit and not _has_half(settings):
        refuse(
            draft,
            "cut_cross_entropy_in_fp32",
            "cut_cross_entropy without bf16 or fp16: its backward pass is for 16 bits",
            "write bf16: true",
            *explicit,
            field="loss",
        )


def _has_half(settings: Settings) -> bool:
    bf16 = settings.text("bf16")
    says_bf16 = isinstance(bf16, Found) and bf16.value.lower() not in {"false", "no", "0"}
    return says_bf16 or is_on(settings.flag("fp16"))


def _bf16_full(settings: Settings, draft: Draft) -> None:
    bf16 = settings.text("bf16")
    if isinstance(bf16, Found) and bf16.value.lower() == "full":
        refuse(
            draft,
            "bf16_full",
            "bf16 full: it is auto, true or false",
            "write bf16: true, or bfloat16: true",
            bf16,
            field="precision",
        )


def _checkpointing(settings: Settings, draft: Draft) -> None:
    said = settings.text("gradient_checkpointing")
    is_off = not isinstance(said, Found) or said.value.lower() in {"false", "no", "0"}
    offload = settings.text("activation_offloading")
    offloads = isinstance(offload, Found) and offload.value.lower() not in {"false", "no", "0"}
    if offloads and is_off:
        refuse(
            draft,
            "offload_without_checkpointing",
            "activation_offloading without gradient_checkpointing",
            "write gradient_checkpointing: true",
            offload,
            said,
            field="activation_checkpointing.offload",
        )
    reentrant = nested(settings, "gradient_checkpointing_kwargs").flag("use_reentrant")
    unfrozen = settings.value("unfrozen_parameters")
    if is_on(reentrant) and isinstance(unfrozen, Found) and unfrozen.value:
        refuse(
            draft,
            "reentrant_partly_frozen",
            "use_reentrant with unfrozen_parameters: a partly frozen model needs it off",
            "write use_reentrant: false",
            reentrant,
            field="activation_checkpointing.reentrant",
        )
    _selective(settings, draft, is_off=is_off, reentrant=reentrant)


def _selective(settings: Settings, draft: Draft, *, is_off: bool, reentrant: Reading[bool]) -> None:
    selective = settings.value("selective_checkpointing")
    if not isinstance(selective, Found) or selective.value in (None, False, "false"):
        return
    if is_off or is_on(reentrant):
        refuse(
            draft,
            "selective_checkpointing_needs",
            "selective_checkpointing needs gradient_checkpointing, and use_reentrant off",
            "write gradient_checkpointing: true with use_reentrant: false",
            reentrant,
            field="activation_checkpointing.mode",
        )


def _lora_kernels(settings: Settings, draft: Draft) -> None:
    adapter = settings.text("adapter")
    kernels = on(settings, *_LORA_KERNELS)
    if not kernels:
        return
    others = on(settings, "trust_remote_code")
    if isinstance(adapter, Found) and adapter.value.lower() == "lora":
        others += on(settings, "load_in_8bit")
    for flag in others:
        refuse(
            draft,
            "lora_kernels_with",
            f"{kernels[0].source} with {flag.source}",
            "turn one of them off",
            *kernels,
            flag,
            field="fused_kernels",
        )


def _removed(settings: Settings, draft: Draft) -> None:
    for flag in on(settings, *_REMOVED):
        refuse(
            draft,
            "removed_option",
            f"{flag.source} is gone from axolotl",
            "leave it out",
            flag,
        )


def _fp8(settings: Settings, draft: Draft) -> None:
    config = settings.value("fp8_config")
    given = isinstance(config, Found) and config.value is not None
    if given and not on(settings, "fp8"):
        refuse(
            draft,
            "fp8_config_without_fp8",
            "fp8_config without fp8",
            "write fp8: true, or leave fp8_config out",
            settings.flag("fp8"),
            field="precision.linear",
        )


RULES: tuple[Callable[[Settings, Draft], None], ...] = (
    _losses,
    _bf16_full,
    _checkpointing,
    _lora_kernels,
    _removed,
    _fp8,
)
