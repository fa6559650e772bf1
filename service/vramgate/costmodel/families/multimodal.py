"""Models that see: a vision tower, a projector and a text model.

The tower stands before the text model in ``stacks``. Paths are those of transformers 5.24.
Source: the modeling files there.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    ModelArchitecture,
    Module,
    Part,
    linear,
)
from vramgate.costmodel.families.assembly import finished
from vramgate.costmodel.families.config import (
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_SMALL,
    Config,
    Switch,
    shown,
)
from vramgate.costmodel.families.decoders import build_text
from vramgate.costmodel.families.defaults import NESTED_DEFAULTS
from vramgate.costmodel.families.gemma4_vision import gemma4_tower
from vramgate.costmodel.families.heads import class_name
from vramgate.costmodel.families.mllama import mllama_tower
from vramgate.costmodel.families.parts import (
    norm,
    parameter,
)
from vramgate.costmodel.families.towers import (
    TOWERS,
    Tower,
    llama4_tower,
)

_TEXT_ROOT = "model.language_model."


_NOT_COUNTED = "The {} of this model is not counted."


def nested(config: Config, name: str, default_type: str) -> Config:
    """Return a nested config with the defaults of its class, which the file leaves out.

    Raises:
        InvalidModelConfigError: it is missing or not an object.
    """
    section = config.section(name)
    if section is None:
        config.require(name)
    model_type = section.word("model_type", default=default_type)
    return section.with_defaults(NESTED_DEFAULTS.get(model_type, NESTED_DEFAULTS[default_type]))


def text_model(
    config: Config, default_type: str, *, root: str = _TEXT_ROOT, head: str = ""
) -> ModelArchitecture:
    """Return the text model, from ``text_config`` or the config itself, at its place.

    ``tie_word_embeddings`` of the whole counts before that of the text model.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    flat = config.section("text_config") is None
    text = config if flat else nested(config, "text_config", default_type)
    model_type = default_type if flat else text.word("model_type", default=default_type)
    tied = config.get("tie_word_embeddings")[1]
    text = text.replaced(
        model_type=model_type, architectures=_text_class(config), vision_config=None
    )
    if tied is not None:
        text = text.replaced(tie_word_embeddings=tied)
    if config.has("num_labels") or config.has("id2label"):
        labels = {key: config.get(key)[1] for key in ("num_labels", "id2label")}
        text = text.replaced(**labels)
    model = build_text(text)
    stacks = tuple(replace(s, path=_moved(s.path, root, head)) for s in model.stacks)
    outside = tuple(replace(m, path=_moved(m.path, root, head)) for m in model.outside)
    return replace(model, stacks=stacks, outside=outside)


def text_alone(config: Config, name: str, section: Config) -> ModelArchitecture:
    """Return the text model of an unknown multimodal model, and say that the rest is not counted.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    model_type = section.word("model_type", default="")
    text = build_text(section.with_defaults(NESTED_DEFAULTS.get(model_type, {})))
    whole = config.word("model_type", default="")
    sentence = (
        f"model_type {shown(whole)} is not a known family: only its {name} is counted; "
        "towers and projectors are missing."
    )
    return replace(
        text, model_type=whole, family="generic", approximate=(sentence, *text.approximate)
    )


def _text_class(config: Config) -> list[str] | None:
    """Return the class whose head the text model has: the whole's, where it is no language model."""
    name = class_name(config)
    generates = not name or name.endswith(("ForConditionalGeneration", "ForCausalLM"))
    return None if generates else [name]


def _moved(path: str, root: str, head: str) -> str:
    """Return a path of a text model that stands at ``root`` inside another model."""
    if path.startswith("model."):
        return root + path.removeprefix("model.")
    return head + path


def combined(
    config: Config, text: ModelArchitecture, tower: Tower, projector: tuple[Module, ...]
) -> ModelArchitecture:
    """Return the whole model: the tower's stacks first, the text model's last.

    Raises:
        InvalidModelConfigError: it has more parameters than any model.
    """
    tokens = config.maybe_whole("mm_tokens_per_image", "image_seq_length", at_most=MAX_POSITIONS)
    model = replace(
        text,
        model_type=config.word("model_type", default=text.model_type),
        stacks=(*tower.stacks, *text.stacks),
        outside=(*tower.outside, *projector, *text.outside),
        image_tokens=tokens or tower.tokens,
    )
    return finished(config, model)


def vision_tower(config: Config, root: str, default_type: str) -> Tower:
    """Return the tower of ``vision_config``, by its own ``model_type``.

    Raises:
        InvalidModelConfigError: a key is missing or malformed, or the tower is of an unknown type.
    """
    vision = nested(config, "vision_config", default_type)
    model_type = vision.word("model_type", default=default_type)
    if model_type not in TOWERS:
        known = ", ".join(TOWERS)
        vision.refuse(
            "model_type", f"{shown(model_type)} is no known tower", hint=f"Known: {known}."
        )
    return TOWERS[model_type](vision, root)


def feature_layers(config: Config) -> int:
    """Return how many of the tower's layers the projector reads, side by side."""
    _, value = config.get("vision_feature_layer")
    if not isinstance(value, (list, tuple)):
        return 1
    if not 0 < len(value) <= MAX_LAYERS:
        config.refuse("vision_feature_layer", "it names no layer, or too many")
    return len(value)


def two_layer_projector(
    config: Config, at: str, width: int, hidden: int, bias: Switch
) -> tuple[Module, ...]:
    """Return linear_1 and linear_2 from the tower's width to the text's."""
    biased = config.flag(bias)
    part, role = Part.OTHER, "projector"
    return (
        linear(f"{at}linear_1", part, role, width * feature_layers(config), hidden, bias=biased),
        linear(f"{at}linear_2", part, role, hidden, hidden, bias=biased),
    )


_PROJECTOR = "model.multi_modal_projector."


def llava(config: Config) -> ModelArchitecture:
    """Return LLaVA 1.5.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    text = text_model(config, "llama")
    tower = vision_tower(config, "model.vision_tower.", "clip_vision_model")
    bias = Switch("multimodal_projector_bias", default=True)
    projector = two_layer_projector(config, _PROJECTOR, tower.width, text.hidden_size, bias)
    return combined(config, text, tower, projector)


def llava_next(config: Config) -> ModelArchitecture:
    """Return LLaVA-NeXT and LLaVA-OneVision: LLaVA with an embedding for the end of a row.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    model = llava(config)
    newline = parameter(
        "model.image_newline", Part.EMBEDDING, "newline_embedding", model.hidden_size
    )
    return finished(config, replace(model, outside=(newline, *model.outside)))


def mistral3(config: Config) -> ModelArchitecture:
    """Return Mistral Small 3.1 and later, Ministral 3: Pixtral's tower, patches merged.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    text = text_model(config, "mistral")
    tower = vision_tower(config, "model.vision_tower.", "pixtral")
    width, part = tower.width, Part.OTHER
    merge = config.whole("spatial_merge_size", at_most=MAX_SMALL, default=2)
    bias = Switch("multimodal_projector_bias", default=False)
    merger = f"{_PROJECTOR}patch_merger.merging_layer"
    projector = (
        norm(f"{_PROJECTOR}norm", "projector_norm", width),
        linear(merger, part, "projector", width * merge * merge, width),
        *two_layer_projector(config, _PROJECTOR, width, text.hidden_size, bias),
    )
    return combined(config, text, tower, projector)


def gemma3(config: Config) -> ModelArchitecture:
    """Return Gemma 3 with its SigLIP tower.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    text = text_model(config, "gemma3_text")
    tower = vision_tower(config, "model.vision_tower.", "siglip_vision_model")
    size = tower.width * text.hidden_size
    weight = f"{_PROJECTOR}mm_input_projection_weight"
    projector = (
        parameter(weight, Part.OTHER, "projector", size),
        norm(f"{_PROJECTOR}mm_soft_emb_norm", "projector_norm", tower.width),
    )
    return combined(config, text, tower, projector)


def gemma4(config: Config) -> ModelArchitecture:
    """Return Gemma 4 with its vision tower; an audio tower is not counted, which is said.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    model = text_model(config, "gemma4_text")
    if config.section("vision_config") is not None:
        vision = nested(config, "vision_config", "gemma4_vision")
        tower = gemma4_tower(vision, "model.vision_tower.")
        path = "model.embed_vision.embedding_projection"
        projector = (linear(path, Part.OTHER, "projector", tower.width, model.hidden_size),)
        model = combined(config, model, tower, projector)
    if config.section("audio_config") is None:
        return model
    return replace(model, approximate=(*model.approximate, _NOT_COUNTED.format("audio tower")))


def paligemma(config: Config) -> ModelArchitecture:
    """Return PaliGemma: SigLIP and Gemma.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    text = text_model(config, "gemma")
    tower = vision_tower(config, "model.vision_tower.", "siglip_vision_model")
    vision = nested(config, "vision_config", "siglip_vision_model")
    width = vision.whole("projection_dim", default=text.hidden_size)
    path = f"{_PROJECTOR}linear"
    projector = (linear(path, Part.OTHER, "projector", tower.width, width, bias=True),)
    return combined(config, text, tower, projector)


def idefics3(config: Config) -> ModelArchitecture:
    """Return Idefics 3 and SmolVLM: SigLIP, pixels shuffled, one projection.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    text = text_model(config, "llama", root="model.text_model.")
    tower = vision_tower(config, "model.vision_model.", "idefics3_vision")
    scale = config.whole("scale_factor", at_most=MAX_SMALL, default=2)
    path = "model.connector.modality_projection.proj"
    width = tower.width * scale * scale
    projector = (linear(path, Part.OTHER, "projector", width, text.hidden_size),)
    return combined(config, text, tower, projector)


def llama4(config: Config) -> ModelArchitecture:
    """Return Llama 4 with its tower.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    # The head stands inside the text model, where nothing ties it to the embedding.
    config = config.replaced(tie_word_embeddings=False)
    text = text_model(config, "llama4_text", root="language_model.model.", head="language_model.")
    vision = nested(config, "vision_config", "llama4_vision_model")
    tower = llama4_tower(vision, "vision_model.")
    path = "multi_modal_projector.linear_1"
    projector = (linear(path, Part.OTHER, "projector", tower.width, text.hidden_size),)
    return combined(config, text, tower, projector)


def mllama(config: Config) -> ModelArchitecture:
    """Return Llama 3.2 Vision.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    text = text_model(config, "mllama_text_model")
    vision = nested(config, "vision_config", "mllama_vision_model")
    tower = mllama_tower(vision, "model.vision_model.")
    path = "model.multi_modal_projector"
    projector = (linear(path, Part.OTHER, "projector", tower.width, text.hidden_size, bias=True),)
    return combined(config, text, tower, projector)
