"""torchtune's model builders: which model of the catalog each one builds.

Source: ``torchtune/models/*/_model_builders.py`` of 0.6.1, every builder of a language model but
the reward models, whose head is another. ``lora_``, ``qlora_`` stand before the same names.
"""

from collections.abc import Mapping

_ADAPTED = ("qlora_", "lora_")

MODELS: Mapping[str, str] = {
    "code_llama2_7b": "codellama/CodeLlama-7b-hf",
    "code_llama2_13b": "codellama/CodeLlama-13b-hf",
    "code_llama2_70b": "codellama/CodeLlama-70b-hf",
    "gemma_2b": "google/gemma-2b",
    "gemma_7b": "google/gemma-7b",
    "gemma2_2b": "google/gemma-2-2b",
    "gemma2_9b": "google/gemma-2-9b",
    "gemma2_27b": "google/gemma-2-27b",
    "llama2_7b": "meta-llama/Llama-2-7b-hf",
    "llama2_13b": "meta-llama/Llama-2-13b-hf",
    "llama2_70b": "meta-llama/Llama-2-70b-hf",
    "llama3_8b": "meta-llama/Meta-Llama-3-8B",
    "llama3_70b": "meta-llama/Meta-Llama-3-70B",
    "llama3_1_8b": "meta-llama/Llama-3.1-8B",
    "llama3_1_70b": "meta-llama/Llama-3.1-70B",
    "llama3_1_405b": "meta-llama/Llama-3.1-405B",
    "llama3_2_1b": "meta-llama/Llama-3.2-1B",
    "llama3_2_3b": "meta-llama/Llama-3.2-3B",
    "llama3_2_vision_11b": "meta-llama/Llama-3.2-11B-Vision",
    "llama3_2_vision_90b": "meta-llama/Llama-3.2-90B-Vision",
    "llama3_3_70b": "meta-llama/Llama-3.3-70B-Instruct",
    "mistral_7b": "mistralai/Mistral-7B-v0.1",
    "phi3_mini": "microsoft/Phi-3-mini-4k-instruct",
    "phi4_14b": "microsoft/phi-4",
    "qwen2_0_5b": "Qwen/Qwen2-0.5B",
    "qwen2_1_5b": "Qwen/Qwen2-1.5B",
    "qwen2_7b": "Qwen/Qwen2-7B",
    "qwen2_5_0_5b": "Qwen/Qwen2.5-0.5B",
    "qwen2_5_1_5b_base": "Qwen/Qwen2.5-1.5B",
    "qwen2_5_1_5b_instruct": "Qwen/Qwen2.5-1.5B",
    "qwen2_5_3b": "Qwen/Qwen2.5-3B",
    "qwen2_5_7b_base": "Qwen/Qwen2.5-7B",
    "qwen2_5_7b_instruct": "Qwen/Qwen2.5-7B",
    "qwen2_5_14b_base": "Qwen/Qwen2.5-14B",
    "qwen2_5_14b_instruct": "Qwen/Qwen2.5-14B",
    "qwen2_5_32b_base": "Qwen/Qwen2.5-32B",
    "qwen2_5_32b_instruct": "Qwen/Qwen2.5-32B",
    "qwen2_5_72b_base": "Qwen/Qwen2.5-72B",
    "qwen2_5_72b_instruct": "Qwen/Qwen2.5-72B",
}
"""By the builder's name without its package."""

TIED = frozenset(
    {
        "gemma_2b",
        "gemma_7b",
        "gemma2_2b",
        "gemma2_9b",
        "gemma2_27b",
        "llama3_2_1b",
        "llama3_2_3b",
        "qwen2_0_5b",
        "qwen2_1_5b",
        "qwen2_5_0_5b",
        "qwen2_5_1_5b_base",
        "qwen2_5_1_5b_instruct",
        "qwen2_5_3b",
    }
)
"""Builders whose output projection is the embedding: they refuse ``apply_lora_to_output``."""


def builder_of(component: str) -> str:
    """Return a builder's name without its package and without what it adds.

    >>> builder_of("torchtune.models.llama3_1.qlora_llama3_1_8b")
    'llama3_1_8b'
    """
    last = component.rpartition(".")[2]
    for prefix in _ADAPTED:
        last = last.removeprefix(prefix)
    return last


def builds_adapters(component: str) -> bool:
    """Return whether a builder puts adapters on the model."""
    return component.rpartition(".")[2].startswith(_ADAPTED)


def quantizes(component: str) -> bool:
    """Return whether a builder stores the frozen weights as NF4."""
    return component.rpartition(".")[2].startswith("qlora_")
