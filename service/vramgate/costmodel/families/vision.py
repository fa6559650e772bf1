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
    Stack,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_SMALL,
    Config,
    Rate,
    Switch,
    shown,
)
from vramgate.costmodel.families.encoder_heads import head_linear
from vramgate.costmodel.families.feed_forward import feed_forward_modules
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


def build_vit(config: Config) -> ModelArchitecture:
    """Return a vision transformer with the head of its class (none named: an image classifier).

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    name = class_name(config)
    bare = name.endswith("Model")
    root = "" if bare else "vit."
    block = vit_block(config, hidden)
    tokens = patches_per_image(config) + 1
    at = f"{root}embeddings."
    outside = (
        parameter(f"{at}cls_token", Part.EMBEDDING, "class_token", hidden),
        parameter(
            f"{at}position_embeddings", Part.EMBEDDING, "position_embedding", tokens * hidden
        ),
        patch_convolution(config, f"{at}patch_embeddings.projection", hidden),
        norm(f"{root}layernorm", "final_norm", hidden, bias=True),
        *_vit_head(config, name, hidden),
    )
    path = f"{root}layers"
    layers = stack("vision", path, hidden, (0,) * layer_count(config), lambda _: block)
    return _image_model(config, "vit", hidden, tokens, (layers, outside))


def _vit_head(config: Config, name: str, hidden: int) -> tuple[Module, ...]:
    """Return ViT's head of a class."""
    if name.endswith("Model"):
        size = config.whole("pooler_output_size", default=hidden)
        return (head_linear("pooler.dense", hidden, size, role="pooler"),)
    if name and not name.endswith("ForImageClassification"):
        config.refuse("architectures", f"the head of {shown(name)} is not known")
    return (head_linear("classifier", hidden, label_count(config)),)


def _image_model(
    config: Config,
    family: str,
    hidden: int,
    tokens: int,
    parts: tuple[Stack, tuple[Module, ...]],
) -> ModelArchitecture:
    """Return an image model from its stack and what stands outside it."""
    layers, outside = parts
    classifier = any(module.role == "head" for module in outside)
    return finished(
        config,
        ModelArchitecture(
            model_type=config.word("model_type", default=family),
            model_class=ModelClass.IMAGE_CLASSIFIER if classifier else ModelClass.OTHER,
            hidden_size=hidden,
            vocab_size=0,
            tie_word_embeddings=False,
            stacks=(layers,),
            outside=outside,
            final_norm=NormKind.LAYER,
            embedding_dropout=config.fraction(_DROPOUT),
            image_tokens=tokens,
            max_position_embeddings=tokens,
            family=family,
        ),
    )


def vit_block(config: Config, hidden: int) -> Block:
    """Return ViT's block.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    heads, head_dim = head_count(config, hidden)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    part = Part.MLP
    modules = (
        *_projections(config, hidden),
        norm("layernorm_before", "input_norm", hidden, bias=True),
        norm("layernorm_after", "pre_feed_forward_norm", hidden, bias=True),
        linear("mlp.fc1", part, "up", hidden, size, bias=True, former_path="intermediate.dense"),
        linear("mlp.fc2", part, "down", size, hidden, bias=True, former_path="output.dense"),
    )
    dropout = config.fraction(_ATTENTION_DROPOUT)
    shape = FeedForward(
        intermediate_size=size,
        gated=False,
        activation=config.word("hidden_act", default="gelu"),
    )
    return Block(
        name="attention",
        modules=modules,
        attention=image_attention(heads, head_dim, dropout=dropout),
        feed_forward=shape,
        norm=NormKind.LAYER,
        residual_dropout=config.fraction(_DROPOUT),
    )


def _projections(config: Config, hidden: int) -> tuple[Module, ...]:
    """Return query, key, value and output; ``qkv_bias`` leaves the output's bias alone."""
    bias = config.flag(Switch("qkv_bias", default=True))
    return tuple(
        linear(
            path,
            Part.ATTENTION,
            role,
            hidden,
            hidden,
            bias=bias or role == "attention_output",
            former_path=former,
        )
        for role, path, former in _PROJECTIONS
    )


def build_dinov2(config: Config) -> ModelArchitecture:
    """Return DINOv2 with the head of its class (none named: the bare encoder).

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    classifier = class_name(config).endswith("ForImageClassification")
    root = "dinov2." if classifier else ""
    tokens = patches_per_image(config) + 1
    at = f"{root}embeddings."
    mask = config.flag(Switch("use_mask_token", default=True))
    outside = [
        parameter(f"{at}cls_token", Part.EMBEDDING, "class_token", hidden),
        parameter(
            f"{at}position_embeddings", Part.EMBEDDING, "position_embedding", tokens * hidden
        ),
        patch_convolution(config, f"{at}patch_embeddings.projection", hidden),
        norm(f"{root}layernorm", "final_norm", hidden, bias=True),
    ]
    if mask:
        outside.append(parameter(f"{at}mask_token", Part.EMBEDDING, "mask_token", hidden))
    if classifier:
        outside.append(head_linear("classifier", 2 * hidden, label_count(config)))
    block = dinov2_block(config, hidden)
    path = f"{root}encoder.layer"
    layers = stack("vision", path, hidden, (0,) * layer_count(config), lambda _: block)
    return _image_model(config, "dinov2", hidden, tokens, (layers, tuple(outside)))


def dinov2_block(config: Config, hidden: int) -> Block:
    """Return DINOv2's block: ViT's with a learned scale after each half, SwiGLU in the giant model.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    heads, head_dim = head_count(config, hidden)
    gated = config.flag(Switch("use_swiglu_ffn", default=False))
    size = hidden * config.whole("mlp_ratio", at_most=MAX_SMALL, default=4)
    if gated:
        # Two thirds of the width, rounded up to a multiple of 8 (Dinov2SwiGLUFFN).
        size = (size * 2 // 3 + 7) // 8 * 8
    names = ("gate_proj", "up_proj", "down_proj") if gated else ("fc1", "fc2")
    modules = (
        norm("norm1", "input_norm", hidden, bias=True),
        *_projections(config, hidden),
        parameter("layer_scale1.lambda1", Part.OTHER, "layer_scale", hidden),
        norm("norm2", "pre_feed_forward_norm", hidden, bias=True),
        *feed_forward_modules("mlp.", names, hidden, size, gated=gated, biases=(True, True)),
        parameter("layer_scale2.lambda1", Part.OTHER, "layer_scale", hidden),
    )
    shape = FeedForward(
        intermediate_size=size,
        gated=gated,
        activation="silu" if gated else config.word("hidden_act", default="gelu"),
    )
    dropout = config.fraction(_ATTENTION_DROPOUT)
    return Block(
        name="attention",
        modules=modules,
        attention=image_attention(heads, head_dim, dropout=dropout),
        feed_forward=shape,
        norm=NormKind.LAYER,
        residual_dropout=config.fraction(_DROPOUT),
    )
