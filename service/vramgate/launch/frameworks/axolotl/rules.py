"""What axolotl's own schema refuses, as far as it bears on memory: method, batch, attention.

Sources: axolotl 0.19.0 ``utils/schemas/validation.py``, ``utils/schemas/peft.py``,
``utils/schemas/config.py``.
"""

from collections.abc import Callable

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.axolotl import sharding_rules as axolotl_sharding_rules
from vramgate.launch.frameworks.axolotl import training_rules as axolotl_training_rules
from vramgate.launch.frameworks.axolotl.training import (
    FLAGS,
    VARIABLE_LENGTH,
    attention_said,
)
from vramgate.launch.frameworks.axolotl.training_rules import on
from vramgate.launch.frameworks.tuners import is_on, refuse
from vramgate.launch.reading import Found
from vramgate.launch.settings import Settings

_SHORT = {"flash": "flash_attention_2", "flex": "flex_attention", "sdp": "sdpa"}
_NAMES = frozenset(
    {
        "eager",
        "sdpa",
        "flash_attention_2",
        "flash_attention_3",
        "flash_attention_4",
        "flash_attention_torch",
        "flex_attention",
        "xformers",
        "sage",
        "fp8",
    }
)
_VARIES = frozenset({"flash_attention_4", "xformers", "sage"})


def check(settings: Settings, draft: Draft) -> None:
    """Report what axolotl would refuse."""
    for rule in (*_RULES, *axolotl_training_rules.RULES, *axolotl_sharding_rules.RULES):
        rule(settings, draft)


def _model(settings: Settings, draft: Draft) -> None:
    if settings.text("base_model") is None:
        refuse(
            draft,
            "no_model",
            "base_model is not given",
            "name the model in base_model",
            field="model.name",
        )


def _bits_without_adapter(settings: Settings, draft: Draft) -> None:
    bits = on(settings, "load_in_8bit", "load_in_4bit")
    if bits and settings.text("adapter") is None:
        refuse(
            draft,
            "quantization_without_adapter",
            f"{bits[0].source} without adapter: quantised weights do not train",
            "write adapter: qlora, or turn load_in_8bit and load_in_4bit off",
            *bits,
            field="method.quantization",
        )


def _qlora(settings: Settings, draft: Draft) -> None:
    adapter = settings.text("adapter")
    if not isinstance(adapter, Found) or adapter.value.lower() != "qlora":
        return
    for flag in on(settings, "load_in_8bit", "gptq"):
        refuse(
            draft,
            "qlora_stored_otherwise",
            f"adapter qlora with {flag.source}: it loads in 4 bits",
            "write adapter: lora, or load_in_4bit: true alone",
            adapter,
            flag,
            field="method.quantization",
        )
    if not is_on(settings.flag("load_in_4bit")):
        refuse(
            draft,
            "qlora_without_4bit",
            "adapter qlora without load_in_4bit",
            "write load_in_4bit: true",
            adapter,
            settings.flag("load_in_4bit"),
            field="method.quantization",
        )


def _stored_twice(settings: Settings, draft: Draft) -> None:
    stored = settings.text("model_quantization_config")
    bits = on(settings, "load_in_8bit", "load_in_4bit")
    if isinstance(stored, Found) and bits:
        refuse(
            draft,
            "quantized_twice",
            f"model_quantization_config {stored.value} with {bits[0].source}",
            "keep one of them",
            stored,
            *bits,
            field="method.quantization",
        )


def _batch(settings: Settings, draft: Draft) -> None:
    batch = settings.whole("batch_size")
    if not isinstance(batch, Found) or not batch.value:
        return
    micro, steps = (
        settings.whole("micro_batch_size"),
        settings.whole("gradient_accumulation_steps"),
    )
    if steps is not None:
        refuse(
            draft,
            "batch_size_with_accumulation",
            "batch_size with gradient_accumulation_steps: one says the other",
            "leave batch_size out",
            batch,
            steps,
            field="gradient_accumulation_steps",
        )
    elif micro is None:
        refuse(
            draft,
            "batch_size_alone",
            "batch_size alone: micro_batch_size or gradient_accumulation_steps must be there too",
            "write micro_batch_size and gradient_accumulation_steps",
            batch,
            field="micro_batch_size",
        )


def _attention(settings: Settings, draft: Draft) -> None:
    said, old = settings.text("attn_implementation"), on(settings, *FLAGS)
    if not isinstance(said, Found):
        return
    if old:
        refuse(
            draft,
            "attention_twice",
            f"attn_implementation {said.value} with {old[0].source}",
            "keep attn_implementation alone",
            said,
            *old,
            field="attention",
        )
    if said.value not in _NAMES and "/" not in said.value:
        meant = _SHORT.get(said.value)
        refuse(
            draft,
            "attention_name",
            f"attn_implementation {said.value[:80]} is no name of an attention",
            f"write {meant}" if meant else f"write one of {', '.join(sorted(_NAMES))}",
            said,
            field="attention",
        )


def _packing(settings: Settings, draft: Draft) -> None:
    rl, packed = settings.text("rl"), on(settings, "sample_packing")
    if packed and isinstance(rl, Found):
        refuse(
            draft,
            "packing_with_rl",
            f"sample_packing with rl {rl.value}: rows of pairs are not packed",
            "turn sample_packing off",
            *packed,
            rl,
            field="packing",
        )
    flattened = settings.flag("batch_flattening")
    if not isinstance(flattened, Found) or not flattened.value:
        return
    attention = attention_said(settings)
    name = attention.value if isinstance(attention, Found) else None
    varies = name in {one.value for one in VARIABLE_LENGTH} | _VARIES | {"flex_attention"}
    if not varies and not (name and name.startswith("kernels-community/")):
        refuse(
            draft,
            "flattening_attention",
            "batch_flattening needs an attention for rows of any length",
            "write attn_implementation: flash_attention_2",
            flattened,
            attention,
            field="packing",
        )
    if packed:
        refuse(
            draft,
            "flattening_with_packing",
            "batch_flattening with sample_packing",
            "keep one of them",
            flattened,
            *packed,
            field="packing",
        )


_RULES: tuple[Callable[[Settings, Draft], None], ...] = (
    _model,
    _bits_without_adapter,
    _qlora,
    _stored_twice,
    _batch,
    _attention,
    _packing,
)
