"""Which style or builder makes which decoder-only ``model_type``, alone or inside another."""

from collections.abc import Callable, Mapping

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.families import (
    bloom,
    compressed_attention,
    gemma,
    gemma3n,
    gpt,
    hybrid,
    latent_attention,
    layer_norm_decoders,
    legacy,
    linear_attention,
    llama,
    mixture_of_experts,
    mllama,
    nemotron,
    recurrent,
    state_space,
)
from vramgate.costmodel.families.config import Config
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.generic import build_generic
from vramgate.costmodel.families.style import DecoderStyle

Builder = Callable[[Config], ModelArchitecture]

STYLES: Mapping[str, DecoderStyle] = {
    "llama": llama.LLAMA,
    "mistral": llama.MISTRAL,
    "qwen2": llama.QWEN2,
    "mimo": llama.QWEN2,
    "qwen3": llama.QWEN3,
    "gemma": gemma.GEMMA,
    "gemma2": gemma.GEMMA2,
    "gemma3_text": gemma.GEMMA3,
    "phi": layer_norm_decoders.PHI,
    "phi3": llama.PHI3,
    "glm": llama.GLM,
    "glm4": llama.GLM4,
    "granite": llama.GRANITE,
    "smollm3": llama.SMOLLM3,
    "olmo": layer_norm_decoders.OLMO,
    "olmo2": llama.OLMO2,
    "olmo3": llama.OLMO3,
    "cohere": layer_norm_decoders.COHERE,
    "cohere2": layer_norm_decoders.COHERE2,
    "starcoder2": layer_norm_decoders.STARCODER2,
    "nemotron": layer_norm_decoders.NEMOTRON,
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
    "arcee": llama.ARCEE,
    "helium": llama.HELIUM,
    "hunyuan_v1_dense": llama.HUNYUAN,
    "hunyuan_v1_moe": mixture_of_experts.HUNYUAN_MOE,
    "minicpm": llama.MINICPM,
    "cwm": llama.LLAMA,
    "exaone": llama.LLAMA,
    "iquestcoder": llama.LLAMA,
    "xverse": llama.LLAMA,
    "dots1": mixture_of_experts.DOTS1,
    "persimmon": layer_norm_decoders.PERSIMMON,
    "orion": layer_norm_decoders.ORION,
    "ministral3": llama.MINISTRAL3,
    "ministral": llama.MISTRAL,
    "qwen2_vl_text": llama.QWEN2,
    "qwen2_5_vl_text": llama.QWEN2,
    "qwen3_vl_text": llama.QWEN3,
    "qwen3_vl_moe_text": mixture_of_experts.QWEN3_MOE,
    "gptj": gpt.GPTJ,
    "codegen": gpt.CODEGEN,
    "bloom": bloom.BLOOM,
    "internlm": legacy.INTERNLM,
    "internlm2": legacy.INTERNLM2,
    "internlm3": legacy.INTERNLM3,
}

BUILDERS: Mapping[str, Builder] = {
    "stablelm": lambda c: build_decoder(c, layer_norm_decoders.stablelm(c)),
    "gpt2": gpt.gpt2,
    "gpt-sw3": gpt.gpt2,
    "stablelm_epoch": lambda c: build_decoder(c, layer_norm_decoders.stablelm(c)),
    "minicpm3": latent_attention.minicpm3,
    "gpt_bigcode": gpt.gpt_bigcode,
    "gpt_neo": gpt.gpt_neo,
    "gpt_neox": gpt.gpt_neox,
    "falcon": bloom.falcon,
    "opt": bloom.opt,
    "mpt": bloom.mpt,
    "baichuan": legacy.baichuan,
    "dbrx": mixture_of_experts.dbrx,
    "deepseek_v2": lambda c: latent_attention.deepseek(c, latent_attention.DEEPSEEK_V2),
    "deepseek_v3": latent_attention.deepseek,
    "kimi_k2": latent_attention.deepseek,
    "glm4_moe_lite": latent_attention.deepseek,
    "deepseek_v32": latent_attention.deepseek_sparse,
    "glm_moe_dsa": latent_attention.deepseek_sparse,
    "mamba": state_space.build_mamba,
    "falcon_mamba": state_space.build_mamba,
    "mamba2": state_space.build_mamba2,
    "jamba": hybrid.jamba,
    "bamba": hybrid.bamba,
    "falcon_h1": hybrid.falcon_h1,
    "qwen3_next": linear_attention.qwen3_next,
    "qwen3_5_text": linear_attention.qwen3_5_text,
    "qwen3_5_moe_text": linear_attention.qwen3_5_moe_text,
    "minimax": linear_attention.minimax,
    "lfm2": linear_attention.lfm2,
    "granitemoehybrid": hybrid.granitemoehybrid,
    "granitemoeshared": hybrid.granitemoehybrid,
    "nemotron_h": nemotron.nemotron_h,
    "recurrent_gemma": recurrent.recurrent_gemma,
    "rwkv": recurrent.rwkv,
    "gemma3n_text": gemma3n.gemma3n_text,
    "gemma4_text": gemma3n.gemma4_text,
    "deepseek_v4": compressed_attention.deepseek_v4,
    "qwen": legacy.qwen,
    "chatglm": legacy.chatglm,
    "mllama_text_model": mllama.mllama_text,
}


DECODERS = frozenset({*STYLES, *BUILDERS})


def build_text(config: Config) -> ModelArchitecture:
    """Return a decoder-only model by its ``model_type``; an unknown one from its shape.

    Raises:
        InvalidModelConfigError: a key the family needs is missing, malformed or contradicts
            another.
    """
    model_type = config.word("model_type", default="")
    style = STYLES.get(model_type)
    if style is not None:
        return build_decoder(config, style)
    return BUILDERS.get(model_type, build_generic)(config)
