"""Wav2Vec 2.0 and HuBERT: convolutions over the waveform, then a BERT-type encoder.

Source: Baevski et al. 2020 and the modeling files in transformers 5.24.
"""

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    BlockLayout,
    FeedForward,
    ModelArchitecture,
    ModelClass,
    Module,
    ModuleKind,
    NormKind,
    Part,
    Position,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_SMALL,
    MAX_WIDTH,
    Config,
    Rate,
    Switch,
    shown,
)
from vramgate.costmodel.families.encoder_heads import head_linear
from vramgate.costmodel.families.feed_forward import feed_forward_modules
from vramgate.costmodel.families.heads import class_name
from vramgate.costmodel.families.parts import (
    convolution,
    head_count,
    hidden_size,
    layer_count,
    norm,
    parameter,
    stack,
    vocabulary,
)

_PROJECTIONS = (
    ("q_proj", "query"),
    ("k_proj", "key"),
    ("v_proj", "value"),
    ("out_proj", "attention_output"),
)
_APPROXIMATE = ("The activations of the convolutions over the waveform are not counted.",)


def build_wav2vec2(config: Config) -> ModelArchitecture:
    """Return Wav2Vec 2.0 or HuBERT, bare or with a CTC head.

    Raises:
        InvalidModelConfigError: a key is missing or malformed, or the class has another head.
    """
    hidden = hidden_size(config)
    name = class_name(config)
    family = config.word("model_type", default="wav2vec2")
    bare = name.endswith("Model") or not name
    root = "" if bare else f"{family}."
    if not bare and not name.endswith("ForCTC"):
        config.refuse("architectures", f"the head of {shown(name)} is not known")
    rows = vocabulary(config) if not bare else config.whole("vocab_size", default=32)
    head = () if bare else (head_linear("lm_head", hidden, rows),)
    block = _block(config, hidden)
    path = f"{root}encoder.layers"
    layers = stack("audio", path, hidden, (0,) * layer_count(config), lambda _: block)
    return finished(
        config,
        ModelArchitecture(
            model_type=family,
            model_class=ModelClass.OTHER,
            hidden_size=hidden,
            vocab_size=rows,
            tie_word_embeddings=False,
            stacks=(layers,),
            outside=(*_outside(config, root, hidden), *head),
            final_norm=NormKind.LAYER,
            embedding_dropout=config.fraction(Rate(("hidden_dropout",), 0.1)),
            family="wav2vec2",
            approximate=_APPROXIMATE,
        ),
    )


def _outside(config: Config, root: str, hidden: int) -> tuple[Module, ...]:
    """Return feature extractor, projection, position convolution and norm."""
    features = _feature_extractor(config, f"{root}feature_extractor.conv_layers.")
    last = next(m.out_features for m in features[::-1] if m.role == "patch_embedding")
    modules = [
        *features,
        linear(
            f"{root}feature_projection.projection", Part.OTHER, "projector", last, hidden, bias=True
        ),
        *_position_convolution(config, f"{root}encoder.pos_conv_embed.conv", hidden),
        norm(f"{root}encoder.layer_norm", "final_norm", hidden, bias=True),
    ]
    if config.flag(Switch("feat_proj_layer_norm", default=True)):
        path = f"{root}feature_projection.layer_norm"
        modules.append(norm(path, "embedding_norm", last, bias=True))
    if config.sets("mask_time_prob") or not config.has("mask_time_prob"):
        path = f"{root}masked_spec_embed"
        modules.append(parameter(path, Part.EMBEDDING, "mask_token", hidden))
    return tuple(modules)


def _feature_extractor(config: Config, at: str) -> tuple[Module, ...]:
    """Return the strided convolutions; the first is group-normed, or each is layer-normed."""
    channels = config.wholes("conv_dim", at_most=MAX_WIDTH, at_least=1)
    kernels = config.wholes("conv_kernel", at_most=MAX_SMALL, at_least=1)
    if not channels or not kernels:
        config.require("conv_dim" if not channels else "conv_kernel")
    if len(channels) != len(kernels):
        detail = f"{len(kernels)} kernels for {len(channels)} convolutions"
        config.refuse("conv_kernel", detail, code="contradiction")
    bias = config.flag(Switch("conv_bias", default=False))
    every = config.word("feat_extract_norm", default="group") == "layer"
    modules = []
    before = 1
    for index, (width, kernel) in enumerate(zip(channels, kernels, strict=True)):
        path = f"{at}{index}.conv"
        modules.append(convolution(path, "patch_embedding", (before, width), kernel, bias=bias))
        if every or index == 0:
            modules.append(norm(f"{at}{index}.layer_norm", "embedding_norm", width, bias=True))
        before = width
    return tuple(modules)


def _position_convolution(config: Config, path: str, hidden: int) -> tuple[Module, ...]:
    """Return the grouped convolution that stands for positions, weight-normalised."""
    kernel = config.whole("num_conv_pos_embeddings", at_most=MAX_SMALL, default=128)
    groups = config.whole("num_conv_pos_embedding_groups", at_most=MAX_SMALL, default=16)
    if hidden % groups:
        detail = f"{groups} groups do not divide hidden_size {hidden}"
        config.refuse("num_conv_pos_embedding_groups", detail, code="contradiction")
    inner = f"{path}.parametrizations.weight.original"
    part, role = Part.EMBEDDING, "position_embedding"
    return (
        Module(path=path, part=part, kind=ModuleKind.CONVOLUTION, role=role, bias=hidden),
        parameter(f"{inner}0", part, role, kernel),
        parameter(f"{inner}1", part, role, hidden * hidden // groups * kernel),
    )


def _block(config: Config, hidden: int) -> Block:
    """Return the encoder's block, post-norm or (``do_stable_layer_norm``) pre-norm."""
    heads, head_dim = head_count(config, hidden)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    before = config.flag(Switch("do_stable_layer_norm", default=False))
    return Block(
        name="attention",
        modules=_block_modules(hidden, size, before=before),
        attention=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            value_head_dim=head_dim,
            position=Position.LEARNED,
            dropout=config.fraction(Rate(("attention_dropout",), 0.1)),
            causal=False,
        ),
        feed_forward=FeedForward(
            intermediate_size=size,
            gated=False,
            activation=config.word("hidden_act", default="gelu"),
            dropout=config.fraction(Rate(("activation_dropout",), 0.1)),
        ),
        norm=NormKind.LAYER,
        layout=BlockLayout.PRE_NORM if before else BlockLayout.POST_NORM,
        residual_dropout=config.fraction(Rate(("hidden_dropout",), 0.1)),
    )


def _block_modules(hidden: int, size: int, *, before: bool) -> tuple[Module, ...]:
    """Return the block's modules; the norms stand before or after their halves."""
    first, second = (
        ("input_norm", "pre_feed_forward_norm")
        if before
        else ("post_attention_norm", "post_feed_forward_norm")
    )
    names = ("intermediate_dense", "output_dense")
    return (
        *(
            linear(f"attention.{path}", Part.ATTENTION, role, hidden, hidden, bias=True)
            for path, role in _PROJECTIONS
        ),
        norm("layer_norm", first, hidden, bias=True),
        *feed_forward_modules(
            "feed_forward.", names, hidden, size, gated=False, biases=(True, True)
        ),
        norm("final_layer_norm", second, hidden, bias=True),
    )
