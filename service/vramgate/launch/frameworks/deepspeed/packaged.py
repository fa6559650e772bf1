"""DeepSpeed files that frameworks ship, by the names people write; facts about memory only.

Read in LLaMA-Factory ff6d4d12 ``examples/deepspeed``, axolotl 067b021c ``deepspeed_configs`` and ms-swift
3602360a ``swift/config``. A file of the same name that was sent counts instead.
"""

from collections.abc import Mapping
from typing import Any

_AUTO_BATCH = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
}
_AUTO = {**_AUTO_BATCH, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
_BF16 = {**_AUTO_BATCH, "bf16": {"enabled": True}}
_CPU = {"device": "cpu"}
_AUTO_BUCKETS = {"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}


def _zero(base: Mapping[str, Any], stage: int, **zero: object) -> Mapping[str, Any]:
    return {**base, "zero_optimization": {"stage": stage, **zero}}


def _buckets(elements: int) -> dict[str, object]:
    return {"allgather_bucket_size": elements, "reduce_bucket_size": elements}


_LLAMA_FACTORY: Mapping[str, Mapping[str, Any]] = {
    "ds_z0_config.json": _zero(_AUTO, 0, **_buckets(500_000_000)),
    "ds_z2_config.json": _zero(_AUTO, 2, **_buckets(500_000_000)),
    "ds_z2_offload_config.json": _zero(_AUTO, 2, offload_optimizer=_CPU, **_buckets(500_000_000)),
    "ds_z2_autotp_config.json": {
        **_zero(_AUTO, 2, **_buckets(500_000_000)),
        "tensor_parallel": {"autotp_size": 2},
    },
    "ds_z3_config.json": _zero(_AUTO, 3, stage3_max_live_parameters=1_000_000_000, **_AUTO_BUCKETS),
    "ds_z3_offload_config.json": _zero(
        _AUTO,
        3,
        offload_optimizer=_CPU,
        offload_param=_CPU,
        stage3_max_live_parameters=1_000_000_000,
        **_AUTO_BUCKETS,
    ),
}
_AXOLOTL: Mapping[str, Mapping[str, Any]] = {
    "zero1.json": _zero(_AUTO, 1),
    "zero1_torch_compile.json": _zero(_AUTO, 1),
    "zero2.json": _zero(_AUTO, 2, offload_optimizer=_CPU),
    "zero2_torch_compile.json": _zero(_AUTO, 2, offload_optimizer=_CPU),
    "zero3.json": _zero(_AUTO, 3, max_live_parameters=0, **_AUTO_BUCKETS),
    "zero3_bf16.json": _zero(_BF16, 3, max_live_parameters=0, **_AUTO_BUCKETS),
    "zero3_bf16_cpuoffload_all.json": _zero(
        _BF16,
        3,
        offload_optimizer=_CPU,
        offload_param=_CPU,
        max_live_parameters=0,
        **_AUTO_BUCKETS,
    ),
    "zero3_bf16_cpuoffload_params.json": _zero(
        _BF16, 3, offload_param=_CPU, max_live_parameters=0, **_AUTO_BUCKETS
    ),
}
_MS_SWIFT: Mapping[str, Mapping[str, Any]] = {
    "zero0": _zero(_AUTO, 0, **_buckets(200_000_000)),
    "zero1": _zero(_AUTO, 1, **_buckets(200_000_000)),
    "zero2": _zero(_AUTO, 2, **_buckets(200_000_000)),
    "zero2_offload": _zero(_AUTO, 2, offload_optimizer=_CPU, **_buckets(200_000_000)),
    "zero3": _zero(_AUTO, 3, stage3_max_live_parameters=1_000_000_000, **_AUTO_BUCKETS),
    "zero3_offload": _zero(
        _AUTO,
        3,
        offload_optimizer=_CPU,
        offload_param=_CPU,
        stage3_max_live_parameters=1_000_000_000,
        **_AUTO_BUCKETS,
    ),
}


def packaged_config(path: str, framework: str | None) -> tuple[Mapping[str, Any], str] | None:
    """Return what a shipped file says, and its place; None for any other file.

    >>> packaged_config("examples/deepspeed/ds_z3_config.json", "llama_factory")[1]
    'LLaMA-Factory examples/deepspeed/ds_z3_config.json'
    """
    folder, _, name = path.rpartition("/")
    last = folder.rpartition("/")[2]
    if framework == "ms-swift" and not folder and name in _MS_SWIFT:
        return _MS_SWIFT[name], f"ms-swift swift/config/{name}.json"
    if name in _LLAMA_FACTORY and (
        framework == "llama_factory" or folder.endswith("examples/deepspeed")
    ):
        return _LLAMA_FACTORY[name], f"LLaMA-Factory examples/deepspeed/{name}"
    if name in _AXOLOTL and framework == "axolotl" and last == "deepspeed_configs":
        return _AXOLOTL[name], f"axolotl deepspeed_configs/{name}"
    return None
