"""The last step of every builder: count, bound and mark what a token passes."""

from collections.abc import Sequence
from dataclasses import replace

from vramgate.costmodel.architecture import ModelArchitecture, Part, Stack
from vramgate.costmodel.families.config import Config, refuse, shown

# 100 trillion: sixty times the largest row of the catalog; keeps all byte counts far inside int64.
MAX_PARAMETERS = 10**14


def finished(config: Config, architecture: ModelArchitecture) -> ModelArchitecture:
    """Return the architecture with its active parameters filled in where it has experts.

    Raises:
        InvalidModelConfigError: it has more parameters than any model; a key must be wrong.
    """
    total = architecture.parameters
    if total > MAX_PARAMETERS:
        detail = f"the config describes {shown(total)} parameters, more than {MAX_PARAMETERS}"
        hint = "Compare the sizes with the published config.json."
        refuse(config.pointer, detail, code="out_of_range", hint=hint)
    idle = idle_parameters(architecture.stacks)
    return replace(architecture, active_parameters=total - idle) if idle else architecture


def idle_parameters(stacks: Sequence[Stack]) -> int:
    """Return the parameters of the experts one token does not pass."""
    idle = 0
    for part in stacks:
        for index, block in enumerate(part.blocks):
            if block.experts is None:
                continue
            unused = block.experts.num_experts - block.experts.experts_per_token
            expert = sum(m.weight + m.bias for m in block.modules if m.part is Part.EXPERTS)
            idle += expert * unused * part.repeats(index)
    return idle
