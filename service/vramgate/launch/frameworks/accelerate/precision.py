"""accelerate's mixed precision: autocast, and fp8 in the matrix products.

Sources: accelerate 1.15.0 ``accelerator.py`` (``prepare_model``: autocast around forward, under FSDP
too; trainable weights are raised to fp32 there), ``utils/dataclasses.py`` (``TERecipeKwargs``: Transformer
Engine's delayed scaling; ``AORecipeKwargs``: torchao's ``Float8LinearConfig``, one scale a tensor).
"""

from vramgate.costmodel.job import Dtype
from vramgate.jobs.vocabulary import LinearFormat
from vramgate.launch.draft import Draft
from vramgate.launch.reading import Found, Misread, Reading, Unseen, value_or
from vramgate.launch.settings import Settings

HALVES = {"bf16": Dtype.BF16, "fp16": Dtype.FP16}
_FP8 = "fp8"
_NONE = frozenset({"no", "false"})
_LINEAR = {"te": LinearFormat.FP8_DELAYED, "ao": LinearFormat.FP8_TENSORWISE}


def mixed_precision(flat: Settings) -> Reading[str]:
    """Return bf16, fp16 or fp8; None where it is off or nobody says it."""
    said = flat.text("mixed_precision")
    if not isinstance(said, Found):
        return said
    word = said.value.lower()
    if word in _NONE:
        return None
    if word not in HALVES and word != _FP8:
        return Misread(said.source, said.value, "no, fp16, bf16 or fp8")
    return Found(word, said.source)


def say_mixed_precision(flat: Settings, draft: Draft) -> None:
    """Say autocast; fp8 is bf16 with lower products."""
    mode = mixed_precision(flat)
    if isinstance(mode, Unseen):
        draft.unknown("precision", mode)
    elif isinstance(mode, Misread):
        draft.misread("precision", mode)
    elif mode is not None:
        draft.say("precision.compute", Found(HALVES.get(mode.value, Dtype.BF16), mode.source))
        draft.say("precision.autocast", Found(value=True, source=mode.source))
        say_linear(mode, flat, draft)


def say_linear(mode: Found[str], flat: Settings, draft: Draft) -> None:
    """Say the format of the matrix products under fp8, by the package that makes them."""
    if mode.value != _FP8:
        return
    backend = flat.text("fp8_backend")
    if not isinstance(backend, Found):
        draft.say(
            "precision.linear",
            backend
            or Unseen(
                mode.source,
                "accelerate takes whichever fp8 package is installed",
                "give fp8_backend: TE or AO",
            ),
        )
        return
    blocks = flat.flag("fp8_use_mxfp8_block_scaling")
    if value_or(blocks, default=False):
        draft.say("precision.linear", Found(LinearFormat.MXFP8, backend.source))
        return
    linear = _LINEAR.get(backend.value.lower())
    if linear is not None:
        draft.say("precision.linear", Found(linear, backend.source))
    else:
        draft.warn(
            "fp8_backend_not_counted",
            f"{backend.source} {backend.value}: its formats are not counted; the products are taken as bf16.",
        )
