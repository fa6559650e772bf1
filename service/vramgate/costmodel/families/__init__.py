"""WIP."""

from collections.abc import Mapping

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.families.config import Config
from vramgate.costmodel.families.registry import builder_for

__all__ = ["architecture_from_config"]


def architecture_from_config(config: Mapping[str, object]) -> ModelArchitecture:
    """WIP."""
    return builder_for(Config(config))
