"""Vision transformers: ViT and DINOv2 as models, and the towers of multimodal ones (``towers.py``).

Source: the modeling files in transformers 5.24; ``former_path`` is the name in version 4.
"""

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    FeedForward,
    ModelArchitecture,
    ModelClass,
    Module,
    NormKind,
    Part,
    Position,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_SMALL,
    Config,
    Rate,
    Switch,
)
from vramgate.costmodel.families.encoder_heads import head_linear
from vramgate.costmodel.families.heads import class_name, label_count
from vramgate.costmodel.families.parts import (
    convolution,
    head_count,
    hidden_size,
    layer_count,
    norm,
    parameter,
    stack,
)

_DROPOUT = Rate(("hidden_dropout_prob",))
_ATTENTION_DROPOUT = Rate(("attention_probs_dropout_prob",))
_PROJECTIONS = (
    ("query", "attention.q_proj", "attention.attention.query"),
    ("key", "attention.k_proj", "attention.attention.key"),
    ("value", "attention.v_proj", "attention.attention.value"),
    ("attention_output", "attention.o_proj", "attention.output.dense"),
)


def patches_per_image(config: Config) -> int:
    """Return the patches of a square image.

    Raises:
        InvalidModelConfigError: a size is missing, or the patch is larger than the image.
    """
    image = config.whole("image_size", at_most=MAX_SMALL)
    patch = config.whole("patch_size", at_most=MAX_SMALL)
    if patch > image:
        detail = f"patch_size {patch} is larger than image_size {image}"
        config.refuse("patch_size", detail, code="contradiction")
    return (image // patch) ** 2


def patch_convolution(
    config: Config, path: str, hidden: int, *, bias: bool = True, frames: int = 1
) -> Module:
    """Return the convolution that makes patches into vectors."""
    patch = config.whole("patch_size", at_most=MAX_SMALL)
    channels = config.whole("num_channels", "in_channels", "in_chans", at_most=MAX_SMALL, default=3)
    return convolution(
        path,
        "patch_embedding",
        (channels, hidden),
        patch * patch * frames,
        bias=bias,
        part=Part.EMBEDDING,
    )


def image_attention(heads: int, head_dim: int, *, dropout: float = 0.0) -> Attention:
    """Return full attention over patches with learned positions."""
    return Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        value_head_dim=head_dim,
        position=Position.LEARNED,
        dropout=dropout,
        causal=False,
    )


def _projections(config: Config, hidden: int) -> tuple[Module, ...]:
    """Return query, key, value and output; ``qkv_bias`` leaves the output's bias alone."""
    bias = config.flag(Switch("qkv_bias", default=True))
    return tuple(
        Module(
            path=path,
            former_path=former,
            part=Part.ATTENTION,
            kind=linear(path, Part.ATTENTION, role, 1, 1).kind,
            role=role,
            in_features=hidden,
            out_features=hidden,
            weight=hidden * hidden,
            bias=hidden if bias or role == "attention_output" else 0,
        )
        for role, path, former in _PROJECTIONS
    )
