"""The feed-forward of a decoder block, dense or a mixture of experts: its shape and its modules."""

from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Experts,
    FeedForward,
    Module,
    ModuleKind,
    Part,
    linear,
)
from vramgate.costmodel.families.config import MAX_EXPERTS, MAX_INTERMEDIATE, Config
from vramgate.costmodel.families.parts import parameter
from vramgate.costmodel.families.style import (
    ExpertStyle,
    FeedForwardStyle,
)

_FUSED = 2
_SEPARATE = 3


class FeedForwardPart(NamedTuple):
    """The second half of a block, dense or experts, and the modules it is made of."""

    modules: tuple[Module, ...]
    dense: FeedForward | None = None
    experts: Experts | None = None


def dense_feed_forward(
    config: Config,
    style: FeedForwardStyle,
    hidden: int,
    kind: ModuleKind,
    *,
    size: int | None = None,
) -> FeedForwardPart:
    """Return the dense feed-forward; ``size`` is its width where the config's keys do not say it.

    Raises:
        InvalidModelConfigError: its width is missing or out of bounds.
    """
    if size is None:
        size = intermediate_size(config, style, hidden)
    shape = FeedForward(
        intermediate_size=size,
        gated=style.gated,
        fused_gate_up=style.gated and len(style.names) == _FUSED,
        activation=config.word(*style.activation_keys, default=style.activation),
        dropout=config.fraction(style.dropout),
    )
    bias = config.flag(style.bias)
    output = style.output_bias
    modules = feed_forward_modules(
        style.path,
        style.names,
        hidden,
        size,
        gated=style.gated,
        biases=(bias, bias if output is None else config.flag(output)),
        kind=kind,
    )
    return FeedForwardPart(modules, dense=shape)


def intermediate_size(config: Config, style: FeedForwardStyle, hidden: int) -> int:
    """Return the inner width.

    Raises:
        InvalidModelConfigError: it is missing or out of bounds.
    """
    default = None if style.times_hidden is None else style.times_hidden * hidden
    if default is not None and not style.size_keys:
        return default
    return config.whole(*style.size_keys, at_most=MAX_INTERMEDIATE, default=default)


def feed_forward_modules(
    prefix: str,
    names: tuple[str, ...],
    hidden: int,
    size: int,
    *,
    gated: bool,
    biases: tuple[bool, bool] = (False, False),
    role: str = "",
    part: Part = Part.MLP,
    kind: ModuleKind = ModuleKind.LINEAR,
    copies: int = 1,
) -> tuple[Module, ...]:
    """Return gate, up, down; or gate_up, down; or up, down, each role prefixed with ``role``.

    ``biases``: of the projections in, of the projection out.
    """
    if not gated:
        inputs: tuple[tuple[str, int], ...] = (("up", size),)
    elif len(names) == _SEPARATE:
        inputs = (("gate", size), ("up", size))
    else:
        inputs = (("gate_up", 2 * size),)
    into = tuple(
        linear(
            prefix + name,
            part,
            role + what,
            hidden,
            width,
            bias=biases[0],
            copies=copies,
            kind=kind,
        )
        for name, (what, width) in zip(names[:-1], inputs, strict=True)
    )
    path, what = prefix + names[-1], role + "down"
    out = linear(path, part, what, size, hidden, bias=biases[1], copies=copies, kind=kind)
    return (*into, out)


def expert_feed_forward(
    config: Config, style: ExpertStyle, dense: FeedForwardStyle, hidden: int
) -> FeedForwardPart:
    """Return router, routed and shared experts.

    Raises:
        InvalidModelConfigError: a number is missing or out of bounds, or more experts are used
            than there are.
    """
    count = config.whole(*style.count_keys, at_most=MAX_EXPERTS, default=style.count_default)
    per_token = experts_per_token(config, style, count)
    size = config.whole(*style.size_keys, at_most=MAX_INTERMEDIATE)
    activation = config.word(*dense.activation_keys, default=dense.activation)
    routed = feed_forward_modules(
        style.path,
        style.names,
        hidden,
        size,
        gated=style.gated,
        biases=(style.bias, style.bias),
        role="expert_",
        part=Part.EXPERTS,
        kind=ModuleKind.EXPERTS,
        copies=count,
    )
    shared = _shared_experts(config, style, hidden, size, activation)
    beside = shared.modules if shared is not None else ()
    shape = Experts(
        num_experts=count,
        experts_per_token=per_token,
        intermediate_size=size,
        gated=style.gated,
        activation=activation,
        shared=shared.dense if shared is not None else None,
    )
    modules = (*_router(style, hidden, count), *routed, *beside)
    return FeedForwardPart(modules, experts=shape)


def _router(style: ExpertStyle, hidden: int, count: int) -> tuple[Module, ...]:
    """Return the router and its correction where that is a weight."""
    bias, kind = style.router_bias, style.router_kind
    router = linear(style.router, Part.ROUTER, "router", hidden, count, bias=bias, kind=kind)
    if style.correction_bias is None:
        return (router,)
    return (router, parameter(style.correction_bias, Part.ROUTER, "router_bias", count))


def experts_per_token(config: Config, style: ExpertStyle, count: int) -> int:
    """Return how many experts a token passes.

    Raises:
        InvalidModelConfigError: it is missing, or more than there are.
    """
    per_token = config.whole(
        *style.per_token_keys, at_most=MAX_EXPERTS, default=style.per_token_default
    )
    if per_token > count:
        detail = f"{per_token} experts per token of {count} experts"
        name, _ = config.get(*style.per_token_keys)
        config.refuse(name, detail, code="contradiction", hint=f"At most {count}.")
    return per_token


def _shared_experts(
    config: Config, experts: ExpertStyle, hidden: int, routed_size: int, activation: str
) -> FeedForwardPart | None:
    """Return the shared experts as one feed-forward, or None where there are none."""
    style = experts.shared
    if style is None:
        return None
    if style.size_keys:
        size = config.whole(*style.size_keys, at_least=0, at_most=MAX_INTERMEDIATE)
    else:
        default = style.count_default
        count = config.whole(*style.count_keys, at_least=0, at_most=MAX_EXPERTS, default=default)
        size = count * routed_size
    if size == 0:
        return None
    bias = config.flag(style.bias)
    modules = feed_forward_modules(
        f"{style.path}.",
        style.names,
        hidden,
        size,
        gated=experts.gated,
        biases=(bias, bias),
        role="shared_",
    )
    if style.gate is not None:
        gate = linear(style.gate, Part.MLP, "shared_gate_scalar", hidden, 1)
        modules = (*modules, gate)
    shape = FeedForward(
        intermediate_size=size,
        gated=experts.gated,
        fused_gate_up=experts.gated and len(style.names) == _FUSED,
        activation=activation,
    )
    return FeedForwardPart(modules, dense=shape)
