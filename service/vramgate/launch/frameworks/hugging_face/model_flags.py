"""Options of common scripts beside ``TrainingArguments``: model, length, attention, adapters.

Sources: TRL 1.16.0 ``trainer/model_config.py``; transformers' examples; tatsu-lab/stanford_alpaca
``train.py``; lm-sys/FastChat ``fastchat/train``; QwenLM/Qwen ``finetune.py``; haotian-liu/LLaVA
``llava/train/train.py``; tloen/alpaca-lora ``finetune.py``; artidoro/qlora ``qlora.py``.
"""

from collections.abc import Mapping

from vramgate.costmodel.job import AttentionImplementation, MethodKind
from vramgate.jobs.vocabulary import Quantization
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.adapters import (
    LoraWords,
    say_bitsandbytes,
    say_lora,
    say_peft_settings,
    say_quantised_weights,
)
from vramgate.launch.frameworks.tuners import at_least_one, first_said, nested
from vramgate.launch.reading import Found, Misread, Reading, Unseen, value_or
from vramgate.launch.settings import Settings

_MODELS = (
    "model_name_or_path",
    "pretrained_model_name_or_path",
    "model_name",
    "model_id",
    "base_model",
    "model_path",
    "model",
)
_LENGTHS = (
    "max_seq_length",
    "max_seq_len",
    "block_size",
    "model_max_length",
    "cutoff_len",
    "max_length",
    "seq_length",
    "sequence_length",
    "seq_len",
    "context_length",
    "max_source_length",
)
_PARTS: Mapping[str, int] = {"source_max_len": 1024, "target_max_len": 256}
"""Source and answer in one row, with qlora.py's defaults."""
_ADAPTERS = ("use_peft", "use_lora", "lora_enable", "enable_lora", "peft", "lora")
_QUANTISED = ("q_lora", "use_qlora", "qlora")
_WORDS = LoraWords(
    rank=("lora_r", "lora_rank"),
    targets=("lora_target_modules", "lora_target", "target_modules"),
    every_linear=("all-linear", "all"),
)
LORA_SIGNS = ("lora_r", "lora_rank", "lora_target_modules", "lora_modules_to_save")
_ATTENTION: Mapping[str, AttentionImplementation] = {
    "eager": AttentionImplementation.EAGER,
    "sdpa": AttentionImplementation.SDPA,
    "flash_attention_2": AttentionImplementation.FLASH_2,
    "flash_attention_3": AttentionImplementation.FLASH_3,
    "flex_attention": AttentionImplementation.FLEX,
    # Kernels of the Hub: the same code, built elsewhere.
    "kernels-community/flash-attn": AttentionImplementation.FLASH_2,
    "kernels-community/flash-attn2": AttentionImplementation.FLASH_2,
    "kernels-community/flash-attn3": AttentionImplementation.FLASH_3,
    "kernels-community/vllm-flash-attn3": AttentionImplementation.FLASH_3,
}
_FLASH_SWITCHES = (
    "use_flash_attention_2",
    "use_flash_attn",
    "use_flash_attention",
    "flash_attn",
    "flash_attention",
)
_FOUR, _EIGHT, _SIXTEEN, _THIRTY_TWO = 4, 8, 16, 32


def say_model(settings: Settings, draft: Draft) -> bool:
    """Keep the model's name, or that of the configuration it starts from; return whether one is said."""
    reading = first_said(settings.text(name) for name in (*_MODELS, "config_name"))
    if isinstance(reading, Found | Unseen):
        draft.forget("model")
    draft.say("model.name", reading)
    overrides = settings.text("config_overrides")
    if reading is None and isinstance(overrides, Found):
        draft.unknown(
            "model",
            Unseen(
                overrides.source,
                "the model is a family's own shape with some sizes changed",
                "send its config.json as model.config, or its sizes in VRAMGATE_MODEL",
            ),
        )
    return reading is not None or overrides is not None


def say_length(settings: Settings, draft: Draft) -> bool:
    """Keep the tokens of a row; return whether they are said."""
    parts = {part: settings.whole(part) for part in _PARTS}
    found = [part for part in parts.values() if isinstance(part, Found)]
    if found:
        tokens = sum(value_or(part, _PARTS[name]) for name, part in parts.items())
        source = " + ".join(part.source for part in found)
        draft.say("sequence_length", Found(tokens, source))
        return True
    reading = at_least_one(first_said(settings.whole(name) for name in _LENGTHS))
    draft.say("sequence_length", reading)
    target = settings.whole("max_target_length")
    if isinstance(target, Found):
        draft.warn(
            "target_as_long_as_source",
            f"The decoder's rows are taken as long as the encoder's, not {target.value} tokens"
            f" ({target.source}).",
        )
    return reading is not None


def say_attention(settings: Settings, draft: Draft) -> None:
    """Keep which attention code runs."""
    said = settings.text("attn_implementation")
    if isinstance(said, Found):
        word = said.value.strip().lower().partition(":")[0].partition("@")[0]
        if word in _ATTENTION:
            draft.say("attention", Found(_ATTENTION[word], said.source))
        else:
            draft.unknown(
                "attention",
                Unseen(
                    said.source,
                    f"the attention {said.value[:80]} is not known here",
                    "say the known one that keeps as much with VRAMGATE_ATTENTION",
                ),
            )
        return
    draft.say("attention", said)
    for name in _FLASH_SWITCHES:
        switch = settings.flag(name)
        if isinstance(switch, Found) and switch.value:
            draft.say("attention", Found(AttentionImplementation.FLASH_2, switch.source))


def dtype_setting(settings: Settings) -> Reading[str]:
    """Return the dtype that the model is loaded in, as it is written."""
    return first_said(settings.text(name) for name in ("dtype", "torch_dtype", "model_dtype"))


def say_method(
    settings: Settings,
    draft: Draft,
    *,
    adapts: Found[MethodKind] | None = None,
    signs: tuple[str, ...] = LORA_SIGNS,
) -> MethodKind:
    """Keep what trains, and return it as far as it can be seen.

    ``adapts``: a script that always trains adapters. ``signs``: options that only adapters have, which
    tell of them where no switch does. Nothing visible says nothing: the framework's default holds.
    """
    quantised = say_bitsandbytes(settings, draft) or _say_bits(settings, draft)
    full = settings.flag("full_finetune")
    switch = first_said(settings.flag(name) for name in _ADAPTERS)
    for reading in (switch, full):
        if isinstance(reading, Unseen):
            draft.unknown("method", reading)
    if isinstance(full, Found) and full.value:
        draft.forget("method")
        draft.say("method.kind", Found(MethodKind.FULL, full.source))
        return MethodKind.FULL
    lora = _adapters_said(settings, switch, adapts) or _sign(settings, switch, signs)
    if lora is not None:
        return _say_adapters(settings, draft, lora, quantised=quantised)
    if isinstance(switch, Found):
        draft.say("method.kind", Found(MethodKind.FULL, switch.source))
        return MethodKind.FULL
    if quantised:
        # What is stored in 4 or 8 bits cannot train: something over it does.
        draft.say("method.kind", Found(MethodKind.QLORA, _quantised_source(settings)))
    return MethodKind.QLORA if quantised else MethodKind.FULL


def _say_adapters(
    settings: Settings, draft: Draft, lora: Found[MethodKind], *, quantised: bool
) -> MethodKind:
    in_bits = quantised or lora.value is MethodKind.QLORA
    kind = MethodKind.QLORA if in_bits and not _says_whole_bits(settings) else MethodKind.LORA
    if kind is MethodKind.LORA:
        for field in ("quantization", "double_quant", "prepare_for_kbit_training"):
            draft.forget(f"method.{field}")
    draft.say("method.kind", Found(kind, lora.source))
    say_lora(settings, draft, words=_WORDS)
    return kind


def say_adapter_configs(settings: Settings, draft: Draft, kind: MethodKind) -> MethodKind:
    """Keep peft's and bitsandbytes' settings as objects, as a trainer that tells of itself has them."""
    weights = nested(settings, "quantization_config")
    quantised = say_bitsandbytes(weights, draft) or say_quantised_weights(weights, draft)
    adapters = nested(settings, "peft_config")
    if not len(adapters):
        return MethodKind.QLORA if quantised else kind
    configs = [adapters] if "peft_type" in adapters or "r" in adapters else _each(adapters)
    for config in configs:
        say_peft_settings(config, draft)
    if quantised and draft.said("method.kind") is not None:
        draft.say("method.kind", Found(MethodKind.QLORA, adapters[next(iter(adapters))].source))
    return MethodKind.QLORA if quantised or kind is MethodKind.QLORA else MethodKind.LORA


def _each(configs: Settings) -> list[Settings]:
    return [nested(configs, name) for name in configs]


def _adapters_said(
    settings: Settings, switch: Reading[bool], adapts: Found[MethodKind] | None
) -> Found[MethodKind] | None:
    """Return where adapters are asked for by a switch, or always put on by the script."""
    asked = [settings.flag(name) for name in _QUANTISED]
    quantised = next((one for one in asked if isinstance(one, Found) and one.value), None)
    if isinstance(switch, Found) and not switch.value:
        return None
    if quantised is not None:
        return Found(MethodKind.QLORA, quantised.source)
    return Found(MethodKind.LORA, switch.source) if isinstance(switch, Found) else adapts


def _sign(
    settings: Settings, switch: Reading[bool], signs: tuple[str, ...]
) -> Found[MethodKind] | None:
    if isinstance(switch, Found | Unseen):
        return None
    sign = next((name for name in signs if settings.text(name) is not None), None)
    return Found(MethodKind.LORA, settings[sign].source) if sign is not None else None


def _say_bits(settings: Settings, draft: Draft) -> bool:
    """Keep how many bits the frozen weights have (qlora.py, LLaVA)."""
    bits = settings.whole("bits")
    if not isinstance(bits, Found):
        return False
    if bits.value == _EIGHT:
        draft.forget("method.double_quant")
        draft.say("method.quantization", Found(Quantization.INT8, bits.source))
    elif bits.value == _FOUR:
        kind = settings.text("quant_type")
        draft.say("method.quantization", kind or Found(Quantization.NF4, bits.source))
        draft.say("method.double_quant", settings.flag("double_quant"))
    elif bits.value not in {_SIXTEEN, _THIRTY_TWO}:
        draft.misread("method.quantization", Misread(bits.source, bits.value, "4, 8, 16 or 32"))
    return bits.value in {_FOUR, _EIGHT}


def _quantised_source(settings: Settings) -> str:
    names = ("load_in_4bit", "load_in_8bit", "bits")
    return next(settings[name].source for name in names if settings.get(name) is not None)


def _says_whole_bits(settings: Settings) -> bool:
    bits = settings.whole("bits")
    return isinstance(bits, Found) and bits.value in {_SIXTEEN, _THIRTY_TWO}
