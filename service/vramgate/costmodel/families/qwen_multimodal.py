"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5.

Source: the modeling files in transformers 5.24.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    ModelArchitecture,
)
from vramgate.costmodel.families.config import Config
from vramgate.costmodel.families.defaults import NESTED_DEFAULTS
from vramgate.costmodel.families.multimodal import combined, text_model
from vramgate.costmodel.families.qwen_vision import (
    QWEN2_5_VL,
    QWEN2_VL,
    QWEN3_VL,
    QwenVision,
    qwen_tower,
)


def _qwen(config: Config, text_type: str, vision_type: str, style: QwenVision) -> ModelArchitecture:
    """Return a text model of one generation with its tower."""
    text = text_model(config, text_type)
    section = config.section("vision_config")
    if section is None:
        config.require("vision_config")
    vision = section.with_defaults(NESTED_DEFAULTS[vision_type])
    return combined(config, text, qwen_tower(vision, "model.visual.", style), ())


def qwen2_vl(config: Config) -> ModelArchitecture:
    """Return Qwen2-VL.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return _qwen(config, "qwen2_vl_text", "qwen2_vl_vision", QWEN2_VL)


def qwen2_5_vl(config: Config) -> ModelArchitecture:
    """Return Qwen2.5-VL.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return _qwen(config, "qwen2_5_vl_text", "qwen2_5_vl_vision", QWEN2_5_VL)


def qwen3_vl(config: Config) -> ModelArchitecture:
    """Return Qwen3-VL.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return _qwen(config, "qwen3_vl_text", "qwen3_vl_vision", QWEN3_VL)


def qwen3_vl_moe(config: Config) -> ModelArchitecture:
    """Return Qwen3-VL with experts.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return _qwen(config, "qwen3_vl_moe_text", "qwen3_vl_vision", QWEN3_VL)


def qwen3_5(config: Config) -> ModelArchitecture:
    """Return Qwen3.5.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return _qwen(config, "qwen3_5_text", "qwen3_5_vision", replace(QWEN3_VL, deepstack=False))


def qwen3_5_moe(config: Config) -> ModelArchitecture:
    """Return Qwen3.5 with experts.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    style = replace(QWEN3_VL, deepstack=False)
    return _qwen(config, "qwen3_5_moe_text", "qwen3_5_vision", style)
