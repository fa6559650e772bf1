"""Which layer is of which kind: its window, whether it rotates, whether it holds experts."""

from typing import NamedTuple

from vramgate.costmodel.families.config import MAX_LAYERS, MAX_POSITIONS, Config, shown
from vramgate.costmodel.families.style import (
    AttentionStyle,
    DecoderStyle,
    ExpertStyle,
    RotaryLayers,
    Window,
)

_WINDOWED = {"sliding_attention", "chunked_attention", "local_attention"}


class LayerKind(NamedTuple):
    """What may differ between the layers of one decoder."""

    window: int | None = None
    rotary: bool = True
    sparse: bool = False
    mixer: str = "attention"


def layer_kinds(config: Config, style: DecoderStyle, layers: int) -> tuple[LayerKind, ...]:
    """Return the kind of each layer, in order.

    Raises:
        InvalidModelConfigError: a per-layer list has another length than the layers, or odd
            entries.
    """
    attention = style.attention
    uniform = attention.window is None and attention.rotary_layers is RotaryLayers.ALL
    if uniform and style.experts is None:
        return (LayerKind(),) * layers
    windows = layer_windows(config, attention.window, layers)
    rotary = _rotary_layers(config, attention, windows)
    sparse = sparse_layers(config, style.experts, layers)
    return tuple(map(LayerKind, windows, rotary, sparse))


def window_size(config: Config, window: Window) -> int | None:
    """Return the width of the window, or None where attention is full."""
    if not config.flag(window.when):
        return None
    size = config.maybe_whole(window.key, at_least=0, at_most=MAX_POSITIONS)
    if size is None and not config.has(window.key):
        size = window.default
    return size or None


def layer_windows(config: Config, window: Window | None, layers: int) -> tuple[int | None, ...]:
    """Return the window of each layer; None: full attention.

    Raises:
        InvalidModelConfigError: ``layer_types`` or the pattern is malformed.
    """
    size = window_size(config, window) if window is not None else None
    if window is None or size is None:
        return (None,) * layers
    kinds = config.words("layer_types", length=layers)
    if kinds is not None:
        return tuple(size if kind in _WINDOWED else None for kind in kinds)
    if window.rule is not None:
        return tuple(size if local else None for local in window.rule(config, layers))
    if window.first_layer_key is not None:
        first = config.whole(window.first_layer_key, at_least=0, at_most=MAX_LAYERS, default=0)
        return tuple(size if layer >= first else None for layer in range(layers))
    pattern = _pattern(config, window)
    return tuple(size if pattern[layer % len(pattern)] else None for layer in range(layers))


def _pattern(config: Config, window: Window) -> tuple[bool, ...]:
    """Return the repeating pattern of windowed layers, from a number or letters ("LLLG")."""
    _, value = config.get(window.period_key)
    if isinstance(value, str):
        if not value or len(value) > MAX_LAYERS or set(value) - {"L", "G"}:
            config.refuse(window.period_key, f"{shown(value)} is no pattern of L and G")
        return tuple(letter == "L" for letter in value)
    period = config.whole(window.period_key, at_least=0, at_most=MAX_LAYERS, default=window.period)
    return (True,) * (period - 1) + (False,) if period else (True,)


def _rotary_layers(
    config: Config, attention: AttentionStyle, windows: tuple[int | None, ...]
) -> tuple[bool, ...]:
    """Return which layers rotate queries and keys."""
    layers = len(windows)
    if attention.rotary_layers is RotaryLayers.SLIDING:
        hybrid = any(windows)
        return tuple(window is not None or not hybrid for window in windows)
    if attention.rotary_layers is RotaryLayers.LISTED:
        if config.sets("no_rope_layers"):
            listed = config.wholes("no_rope_layers", at_most=1, length=layers)
            return tuple(map(bool, listed or ()))
        interval = config.whole("no_rope_layer_interval", at_most=MAX_LAYERS, default=4)
        return tuple((layer + 1) % interval != 0 for layer in range(layers))
    return (True,) * layers


def sparse_layers(config: Config, experts: ExpertStyle | None, layers: int) -> tuple[bool, ...]:
    """Return which layers hold experts."""
    if experts is None or experts.sparse is None:
        return (experts is not None,) * layers
    return experts.sparse(config, layers)
