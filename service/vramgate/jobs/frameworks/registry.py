"""Frameworks by name, with the spellings people use."""

import difflib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from vramgate.jobs.frameworks import hugging_face, native, scripts, tuners
from vramgate.jobs.frameworks.defaults import FrameworkDefaults
from vramgate.jobs.stack import Stack, parse_stack

_FRAMEWORKS: Mapping[str, Callable[[Stack], FrameworkDefaults]] = {
    "transformers": hugging_face.transformers,
    "accelerate": hugging_face.accelerate,
    "trl": hugging_face.trl,
    "llama_factory": tuners.llama_factory,
    "axolotl": tuners.axolotl,
    "ms-swift": tuners.ms_swift,
    "unsloth": tuners.unsloth,
    "torch": native.torch,
    "deepspeed": native.deepspeed,
    "megatron": native.megatron,
    "torchtitan": native.torchtitan,
    "torchtune": native.torchtune,
    "litgpt": scripts.litgpt,
    "composer": scripts.composer,
    "fsdp_qlora": scripts.fsdp_qlora,
}

_ALIASES = {
    "hf": "transformers",
    "huggingface": "transformers",
    "trainer": "transformers",
    "hftrainer": "transformers",
    "llamafactory": "llama_factory",
    "swift": "ms-swift",
    "msswift": "ms-swift",
    "pytorch": "torch",
    "lightning": "torch",
    "pytorchlightning": "torch",
    "fsdp": "torch",
    "megatronlm": "megatron",
    "megatroncore": "megatron",
    "nemo": "megatron",
    "litgpt": "litgpt",
    "llmfoundry": "composer",
    "mosaicml": "composer",
    "fsdpqlora": "fsdp_qlora",
}


def framework_names() -> tuple[str, ...]:
    """Return the names of the frameworks whose defaults are known."""
    return tuple(_FRAMEWORKS)


def _key(text: str) -> str:
    return re.sub(r"[\s_.-]+", "", text.casefold())


_BY_KEY = {_key(name): name for name in _FRAMEWORKS} | _ALIASES


def framework_name(text: str) -> str | None:
    """Return our name of a framework, or None where its defaults are not known.

    >>> framework_name("LLaMA-Factory")
    'llama_factory'
    """
    return _BY_KEY.get(_key(text))


def near_frameworks(text: str) -> list[str]:
    """Return known frameworks with a similar name."""
    return difflib.get_close_matches(text.casefold(), _FRAMEWORKS, n=3)


@lru_cache(maxsize=1024)
def framework_defaults(name: str, stack_text: str | None) -> FrameworkDefaults:
    """Return the defaults of a framework at the versions that the text names."""
    return _FRAMEWORKS[name](parse_stack(stack_text))
