"""Which builder makes which ``model_type`` that is no decoder alone."""

from collections.abc import Mapping

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.families import (
    audio,
    encoder,
    encoder_decoder,
    encoder_variants,
    multimodal,
    t5,
    vision,
)
from vramgate.costmodel.families.config import Config
from vramgate.costmodel.families.decoders import Builder, build_text

BUILDERS: Mapping[str, Builder] = {
    "bert": lambda c: encoder.build_encoder(c, encoder.BERT),
    "roberta": lambda c: encoder.build_encoder(c, encoder.ROBERTA),
    "xlm-roberta": lambda c: encoder.build_encoder(c, encoder.ROBERTA),
    "electra": lambda c: encoder.build_encoder(c, encoder.ELECTRA),
    "distilbert": lambda c: encoder.build_encoder(c, encoder.DISTILBERT),
    "deberta": encoder_variants.build_deberta,
    "deberta-v2": encoder_variants.build_deberta_v2,
    "albert": encoder_variants.build_albert,
    "modernbert": encoder_variants.build_modernbert,
    "vit": vision.build_vit,
    "dinov2": vision.build_dinov2,
    "t5": t5.build_t5,
    "mt5": t5.build_t5,
    "bart": encoder_decoder.build_bart,
    "mbart": lambda c: encoder_decoder.build_bart(c, encoder_decoder.MBART),
    "m2m_100": lambda c: encoder_decoder.build_bart(c, encoder_decoder.M2M_100),
    "marian": lambda c: encoder_decoder.build_bart(c, encoder_decoder.MARIAN),
    "pegasus": lambda c: encoder_decoder.build_bart(c, encoder_decoder.PEGASUS),
    "whisper": lambda c: encoder_decoder.build_bart(c, encoder_decoder.WHISPER),
    "wav2vec2": audio.build_wav2vec2,
    "hubert": audio.build_wav2vec2,
    "clip": multimodal.clip,
    "siglip": multimodal.siglip,
    "llava": multimodal.llava,
    "llava_next": multimodal.llava_next,
    "llava_onevision": multimodal.llava_next,
    "vipllava": multimodal.llava,
    "paligemma": multimodal.paligemma,
    "idefics3": multimodal.idefics3,
    "smolvlm": multimodal.idefics3,
    "gemma3": multimodal.gemma3,
    "gemma4": multimodal.gemma4,
    "mistral3": multimodal.mistral3,
    "llama4": multimodal.llama4,
    "mllama": multimodal.mllama,
    "qwen2_vl": multimodal.qwen2_vl,
    "qwen2_5_vl": multimodal.qwen2_5_vl,
    "qwen3_vl": multimodal.qwen3_vl,
    "qwen3_vl_moe": multimodal.qwen3_vl_moe,
    "qwen3_5": multimodal.qwen3_5,
    "qwen3_5_moe": multimodal.qwen3_5_moe,
}


def build_model(config: Config) -> ModelArchitecture:
    """Return the model of a config, by its ``model_type``.

    Raises:
        InvalidModelConfigError: a key the family needs is missing, malformed or contradicts
            another.
    """
    model_type = config.word("model_type", default="")
    builder = BUILDERS.get(model_type)
    if builder is not None:
        return builder(config)
    return build_text(config)
