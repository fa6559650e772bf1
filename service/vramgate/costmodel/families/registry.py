"""Which builder makes which ``model_type`` that is no decoder alone."""

from collections.abc import Mapping

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.families import (
    albert,
    audio,
    contrastive,
    deberta,
    encoder,
    encoder_decoder,
    modernbert,
    multimodal,
    qwen_multimodal,
    t5,
    vision,
)
from vramgate.costmodel.families.config import Config
from vramgate.costmodel.families.decoders import DECODERS, Builder, build_text
from vramgate.costmodel.families.heads import class_name

BUILDERS: Mapping[str, Builder] = {
    "bert": lambda c: encoder.build_encoder(c, encoder.BERT),
    "roberta": lambda c: encoder.build_encoder(c, encoder.ROBERTA),
    "xlm-roberta": lambda c: encoder.build_encoder(c, encoder.ROBERTA),
    "camembert": lambda c: encoder.build_encoder(c, encoder.ROBERTA),
    "data2vec-text": lambda c: encoder.build_encoder(c, encoder.DATA2VEC),
    "mpnet": encoder.build_mpnet,
    "electra": lambda c: encoder.build_encoder(c, encoder.ELECTRA),
    "distilbert": lambda c: encoder.build_encoder(c, encoder.DISTILBERT),
    "deberta": deberta.build_deberta,
    "deberta-v2": deberta.build_deberta_v2,
    "albert": albert.build_albert,
    "modernbert": modernbert.build_modernbert,
    "vit": vision.build_vit,
    "dinov2": vision.build_dinov2,
    "t5": t5.build_t5,
    "mt5": t5.build_t5,
    "umt5": t5.build_t5,
    "bart": encoder_decoder.build_bart,
    "mbart": lambda c: encoder_decoder.build_bart(c, encoder_decoder.MBART),
    "m2m_100": lambda c: encoder_decoder.build_bart(c, encoder_decoder.M2M_100),
    "marian": lambda c: encoder_decoder.build_bart(c, encoder_decoder.MARIAN),
    "pegasus": lambda c: encoder_decoder.build_bart(c, encoder_decoder.PEGASUS),
    "whisper": lambda c: encoder_decoder.build_bart(c, encoder_decoder.WHISPER),
    "wav2vec2": audio.build_wav2vec2,
    "hubert": audio.build_wav2vec2,
    "clip": contrastive.clip,
    "siglip": contrastive.siglip,
    "llava": multimodal.llava,
    "llava_next": multimodal.llava_next,
    "llava_onevision": multimodal.llava_next,
    "paligemma": multimodal.paligemma,
    "idefics3": multimodal.idefics3,
    "smolvlm": multimodal.idefics3,
    "gemma3": multimodal.gemma3,
    "gemma4": multimodal.gemma4,
    "mistral3": multimodal.mistral3,
    "llama4": multimodal.llama4,
    "mllama": multimodal.mllama,
    "qwen2_vl": qwen_multimodal.qwen2_vl,
    "qwen2_5_vl": qwen_multimodal.qwen2_5_vl,
    "qwen3_vl": qwen_multimodal.qwen3_vl,
    "qwen3_vl_moe": qwen_multimodal.qwen3_vl_moe,
    "qwen3_5": qwen_multimodal.qwen3_5,
    "qwen3_5_moe": qwen_multimodal.qwen3_5_moe,
}

TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
"""Where models of several modalities keep their text model's config."""

TEXT_CLASSES: Mapping[str, str] = {
    "Gemma3ForCausalLM": "gemma3_text",
    "Gemma4ForCausalLM": "gemma4_text",
    "Llama4ForCausalLM": "llama4_text",
    "MllamaForCausalLM": "mllama_text_model",
    "Qwen3_5ForCausalLM": "qwen3_5_text",
    "Qwen3_5MoeForCausalLM": "qwen3_5_moe_text",
}
"""Classes that leave the towers of a multimodal config out, and the type of their text model."""


def build_model(config: Config) -> ModelArchitecture:
    """Return the model of a config, by its ``model_type``.

    Raises:
        InvalidModelConfigError: a key the family needs is missing, malformed or contradicts
            another.
    """
    model_type = config.word("model_type", default="")
    if class_name(config) in TEXT_CLASSES and config.section("text_config") is not None:
        return multimodal.text_model(config, TEXT_CLASSES[class_name(config)], root="model.")
    builder = BUILDERS.get(model_type)
    if builder is not None:
        return builder(config)
    if model_type not in DECODERS:
        for name in TEXT_SECTIONS:
            section = config.section(name)
            if section is not None:
                return multimodal.text_alone(config, name, section)
    return build_text(config)
