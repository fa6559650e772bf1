"""Which builder makes which ``model_type``."""

from collections.abc import Callable, Mapping

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.families import encoder, encoder_decoder, vision
from vramgate.costmodel.families import gpt, latent_attention, legacy, llama, mixture_of_experts
from vramgate.costmodel.families.config import Config
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.style import DecoderStyle

Builder = Callable[[Config], ModelArchitecture]

STYLES: Mapping[str, DecoderStyle] = {
    "llama": llama.LLAMA,
    "mistral": llama.MISTRAL,
    "qwen2": llama.QWEN2,
    "mimo": llama.QWEN2,
    "qwen3": llama.QWEN3,
    "gemma": llama.GEMMA,
    "gemma2": llama.GEMMA2,
    "gemma3_text": llama.GEMMA3,
    "phi": llama.PHI,
    "phi3": llama.PHI3,
    "glm": llama.GLM,
    "glm4": llama.GLM4,
    "granite": llama.GRANITE,
    "smollm3": llama.SMOLLM3,
    "olmo": llama.OLMO,
    "olmo2": llama.OLMO2,
    "olmo3": llama.OLMO3,
    "cohere": llama.COHERE,
    "cohere2": llama.COHERE2,
    "starcoder2": llama.STARCODER2,
    "nemotron": llama.NEMOTRON,
    "seed_oss": llama.SEED_OSS,
    "exaone4": llama.EXAONE4,
    "apertus": llama.APERTUS,
    "bitnet": llama.BITNET,
    "ernie4_5": llama.ERNIE,
    "mixtral": mixture_of_experts.MIXTRAL,
    "qwen2_moe": mixture_of_experts.QWEN2_MOE,
    "qwen3_moe": mixture_of_experts.QWEN3_MOE,
    "olmoe": mixture_of_experts.OLMOE,
    "phimoe": mixture_of_experts.PHIMOE,
    "granitemoe": mixture_of_experts.GRANITEMOE,
    "gpt_oss": mixture_of_experts.GPT_OSS,
    "glm4_moe": mixture_of_experts.GLM4_MOE,
    "deepseek": mixture_of_experts.DEEPSEEK,
    "ernie4_5_moe": mixture_of_experts.ERNIE_MOE,
    "minimax_m2": mixture_of_experts.MINIMAX_M2,
    "llama4_text": mixture_of_experts.LLAMA4,
    "gptj": gpt.GPTJ,
    "codegen": gpt.CODEGEN,
    "bloom": gpt.BLOOM,
    "internlm": legacy.INTERNLM,
    "internlm2": legacy.INTERNLM2,
    "internlm3": legacy.INTERNLM3,
}

BUILDERS: Mapping[str, Builder] = {
    "stablelm": lambda c: build_decoder(c, llama.stablelm(c)),
    "gpt2": gpt.gpt2,
    "gpt_bigcode": gpt.gpt_bigcode,
    "gpt_neo": gpt.gpt_neo,
    "gpt_neox": gpt.gpt_neox,
    "falcon": gpt.falcon,
    "opt": gpt.opt,
    "mpt": gpt.mpt,
    "baichuan": legacy.baichuan,
    "dbrx": mixture_of_experts.dbrx,
    "deepseek_v2": latent_attention.deepseek,
    "deepseek_v3": latent_attention.deepseek,
    "kimi_k2": latent_attention.deepseek,
    "glm4_moe_lite": latent_attention.deepseek,
    "deepseek_v32": latent_attention.deepseek_sparse,
    "glm_moe_dsa": latent_attention.deepseek_sparse,
    "bert": lambda c: encoder.build_encoder(c, encoder.BERT),
    "roberta": lambda c: encoder.build_encoder(c, encoder.ROBERTA),
    "xlm-roberta": lambda c: encoder.build_encoder(c, encoder.ROBERTA),
    "electra": lambda c: encoder.build_encoder(c, encoder.ELECTRA),
    "distilbert": lambda c: encoder.build_encoder(c, encoder.DISTILBERT),
    "vit": vision.build_vit,
    "dinov2": vision.build_dinov2,
    "t5": encoder_decoder.build_t5,
    "mt5": encoder_decoder.build_t5,
    "qwen": legacy.qwen,
    "chatglm": legacy.chatglm,
}


def builder_for(config: Config) -> ModelArchitecture:
    mt = config.word("model_type", default="")
    if mt in STYLES:
        return build_decoder(config, STYLES[mt])
    return BUILDERS[mt](config)
