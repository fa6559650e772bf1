"""What is read off an answer for a number people know, and how it is shown."""

from vramgate.costmodel.breakdown import Component, Phase
from vramgate.units import format_gib
from vramgate.wire.estimates import EstimateResponse

WHOLE_STATES = (
    Component.WEIGHTS,
    Component.MASTER_WEIGHTS,
    Component.GRADIENTS,
    Component.OPTIMIZER_STATES,
)
OPTIMIZER = (Component.MASTER_WEIGHTS, Component.OPTIMIZER_STATES)
KEPT = (Component.ACTIVATIONS, Component.LOGITS)


def components(answer: EstimateResponse, phase: Phase, which: tuple[Component, ...]) -> int:
    """Return the bytes of some components at the highest moment of a phase."""
    (found,) = [one for one in answer.timeline if one.phase is phase]
    return sum(found.components.get(component, 0) for component in which)


def states_bytes(answer: EstimateResponse) -> int:
    """Return weights, gradients and optimizer states together, as the optimizer's step finds them."""
    return components(answer, Phase.OPTIMIZER_STEP, WHOLE_STATES)


def states_per_parameter(answer: EstimateResponse) -> float:
    """Return the same for each parameter."""
    return states_bytes(answer) / answer.model.parameters


def optimizer_bytes(answer: EstimateResponse) -> int:
    """Return optimizer states and master weights on one device."""
    return components(answer, Phase.OPTIMIZER_STEP, OPTIMIZER)


def optimizer_states_per_parameter(answer: EstimateResponse) -> float:
    """Return the bytes of the optimizer's own states for each parameter."""
    states = components(answer, Phase.OPTIMIZER_STEP, (Component.OPTIMIZER_STATES,))
    return states / answer.model.parameters


def loaded_weights_bytes(answer: EstimateResponse) -> int:
    """Return the bytes of the weights once the model is loaded."""
    return components(answer, Phase.LOAD, (Component.WEIGHTS,))


def kept_bytes(answer: EstimateResponse) -> int:
    """Return activations and logits when the loss is computed."""
    return components(answer, Phase.LOSS, KEPT)


def device_bytes(answer: EstimateResponse) -> int:
    """Return what the card's meter shows."""
    return answer.peak.device_bytes


def required_share(answer: EstimateResponse) -> float:
    """Return required bytes as a share of what the card can give; above one it does not fit."""
    assert answer.capacity is not None
    return answer.peak.required_bytes / answer.capacity.usable_bytes


def in_bytes(value: float) -> str:
    """Return bytes in full, and in GiB."""
    return f"{int(value):,} bytes ({format_gib(int(value))})"


def per_parameter(value: float) -> str:
    """Return bytes for each parameter."""
    return f"{value:.2f} bytes a parameter"


def as_verdict(value: float) -> str:
    """Return whether a share of the card fits it."""
    verdict = "fits" if value <= 1 else "does not fit"
    return f"{verdict}: requires {value * 100:.0f} % of the card"
