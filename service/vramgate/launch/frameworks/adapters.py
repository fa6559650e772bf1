"""peft adapters and bitsandbytes weights, whoever asks for them.

- ``target_modules(settings, *names, every=("all-linear",)) -> Reading[str | tuple[str, ...]]``:
  ``"all-linear"`` for a word of ``every``, a regular expression as text, else the names, from a
  list, from words behind a flag or from one text split at commas.
- ``say_lora(settings, draft, *, words=LORA_WORDS)``: rank, dropout, targets, DoRA, whole modules.
- ``say_bitsandbytes(settings, draft) -> bool``: ``load_in_4bit``, ``load_in_8bit`` and their formats;
  whether the weights are quantised.
- ``say_quantised_weights(settings, draft) -> bool``: a checkpoint's ``quantization_config`` (GPTQ, AWQ).
- ``say_peft_config(config, name, draft)``: a ``LoraConfig`` as an object.
- ``say_saved_adapter(folder, source, context)``: the adapters that training goes on with.

None of them but ``say_peft_config`` says ``method.kind``.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from vramgate.costmodel.job import MethodKind
from vramgate.jobs.lora_targets import ALL_LINEAR
from vramgate.jobs.vocabulary import Quantization
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.settings import Settings, of_document

_IS_PATTERN = re.compile(r"[\\^$*+?()\[\]{}|]")
_LONGEST_LIST_TEXT = 4096
_CHECKPOINT_FORMATS: Mapping[tuple[str, int | None], Quantization] = {
    ("gptq", 4): Quantization.GPTQ_INT4,
    ("gptq", 8): Quantization.GPTQ_INT8,
    ("awq", 4): Quantization.AWQ_INT4,
    ("mxfp4", None): Quantization.MXFP4,
}
"""By ``quant_method`` and bits, as transformers' ``quantization_config`` has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraWords:
    """What a framework calls peft's options; several names where it has had several."""

    rank: tuple[str, ...] = ("lora_r", "lora_rank")
    dropout: tuple[str, ...] = ("lora_dropout",)
    targets: tuple[str, ...] = ("lora_target_modules",)
    every_linear: tuple[str, ...] = (ALL_LINEAR,)
    """Words among the targets that mean every linear layer but the head."""
    modules_to_save: tuple[str, ...] = ("lora_modules_to_save",)
    dora: tuple[str, ...] = ("use_dora",)


LORA_WORDS = LoraWords()
PEFT_WORDS = LoraWords(
    rank=("r",), targets=("target_modules",), modules_to_save=("modules_to_save",)
)
"""``LoraConfig``'s own."""


def target_modules(
    settings: Settings, *names: str, every: Collection[str] = (ALL_LINEAR,)
) -> Reading[str | tuple[str, ...]]:
    """Return the modules that adapters are put on, in peft's terms.

    >>> target_modules(of_document({"targets": "q_proj, v_proj"}, ""), "targets")
    Found(value=('q_proj', 'v_proj'), source='targets')
    """
    texts = settings.texts(*names)
    if not isinstance(texts, Found):
        return texts
    whole = settings.text(*names)
    if isinstance(whole, Found) and _IS_PATTERN.search(whole.value):
        listed = _written_list(whole.value)
        if listed is None:
            return whole
        texts = Found(listed, texts.source)
    if any(text in every for text in texts.value):
        return Found(ALL_LINEAR, texts.source)
    return texts if texts.value else None


def say_lora(settings: Settings, draft: Draft, *, words: LoraWords = LORA_WORDS) -> None:
    """Keep what is said of LoRA adapters."""
    draft.say("method.rank", settings.whole(*words.rank))
    draft.say("method.dropout", settings.number(*words.dropout))
    draft.say(
        "method.target_modules",
        target_modules(settings, *words.targets, every=words.every_linear),
    )
    draft.say("method.dora", settings.flag(*words.dora))
    saved = settings.texts(*words.modules_to_save)
    if not (isinstance(saved, Found) and set(saved.value) <= {"None", "null", ""}):
        draft.say("method.modules_to_save", saved)


def say_bitsandbytes(settings: Settings, draft: Draft) -> bool:
    """Keep how bitsandbytes stores the frozen weights; return whether it does."""
    four, eight = settings.flag("load_in_4bit"), settings.flag("load_in_8bit")
    for reading in (four, eight):
        if isinstance(reading, Unseen):
            draft.unknown("method", reading)
        elif isinstance(reading, Misread):
            draft.misread("method.quantization", reading)
    in_four, in_eight = _is_on(four), _is_on(eight)
    if in_four is not None and in_eight is not None:
        # transformers utils/quantization_config.py; TRL model_config.py: ValueError.
        draft.problem(
            Problem(
                rule="load_in_4bit_and_8bit",
                detail="load_in_4bit and load_in_8bit are both on; weights are stored once",
                fix="turn one of them off",
                values={in_four.source: True, in_eight.source: True},
                field="method.quantization",
            )
        )
    if in_four is not None:
        _say_four_bits(settings, draft)
    elif in_eight is not None:
        draft.say("method.quantization", Found(Quantization.INT8, in_eight.source))
    return in_four is not None or in_eight is not None


def _say_four_bits(settings: Settings, draft: Draft) -> None:
    kind = settings.text("bnb_4bit_quant_type", "quant_type")
    if isinstance(kind, Found):
        known = kind.value.lower()
        kind = (
            Found(known, kind.source)
            if known in {Quantization.NF4, Quantization.FP4}
            else Misread(kind.source, kind.value, "nf4 or fp4")
        )
    draft.say("method.quantization", kind)
    draft.say(
        "method.double_quant",
        settings.flag("bnb_4bit_use_double_quant", "use_bnb_nested_quant", "double_quant"),
    )


def say_quantised_weights(settings: Settings, draft: Draft) -> bool:
    """Keep the format of weights that come quantised; return whether it is known."""
    method, bits = settings.text("quant_method"), settings.whole("bits")
    if not isinstance(method, Found):
        return False
    word = method.value.rpartition(".")[2].lower()
    known = _CHECKPOINT_FORMATS.get((word, bits.value if isinstance(bits, Found) else None))
    if known is None:
        return False
    draft.say("method.quantization", Found(known, method.source))
    return True


def say_peft_config(config: Mapping[str, Any], name: str, draft: Draft) -> None:
    """Keep an adapter configuration of peft's (``adapter_config.json``); others than LoRA are unknown."""
    say_peft_settings(of_document(config, name), draft)


def say_peft_settings(settings: Settings, draft: Draft) -> None:
    """Keep the settings of an adapter configuration."""
    kind, rank = settings.text("peft_type"), settings.get("r")
    if isinstance(kind, Found) and kind.value.rpartition(".")[2].upper() != "LORA":
        draft.unknown(
            "method",
            Unseen(
                kind.source,
                f"{kind.value} adapters are not known here",
                "describe the job with the LoRA rank whose adapters have as many parameters",
            ),
        )
        return
    source = kind.source if isinstance(kind, Found) else rank.source if rank else "peft_config"
    draft.say("method.kind", Found(MethodKind.LORA, source))
    say_lora(settings, draft, words=PEFT_WORDS)


def _is_on(reading: Reading[bool]) -> Found[bool] | None:
    return reading if isinstance(reading, Found) and reading.value else None


def _written_list(text: str) -> tuple[str, ...] | None:
    """Return the names of a list written as text: ``['q_proj', 'v_proj']``, ``[q_proj,v_proj]``."""
    stripped = text.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")):
        return None
    if len(stripped) > _LONGEST_LIST_TEXT:
        return None
    inner = [part.strip().strip("'\"") for part in stripped[1:-1].split(",")]
    names = tuple(part for part in inner if part)
    return None if any(_IS_PATTERN.search(part) for part in names) else names


def say_saved_adapter(folder: str, source: str, context: Context) -> None:
    """Say the adapters that training goes on with, as they were saved in a folder."""
    sent = context.files.get(f"{folder}/adapter_config.json")
    if sent is not None:
        kind = context.draft.said("method.kind")
        say_peft_config(sent.mapping(), sent.name, context.draft)
        context.draft.say("method.kind", kind)
        return
    unseen = Unseen(
        source,
        f"training goes on with the adapters in {folder}, of their own rank and targets",
        f"send {folder}/adapter_config.json in launch.files",
    )
    for field in ("method.rank", "method.target_modules"):
        context.draft.say(field, unseen)
