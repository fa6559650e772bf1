"""What axolotl's own schema refuses of sharding and its optimizers.

Sources: axolotl 0.19.0 ``utils/schemas/validation.py``, ``integrations/liger/args.py``.
"""

from collections.abc import Callable, Mapping

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.axolotl.sharding import fsdp_settings
from vramgate.launch.frameworks.axolotl.training import attention_said
from vramgate.launch.frameworks.tuners import is_on, refuse
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Settings

_SECOND = 2
_NOT_WITH_FSDP2 = frozenset({"adamw_8bit", "adamw_bnb_8bit"})
_NOT_WITH_TENSORS = frozenset({"paged_adamw_8bit", "adamw_8bit", "adamw_bnb_8bit"})
_PAIRS = frozenset({"dpo", "kto", "orpo", "ipo"})


def _optimizer(settings: Settings) -> Found[str] | None:
    said = settings.text("optimizer")
    return said if isinstance(said, Found) else None


def _deepspeed(settings: Settings) -> Found[str] | None:
    said = settings.value("deepspeed")
    if not isinstance(said, Found) or not said.value:
        return None
    what = "an object" if isinstance(said.value, Mapping) else str(said.value)
    return Found(what, said.source)


def _version(settings: Settings) -> Reading[int]:
    """Return FSDP's version where FSDP is used."""
    return fsdp_settings(settings).whole("fsdp_version")


def _uses(settings: Settings, version: int) -> bool:
    used = _version(settings)
    return isinstance(used, Found) and (used.value == _SECOND) is (version == _SECOND)


def _on(settings: Settings, name: str) -> Found[bool] | None:
    flag = settings.flag(name)
    return flag if isinstance(flag, Found) and flag.value else None


def _both(settings: Settings, draft: Draft) -> None:
    deepspeed, words = _deepspeed(settings), settings.texts("fsdp")
    if deepspeed is not None and isinstance(words, Found) and words.value:
        refuse(
            draft,
            "fsdp_with_deepspeed",
            "deepspeed with fsdp: one of them shards",
            "keep one of them",
            deepspeed,
            words,
            field="sharding.implementation",
        )


def _eight_bit_optimizers(settings: Settings, draft: Draft) -> None:
    optimizer = _optimizer(settings)
    if optimizer is None or "8bit" not in optimizer.value:
        return
    offload = fsdp_settings(settings).flag("fsdp_offload_params")
    if _uses(settings, 1) and is_on(offload):
        refuse(
            draft,
            "fsdp_offload_8bit_optimizer",
            f"FSDP offload with optimizer {optimizer.value}",
            "choose an optimizer of 32 bits, or turn offload_params off",
            optimizer,
            offload,
            field="optimizer.name",
        )
    if _uses(settings, _SECOND) and optimizer.value in _NOT_WITH_FSDP2:
        refuse(
            draft,
            "fsdp2_8bit_optimizer",
            f"FSDP2 with optimizer {optimizer.value}",
            "write optimizer: adamw_torch_8bit",
            optimizer,
            _version(settings),
            field="optimizer.name",
        )


def _second_version_quantized(settings: Settings, draft: Draft) -> None:
    if not _uses(settings, _SECOND):
        return
    four = _on(settings, "load_in_4bit")
    efficient = fsdp_settings(settings).flag("fsdp_cpu_ram_efficient_loading")
    if four is not None and is_on(efficient):
        refuse(
            draft,
            "fsdp2_efficient_loading_4bit",
            "cpu_ram_efficient_loading with load_in_4bit under FSDP2",
            "write fsdp_config.cpu_ram_efficient_loading: false",
            four,
            efficient,
            field="method.quantization",
        )
    bits = four or _on(settings, "load_in_8bit")
    rl = settings.text("rl")
    # The schema compares the version at the top only.
    at_top = settings.whole("fsdp_version")
    if bits and isinstance(rl, Found) and rl.value in _PAIRS and at_top is not None:
        refuse(
            draft,
            "fsdp2_quantized_rl",
            f"FSDP2 with rl {rl.value} over quantised weights",
            "write fsdp_version: 1, or use DeepSpeed",
            rl,
            bits,
            at_top,
            field="sharding.implementation",
        )


def _needs_second_version(settings: Settings, draft: Draft) -> None:
    """Muon, the flash optimizers and Q-GaLore: no DeepSpeed, and FSDP2 only."""
    optimizer = _optimizer(settings)
    if optimizer is None:
        return
    name = optimizer.value
    if name not in {"muon", "q_galore_adamw8bit", "polora"} and not name.startswith("flash_"):
        return
    deepspeed = _deepspeed(settings)
    if deepspeed is not None:
        refuse(
            draft,
            "optimizer_with_deepspeed",
            f"optimizer {name} with deepspeed",
            "leave deepspeed out, or choose another optimizer",
            optimizer,
            deepspeed,
            field="optimizer.name",
        )
    if _uses(settings, 1):
        refuse(
            draft,
            "optimizer_with_fsdp1",
            f"optimizer {name} with FSDP1",
            "write fsdp_version: 2",
            optimizer,
            _version(settings),
            field="optimizer.name",
        )


def _projected_adapters(settings: Settings, draft: Draft) -> None:
    optimizer, adapter = _optimizer(settings), settings.text("adapter")
    is_qgalore = optimizer is not None and optimizer.value == "q_galore_adamw8bit"
    if is_qgalore and isinstance(adapter, Found):
        refuse(
            draft,
            "lora_with_galore",
            f"optimizer q_galore_adamw8bit with adapter {adapter.value}: it trains weights whole",
            "leave adapter out, or choose another optimizer",
            optimizer,
            adapter,
            field="optimizer.name",
        )


def _context_parallel(settings: Settings, draft: Draft) -> None:
    size = settings.whole("context_parallel_size", "sequence_parallel_degree")
    if not isinstance(size, Found) or size.value <= 1 or _on(settings, "use_glm_dsa_kernels"):
        return
    attention = attention_said(settings)
    if not isinstance(attention, Found) or attention.value != "flash_attention_2":
        refuse(
            draft,
            "context_parallel_attention",
            f"context_parallel_size {size.value} without flash_attention_2: ring attention has no"
            " other",
            "write attn_implementation: flash_attention_2",
            size,
            attention,
            field="attention",
        )
    rows, packed = settings.whole("micro_batch_size"), _on(settings, "sample_packing")
    if packed and isinstance(rows, Found) and rows.value > 1:
        refuse(
            draft,
            "context_parallel_rows",
            f"context_parallel_size {size.value} and sample_packing with micro_batch_size"
            f" {rows.value}",
            "write micro_batch_size: 1",
            size,
            packed,
            rows,
            field="micro_batch_size",
        )


def _tensor_parallel(settings: Settings, draft: Draft) -> None:
    size = settings.whole("tensor_parallel_size")
    if not isinstance(size, Found) or size.value <= 1:
        return
    optimizer = _optimizer(settings)
    excluded: list[Found[str] | Found[bool]] = [
        flag
        for name in ("liger_rms_norm", "liger_fused_linear_cross_entropy")
        if (flag := _on(settings, name)) is not None
    ]
    if optimizer is not None and optimizer.value in _NOT_WITH_TENSORS:
        excluded.append(optimizer)
    for one in excluded:
        refuse(
            draft,
            "not_with_tensor_parallel",
            f"{one.source} {one.value} with tensor_parallel_size {size.value}",
            "leave one of them out",
            size,
            one,
            field="parallelism.tensor_parallel_size",
        )


def _relora(settings: Settings, draft: Draft) -> None:
    relora = _on(settings, "relora")
    if relora is None:
        return
    deepspeed, version = _deepspeed(settings), _version(settings)
    if deepspeed is not None or version is not None or settings.text("adapter") is None:
        refuse(
            draft,
            "relora_needs",
            "relora needs an adapter, and neither DeepSpeed nor FSDP",
            "leave relora out",
            relora,
            deepspeed,
            version,
            field="method.kind",
        )


def _fp8_gather(settings: Settings, draft: Draft) -> None:
    gather = _on(settings, "fp8_enable_fsdp_float8_all_gather")
    version = settings.whole("fsdp_version")
    if gather and not (isinstance(version, Found) and version.value == _SECOND):
        refuse(
            draft,
            "fp8_gather_needs_fsdp2",
            "fp8_enable_fsdp_float8_all_gather without fsdp_version 2",
            "write fsdp_version: 2",
            gather,
            version,
            field="precision.linear",
        )


RULES: tuple[Callable[[Settings, Draft], None], ...] = (
    _both,
    _eight_bit_optimizers,
    _second_version_quantized,
    _needs_second_version,
    _projected_adapters,
    _context_parallel,
    _tensor_parallel,
    _relora,
    _fp8_gather,
)
