"""Versions of what the run uses, read from package metadata without importing anything."""

import platform
import sys
from functools import cache

_DISTRIBUTIONS = {
    "torch": ("torch",),
    "transformers": ("transformers",),
    "trl": ("trl",),
    "peft": ("peft",),
    "accelerate": ("accelerate",),
    "deepspeed": ("deepspeed",),
    "lightning": ("lightning",),
    "pytorch_lightning": ("pytorch-lightning",),
    "bitsandbytes": ("bitsandbytes",),
    "flash_attn": ("flash-attn", "flash-attn-3"),
    "liger_kernel": ("liger-kernel", "liger-kernel-nightly"),
    "torchao": ("torchao",),
    "unsloth": ("unsloth",),
    "xformers": ("xformers",),
    "vramgate": ("vramgate",),
}


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of the installed packages that change how much memory a run takes."""
    # The first import costs 20 ms, so that the reporter's own import stays fast.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    found = {"python": platform.python_version()}
    for name, distributions in _DISTRIBUTIONS.items():
        for distribution in distributions:
            try:
                found[name] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return found


def toolkit_versions() -> dict[str, str]:
    """Return the CUDA or HIP version torch was built for, where torch is loaded."""
    built = getattr(sys.modules.get("torch"), "version", None)
    found = {name: getattr(built, name, None) for name in ("cuda", "hip", "xpu")}
    return {name: str(value) for name, value in found.items() if value}
