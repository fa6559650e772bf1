"""State-space mixers, Mamba 1 and 2, and the models made of nothing else.

Source: Gu and Dao 2023 (Mamba), Dao and Gu 2024 (Mamba 2), and the modeling files in transformers
5.24.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    AttentionKind,
    Block,
    ModelArchitecture,
    Part,
    Position,
    linear,
)
from vramgate.costmodel.families.attention import Mixer
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_INTERMEDIATE,
    MAX_SMALL,
    Config,
    Switch,
    Trait,
)
from vramgate.costmodel.families.decoder import decoder_around, read_sizes
from vramgate.costmodel.families.parts import convolution, norm, parameter, stack
from vramgate.costmodel.families.style import DecoderStyle

APPROXIMATE = (
    "The activations of state-space mixers are approximated: they depend on the scan's kernel.",
)


USE_BIAS = Switch("use_bias", default=False)
USE_CONVOLUTION_BIAS = Switch("use_conv_bias", default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaNames:
    """The keys a family gives the sizes of its mixers, and its own traits."""

    path: str = "mixer."
    inner: tuple[str, ...] = ("intermediate_size", "d_inner")
    """Keys of the inner width; absent: ``expand`` times the hidden size."""
    expand: str = "expand"
    state: str = "state_size"
    state_default: int = 16
    kernel: str = "conv_kernel"
    rank: str = "time_step_rank"
    heads: str = "num_heads"
    heads_default: int = 128
    groups: str = "n_groups"
    groups_default: int = 8
    bias: Switch = USE_BIAS
    output_bias: Switch | None = None
    """None: as ``bias``."""
    convolution_bias: Switch = USE_CONVOLUTION_BIAS
    step_norms: bool = False
    """Norms of time step, B and C are weights (Jamba)."""
    gated_norm: Trait = True


MAMBA = MambaNames()
MAMBA2 = replace(MAMBA, inner=("d_inner",), state_default=128)


class MambaSizes(NamedTuple):
    """The widths of a state-space mixer."""

    hidden: int
    inner: int
    state: int
    kernel: int


def mamba_sizes(config: Config, names: MambaNames, hidden: int) -> MambaSizes:
    """Return the widths.

    Raises:
        InvalidModelConfigError: one is malformed or out of bounds.
    """
    expand = config.whole(names.expand, at_most=MAX_SMALL, default=2)
    default = expand * hidden
    inner = (
        config.whole(*names.inner, at_most=MAX_INTERMEDIATE, default=default)
        if names.inner
        else default
    )
    return MambaSizes(
        hidden,
        inner,
        config.whole(names.state, at_most=MAX_SMALL, default=names.state_default),
        config.whole(names.kernel, at_most=MAX_SMALL, default=4),
    )


def state_space_shape(sizes: MambaSizes, heads: int) -> Attention:
    """Return the shape of a state-space mixer as what stands in the attention's place."""
    return Attention(
        kind=AttentionKind.STATE_SPACE,
        heads=heads,
        kv_heads=heads,
        head_dim=sizes.inner // heads,
        value_head_dim=sizes.inner // heads,
        position=Position.NONE,
        inner_size=sizes.inner,
        state_size=sizes.state,
    )


def mamba1_mixer(config: Config, names: MambaNames, hidden: int) -> Mixer:
    """Return Mamba 1's selective scan: every channel has a state and a step of its own.

    Raises:
        InvalidModelConfigError: a size is malformed or out of bounds.
    """
    sizes = mamba_sizes(config, names, hidden)
    inner, state, part, at = sizes.inner, sizes.state, Part.ATTENTION, names.path
    rank = _step_rank(config, names.rank, hidden)
    bias = config.flag(names.bias)
    modules = [
        linear(f"{at}in_proj", part, "mixer_in", hidden, 2 * inner, bias=bias),
        convolution(
            f"{at}conv1d",
            "mixer_conv",
            (1, inner),
            sizes.kernel,
            bias=config.flag(names.convolution_bias),
            part=part,
        ),
        linear(f"{at}x_proj", part, "mixer_x", inner, rank + 2 * state),
        linear(f"{at}dt_proj", part, "mixer_dt", rank, inner, bias=True),
        linear(f"{at}out_proj", part, "mixer_out", inner, hidden, bias=bias),
        parameter(f"{at}A_log", part, "mixer_parameter", inner * state),
        parameter(f"{at}D", part, "mixer_parameter", inner),
    ]
    if names.step_norms:
        widths = {"dt": rank, "b": state, "c": state}
        modules += (norm(f"{at}{n}_layernorm", "mixer_norm", w) for n, w in widths.items())
    return Mixer(state_space_shape(sizes, 1), tuple(modules))


def _step_rank(config: Config, key: str, hidden: int) -> int:
    """Return the rank of the time step's projection; "auto" is a sixteenth of the hidden size."""
    _, value = config.get(key)
    if value is None or value == "auto":
        return -(-hidden // 16)
    return config.whole(key)


def mamba2_mixer(config: Config, names: MambaNames, hidden: int) -> Mixer:
    """Return Mamba 2's scan: a state and a step for each head, keys and queries shared by groups.

    Raises:
        InvalidModelConfigError: a size is malformed, or the heads do not divide the inner width.
    """
    sizes = mamba_sizes(config, names, hidden)
    heads = config.whole(names.heads, at_most=MAX_HEADS, default=names.heads_default)
    groups = config.whole(names.groups, at_most=MAX_HEADS, default=names.groups_default)
    if sizes.inner % heads:
        detail = f"{heads} heads do not divide the inner width {sizes.inner}"
        config.refuse(names.heads, detail, code="contradiction")
    inner, part, at = sizes.inner, Part.ATTENTION, names.path
    channels = inner + 2 * groups * sizes.state
    bias = config.flag(names.bias)
    output = names.output_bias
    modules = [
        linear(f"{at}in_proj", part, "mixer_in", hidden, inner + channels + heads, bias=bias),
        convolution(
            f"{at}conv1d",
            "mixer_conv",
            (1, channels),
            sizes.kernel,
            bias=config.flag(names.convolution_bias),
            part=part,
        ),
        linear(
            f"{at}out_proj",
            part,
            "mixer_out",
            inner,
            hidden,
            bias=bias if output is None else config.flag(output),
        ),
        *(parameter(at + n, part, "mixer_parameter", heads) for n in ("dt_bias", "A_log", "D")),
    ]
    if config.flag(names.gated_norm):
        modules.append(norm(f"{at}norm", "mixer_norm", inner))
    return Mixer(state_space_shape(sizes, heads), tuple(modules))


_MAMBA_STYLE = DecoderStyle(
    family="mamba",
    root="backbone.",
    embedding="embeddings",
    final_norm="norm_f",
    tied=True,
    approximate=APPROXIMATE,
)


def build_mamba(config: Config) -> ModelArchitecture:
    """Return Mamba or Falcon-Mamba.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = read_sizes(config).hidden
    return _scans_only(config, _MAMBA_STYLE, mamba1_mixer(config, MAMBA, hidden))


def build_mamba2(config: Config) -> ModelArchitecture:
    """Return Mamba 2.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = read_sizes(config).hidden
    style = replace(_MAMBA_STYLE, family="mamba2", tied=False)
    return _scans_only(config, style, mamba2_mixer(config, MAMBA2, hidden))


def _scans_only(config: Config, style: DecoderStyle, mixer: Mixer) -> ModelArchitecture:
    """Return the model whose layers are a norm and a mixer."""
    sizes = read_sizes(config)
    block = Block(
        name="mamba",
        modules=(*mixer.modules, norm("norm", "input_norm", sizes.hidden)),
        attention=mixer.shape,
    )
    path = style.root + style.layers
    layers = stack("decoder", path, sizes.hidden, (0,) * sizes.layers, lambda _: block)
    return decoder_around(config, style, sizes, layers)
