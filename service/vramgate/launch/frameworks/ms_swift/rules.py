"""What ms-swift refuses, as far as it bears on memory.

Sources: ms-swift 4.6.0 ``arguments/sft_args.py`` (``_check_padding_free``, ``_init_fsdp``),
``arguments/base_args/model_args.py``, ``arguments/base_args/quant_args.py``; 2.6.1
``llm/utils/argument.py``; transformers 5.16 ``trainer.py`` (quantised weights without adapters).
"""

from collections.abc import Callable

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.tuners import refuse
from vramgate.launch.reading import Found
from vramgate.launch.settings import Settings

_FLASH = frozenset({"flash_attn", "flash_attention_2", "flash_attention_3", "flash_attention_4"})
_BITS = frozenset({4, 8})


def check(settings: Settings, kind: str, draft: Draft) -> None:
    """Report what ms-swift would refuse; ``kind``: the tuner as it is in effect."""
    for rule in _RULES:
        rule(settings, kind, draft)


def _model(settings: Settings, _kind: str, draft: Draft) -> None:
    if settings.text("model", "model_id_or_path", "model_type") is None:
        refuse(draft, "no_model", "model is not given", "name it with --model", field="model.name")


def _flash_for_joined_rows(settings: Settings, _kind: str, draft: Draft) -> None:
    """Packing and padding_free need flash attention from 3.0 on; sft_type tells of before."""
    attention = settings.text("attn_impl")
    if "sft_type" in settings or (isinstance(attention, Found) and attention.value in _FLASH):
        return
    for name in ("packing", "padding_free"):
        joined = settings.flag(name)
        if isinstance(joined, Found) and joined.value:
            refuse(
                draft,
                "joined_rows_attention",
                f"{name} without flash attention: rows that are joined need it",
                "write --attn_impl flash_attn",
                joined,
                attention,
                field="attention",
            )
            return


def _full_over_quantized(settings: Settings, kind: str, draft: Draft) -> None:
    bits = settings.whole("quantization_bit", "quant_bits")
    method = settings.text("quant_method")
    loads_quantized = isinstance(method, Found) or "quantization_bit" in settings
    if kind != "full" or not loads_quantized or not isinstance(bits, Found) or not bits.value:
        return
    refuse(
        draft,
        "quantization_without_lora",
        f"{bits.source} {bits.value} with full training: quantised weights do not train",
        "train with lora, or leave the quantisation out",
        bits,
        method,
        field="method.quantization",
    )


def _bits(settings: Settings, _kind: str, draft: Draft) -> None:
    method, bits = settings.text("quant_method"), settings.whole("quant_bits")
    if not isinstance(method, Found) or method.value.lower() != "bnb":
        return
    if not (isinstance(bits, Found) and bits.value in _BITS):
        refuse(
            draft,
            "bitsandbytes_bits",
            "quant_method bnb without quant_bits 4 or 8",
            "write --quant_bits 4",
            method,
            bits,
            field="method.quantization",
        )


def _one_engine(settings: Settings, _kind: str, draft: Draft) -> None:
    deepspeed, fsdp = settings.text("deepspeed"), settings.text("fsdp")
    if isinstance(deepspeed, Found) and isinstance(fsdp, Found):
        refuse(
            draft,
            "fsdp_with_deepspeed",
            "deepspeed with fsdp: one of them shards",
            "keep one of them",
            deepspeed,
            fsdp,
            field="sharding.implementation",
        )


_RULES: tuple[Callable[[Settings, str, Draft], None], ...] = (
    _model,
    _flash_for_joined_rows,
    _full_over_quantized,
    _bits,
    _one_engine,
)
