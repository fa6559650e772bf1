"""Which attention transformers picks where none is asked for, by model type and version.

``PreTrainedModel.get_correct_attn_implementation`` (``_autoset_attn_implementation`` before 4.54)
takes sdpa where the class has ``_supports_sdpa``, else eager. Read from every
``models/*/modeling_*.py`` of 27 wheels, 4.32.1 to 5.24.0.
"""

from collections.abc import Mapping

from vramgate.costmodel.job import AttentionImplementation
from vramgate.jobs.stack import Version

FIRST_SDPA: Version = (4, 36)
"""The release that brought sdpa (Llama, Falcon, BART, Whisper, GPT-BigCode)."""

_NEVER: Version = (999, 0)

_SDPA_SINCE: Mapping[str, Version] = {
    "albert": (4, 45),
    "bert": (4, 41),
    "bloom": _NEVER,
    "clip": (4, 43),
    "codegen": (5, 24),
    "deberta": _NEVER,
    "deberta-v2": _NEVER,
    "dinov2": (4, 45),
    "distilbert": (4, 46),
    "electra": (5, 0),
    "ernie": (5, 0),
    "gpt2": (4, 42),
    "gpt_neo": _NEVER,
    "gpt_neox": (4, 42),
    "gpt_oss": _NEVER,
    "gptj": (5, 24),
    "led": _NEVER,
    "m2m_100": (4, 45),
    "mbart": (4, 45),
    "mistral": (4, 37),
    "mixtral": (4, 37),
    "mpt": _NEVER,
    "mt5": (5, 16),
    "opt": (4, 46),
    "phi": (4, 39),
    "roberta": (4, 45),
    "stablelm": (4, 39),
    "t5": (5, 16),
    "vit": (4, 41),
    "xglm": _NEVER,
    "xlm-roberta": (4, 45),
}
"""First release with ``_supports_sdpa`` of a type that once lacked it; types not listed had it from their start."""


def transformers_attention(model_type: str, version: Version) -> AttentionImplementation:
    """Return the attention a model of this type gets where nobody asks for one.

    >>> transformers_attention("llama", (5, 24)).value, transformers_attention("gemma2", (5, 24)).value
    ('sdpa', 'eager')
    """
    if version < _SDPA_SINCE.get(model_type, FIRST_SDPA):
        return AttentionImplementation.EAGER
    if model_type == "gemma2" and _gemma2_is_eager(version):
        return AttentionImplementation.EAGER
    return AttentionImplementation.SDPA


def runs_transformers_code(framework: str) -> bool:
    """Return whether a framework trains transformers' own model classes, unpatched."""
    return framework in {
        "transformers",
        "accelerate",
        "trl",
        "llama_factory",
        "axolotl",
        "ms-swift",
    }


def _gemma2_is_eager(version: Version) -> bool:
    # Up to 4.47 the class swaps its default back to eager; from 5.24 (softcapping) sdpa is refused.
    return version < GEMMA2_SDPA or version >= GEMMA2_EAGER_AGAIN


GEMMA2_SDPA: Version = (4, 48)
GEMMA2_EAGER_AGAIN: Version = (5, 24)
