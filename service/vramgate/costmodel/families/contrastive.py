"""CLIP and SigLIP: a vision and a text tower that are only compared.

Source: Radford et al. 2021, Zhai et al. 2023 and the modeling files in transformers 5.24.
"""

from vramgate.costmodel.architecture import (
    Block,
    ModelArchitecture,
    ModelClass,
    Module,
    NormKind,
    Part,
    Stack,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import MAX_POSITIONS, Config, shown
from vramgate.costmodel.families.heads import class_name
from vramgate.costmodel.families.multimodal import nested
from vramgate.costmodel.families.parts import (
    embedding,
    hidden_size,
    layer_count,
    norm,
    parameter,
    stack,
    vocabulary,
)
from vramgate.costmodel.families.towers import (
    Tower,
    clip_block,
    clip_tower,
    siglip_tower,
)


def clip(config: Config) -> ModelArchitecture:
    """Return CLIP: two towers, compared after a projection each.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    text = nested(config, "text_config", "clip_text_model")
    tower = clip_tower(nested(config, "vision_config", "clip_vision_model"), "vision_model.")
    width = config.whole("projection_dim", default=512)
    hidden = hidden_size(text)
    part = Part.OTHER
    outside = (
        parameter("logit_scale", part, "logit_scale", 1),
        linear("visual_projection", part, "projector", tower.width, width),
        linear("text_projection", part, "projector", hidden, width),
    )
    return _two_towers(config, text, tower, outside, clip_block(text, causal=True))


def siglip(config: Config) -> ModelArchitecture:
    """Return SigLIP: two towers, compared as they are.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    text = nested(config, "text_config", "siglip_text_model")
    tower = siglip_tower(nested(config, "vision_config", "siglip_vision_model"), "vision_model.")
    hidden, part = hidden_size(text), Part.OTHER
    width = text.whole("projection_size", default=hidden)
    # SiglipTextConfig takes the hidden size where the file names none.
    width = width if text.has("projection_size") else hidden
    outside = (
        parameter("logit_scale", part, "logit_scale", 1),
        parameter("logit_bias", part, "logit_scale", 1),
        linear("text_model.head", part, "projector", hidden, width, bias=True),
    )
    return _two_towers(config, text, tower, outside, clip_block(text))


def _two_towers(
    config: Config, text: Config, tower: Tower, outside: tuple[Module, ...], block: Block
) -> ModelArchitecture:
    """Return a model of two towers; the text's is the last stack."""
    name = class_name(config)
    if name and not name.endswith("Model"):
        config.refuse("architectures", f"the head of {shown(name)} is not known")
    hidden, rows = hidden_size(text), vocabulary(text)
    positions = text.whole("max_position_embeddings", at_most=MAX_POSITIONS)
    at = "text_model."
    layers: Stack = stack(
        "text", f"{at}encoder.layers", hidden, (0,) * layer_count(text), lambda _: block
    )
    tables = f"{at}embeddings."
    role = "position_embedding"
    own = (
        embedding(f"{tables}token_embedding", rows, hidden),
        embedding(f"{tables}position_embedding", positions, hidden, role=role),
        norm(f"{at}final_layer_norm", "final_norm", hidden, bias=True),
    )
    family = config.word("model_type", default="clip")
    return finished(
        config,
        ModelArchitecture(
            model_type=family,
            model_class=ModelClass.OTHER,
            hidden_size=hidden,
            vocab_size=rows,
            tie_word_embeddings=False,
            stacks=(*tower.stacks, layers),
            outside=(*tower.outside, *outside, *own),
            final_norm=NormKind.LAYER,
            max_position_embeddings=positions,
            image_tokens=tower.tokens,
            # int64 position ids of both towers.
            buffer_elements=2 * (positions + (tower.tokens or 0)),
            family="clip",
        ),
    )
