"""torchtitan's models by name and flavor, and the attention that each flavor runs.

Sources: ``torchtitan/models/*/__init__.py`` of 0.2.2 (flavors of TOML files) and 0.3.0
(``model_registry``). 16B of deepseek_v3 has the shape of DeepSeek-V2-Lite.
"""

from collections.abc import Mapping

from vramgate.costmodel.job import AttentionImplementation

MODELS: Mapping[str, Mapping[str, str]] = {
    "llama3": {
        "1B": "meta-llama/Llama-3.2-1B",
        "3B": "meta-llama/Llama-3.2-3B",
        "8B": "meta-llama/Llama-3.1-8B",
        "70B": "meta-llama/Llama-3.1-70B",
        "405B": "meta-llama/Llama-3.1-405B",
    },
    "llama2": {
        "7B": "meta-llama/Llama-2-7b-hf",
        "13B": "meta-llama/Llama-2-13b-hf",
        "70B": "meta-llama/Llama-2-70b-hf",
    },
    "llama4": {
        "17bx16e": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "17bx128e": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    },
    "deepseek_v3": {
        "16B": "deepseek-ai/DeepSeek-V2-Lite",
        "236B": "deepseek-ai/DeepSeek-V2",
        "671B": "deepseek-ai/DeepSeek-V3",
    },
    "qwen3": {
        "0.6B": "Qwen/Qwen3-0.6B",
        "1.7B": "Qwen/Qwen3-1.7B",
        "4B": "Qwen/Qwen3-4B",
        "8B": "Qwen/Qwen3-8B",
        "14B": "Qwen/Qwen3-14B",
        "32B": "Qwen/Qwen3-32B",
        "30B-A3B": "Qwen/Qwen3-30B-A3B",
        "235B-A22B": "Qwen/Qwen3-235B-A22B",
    },
    "qwen3_5": {
        "27B": "Qwen/Qwen3.5-27B",
        "35B-A3B": "Qwen/Qwen3.5-35B-A3B",
        "122B-A10B": "Qwen/Qwen3.5-122B-A10B",
        "397B-A17B": "Qwen/Qwen3.5-397B-A17B",
    },
    "gpt_oss": {"20b": "openai/gpt-oss-20b", "120b": "openai/gpt-oss-120b"},
    "kimi_k2_7": {"moonlight-16B-A3B": "moonshotai/Moonlight-16B-A3B"},
}

ENDINGS: Mapping[str, AttentionImplementation] = {
    "_flex_attn": AttentionImplementation.FLEX,
    "_flex": AttentionImplementation.FLEX,
    "_varlen_attn": AttentionImplementation.FLASH_2,
    "_varlen": AttentionImplementation.FLASH_2,
}
"""What flavors add to a model's: the attention. varlen is torch's own flash attention over packed rows."""

ALWAYS_FLEX = frozenset({"deepseek_v3", "gpt_oss"})
"""Models whose flavors, but the smallest for tests, run flex attention in files too."""

CLASSES: Mapping[str, AttentionImplementation] = {
    "FlexAttention": AttentionImplementation.FLEX,
    "VarlenAttention": AttentionImplementation.FLASH_2,
    "ScaledDotProductAttention": AttentionImplementation.SDPA,
}
"""Attention by the class in a configuration of 0.3."""


def split_flavor(flavor: str) -> tuple[str, AttentionImplementation | None]:
    """Return the model's flavor and the attention that its ending names.

    >>> split_flavor("8B_flex")[0]
    '8B'
    """
    for ending, attention in ENDINGS.items():
        if flavor.endswith(ending):
            return flavor.removesuffix(ending), attention
    return flavor, None
