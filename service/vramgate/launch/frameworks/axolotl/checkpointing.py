"""Activation checkpointing and offload under axolotl.

Sources: axolotl 0.19.0 ``utils/config/__init__.py`` (``normalize_config``: use_reentrant True outside
RL), ``core/builders/base.py`` (``_configure_gradient_checkpointing``), ``loaders/model.py``
(``_apply_activation_checkpointing``), ``utils/schemas/validation.py``.
"""

from vramgate.costmodel.job import CheckpointMode
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.tuners import nested, say_checkpointing_mode
from vramgate.launch.reading import Found, Misread, value_or
from vramgate.launch.settings import Settings

_ON = frozenset({"true", "yes", "1"})
_OFF = frozenset({"false", "no", "0"})
_OFFLOADED = frozenset({"offload", "offload_disk", "unsloth"})
_HIDDEN_STATES = "hidden_states"
_OFFLOADS = frozenset({*_ON, "legacy", "disk", _HIDDEN_STATES})


def say_checkpointing(settings: Settings, draft: Draft, *, is_whole: bool) -> None:
    """Say checkpointing, its offload, and whether it is reentrant."""
    said = settings.text("gradient_checkpointing")
    if not isinstance(said, Found):
        draft.say("activation_checkpointing.mode", said)
        return
    word = said.value.lower()
    if word in _OFF:
        say_checkpointing_mode(Found(CheckpointMode.NONE, said.source), draft)
        return
    if word not in _ON | _OFFLOADED:
        mistake = Misread(said.source, said.value, "true, false, offload or offload_disk")
        draft.say("activation_checkpointing.mode", mistake)
        return
    draft.say("activation_checkpointing.mode", Found(CheckpointMode.FULL, said.source))
    offload = settings.text("activation_offloading")
    if word in _OFFLOADED:
        offload = Found("true", said.source)
    offloads = isinstance(offload, Found) and offload.value.lower() in _OFFLOADS
    if isinstance(offload, Found) and offloads:
        _say_offload(offload, settings, draft)
    _say_reentrant(settings, draft, offload=offload if offloads else None, is_whole=is_whole)
    _warn_of_selective(settings, draft)


def _say_offload(offload: Found[str], settings: Settings, draft: Draft) -> None:
    draft.say("activation_checkpointing.offload", Found(value=True, source=offload.source))
    adapter = settings.text("adapter")
    if isinstance(adapter, Found) and offload.value.lower() != _HIDDEN_STATES:
        draft.warn(
            "activation_offloading",
            f"{offload.source} with an adapter offloads every activation in place of recomputing"
            " it; the estimate is of checkpoints that are offloaded.",
        )


def _say_reentrant(settings: Settings, draft: Draft, *, offload: object, is_whole: bool) -> None:
    kwargs = nested(settings, "gradient_checkpointing_kwargs")
    reentrant = kwargs.flag("use_reentrant")
    if reentrant is not None:
        draft.say("activation_checkpointing.reentrant", reentrant)
        return
    if not is_whole:
        return
    said = settings.value("gradient_checkpointing_kwargs")
    plain = value_or(said, None) is None and offload is None
    outside_rl = settings.text("rl") is None and settings.value("unfrozen_parameters") is None
    draft.assume(
        "activation_checkpointing.reentrant",
        plain and outside_rl,
        "axolotl default (gradient_checkpointing_kwargs)",
    )


def _warn_of_selective(settings: Settings, draft: Draft) -> None:
    selective = settings.value("selective_checkpointing")
    if isinstance(selective, Found) and selective.value not in (None, False, "false"):
        draft.warn(
            "selective_checkpointing",
            f"{selective.source} keeps what attention puts out beside the checkpoints; the estimate"
            " recomputes it.",
        )
