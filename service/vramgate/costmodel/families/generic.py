"""Models of no known family: a shape from the usual keys, or from a parameter count alone."""

from dataclasses import replace

from vramgate.costmodel.architecture import ModelArchitecture, Module, ModuleKind, Part
from vramgate.costmodel.families import encoder, encoder_decoder, latent_attention
from vramgate.costmodel.families.assembly import MAX_PARAMETERS
from vramgate.costmodel.families.config import Config, refuse, shown
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.heads import class_name
from vramgate.costmodel.families.style import (
    AttentionStyle,
    DecoderStyle,
    ExpertStyle,
    FeedForwardStyle,
    SharedExpertStyle,
    Window,
)

FAMILY = "generic"
MIN_PARAMETERS = 1_000_000
COUNT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_EXPERT_SIZE_KEYS = ("moe_intermediate_size", "expert_intermediate_size")
_BIAS_KEYS = ("attention_bias", "qkv_bias", "use_qkv_bias", "use_bias", "bias", "add_qkv_bias")
_MLP_BIAS_KEYS = ("mlp_bias", "use_bias", "bias")


def build_generic(config: Config) -> ModelArchitecture:
    """Return a model of an unknown ``model_type`` from the usual keys, and say so.

    Raises:
        InvalidModelConfigError: a key that every shape needs is missing or malformed.
    """
    name = config.word("model_type", default="")
    sentence = (
        f"model_type {shown(name)} is not a known family: its blocks are taken as {{}}, "
        "from the keys of its config, the head untied unless it says otherwise; counts and "
        "activations may be off."
    )
    if config.sets("encoder_layers") and config.sets("decoder_layers"):
        model, like = encoder_decoder.build_bart(config), "BART's"
    elif is_encoder(config):
        model, like = encoder.build_encoder(config, encoder.BERT), "BERT's"
    elif config.sets("kv_lora_rank") and config.sets("qk_nope_head_dim"):
        model, like = latent_attention.deepseek(config), "DeepSeek's"
    else:
        model, like = build_decoder(config, generic_style(config)), "Llama's"
    approximate = (sentence.format(like), *model.approximate)
    return replace(model, family=FAMILY, approximate=approximate)


def is_encoder(config: Config) -> bool:
    """Return whether an unknown model is a BERT-type encoder, by its class or its token types."""
    return class_name(config).endswith("ForMaskedLM") or config.sets("type_vocab_size")


def generic_style(config: Config) -> DecoderStyle:
    """Return Llama's style with the biases and experts the config names."""
    experts = None
    if config.sets(*COUNT_KEYS):
        sized = config.sets(*_EXPERT_SIZE_KEYS)
        experts = ExpertStyle(
            count_keys=COUNT_KEYS,
            per_token_keys=("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts"),
            size_keys=_EXPERT_SIZE_KEYS if sized else ("intermediate_size",),
            shared=SharedExpertStyle(
                path="mlp.shared_experts", count_keys=("n_shared_experts", "num_shared_experts")
            ),
        )
    return DecoderStyle(
        family=FAMILY,
        attention=AttentionStyle(
            bias=any(config.sets(key) for key in _BIAS_KEYS),
            window=Window(),
        ),
        feed_forward=FeedForwardStyle(
            bias=any(config.sets(key) for key in _MLP_BIAS_KEYS),
            activation_keys=("hidden_act", "hidden_activation", "activation_function"),
        ),
        experts=experts,
    )


def architecture_from_parameters(parameters: int) -> ModelArchitecture:
    """Return a Llama-like decoder of exactly this many parameters, its shape inferred.

    Depth and width follow published Llama models: 128 of width a layer (64 below 100 million),
    feed-forward 3.5 times the width. What no whole feed-forward width can hold is added as loose
    weights.

    Raises:
        InvalidModelConfigError: the count is below a million or above a hundred trillion.
    """
    pointer = "/model/parameters"
    if type(parameters) is not int or not MIN_PARAMETERS <= parameters <= MAX_PARAMETERS:
        detail = f"{shown(parameters)} is no count from {MIN_PARAMETERS} to {MAX_PARAMETERS}"
        refuse(pointer, detail, code="out_of_range", hint="Count weights, not billions.")
    model = build_decoder(_closest_shape(parameters), DecoderStyle(family=FAMILY))
    rest = parameters - model.parameters
    loose = Module(
        path="remainder", part=Part.OTHER, kind=ModuleKind.PARAMETER, role="remainder", weight=rest
    )
    sentence = (
        f"Only the parameter count is known: {parameters:,} parameters are taken as a Llama-like decoder of "
        f"{model.num_hidden_layers} layers and hidden size {model.hidden_size}; activations are rough."
    )
    return replace(model, outside=(*model.outside, loose), approximate=(sentence,))


# From so many parameters on: rows of the vocabulary, tied, width per layer. Source: guess.
_VOCABULARIES = (
    (5 * 10**9, 128_256, False, 128),
    (10**9, 128_256, True, 128),
    (10**8, 50_304, True, 64),
    (10**7, 32_000, True, 64),
    (MIN_PARAMETERS, 4_000, True, 64),
)
_WIDE_HEADS_FROM = 2048
_INTERMEDIATE_RATIO = 3.5


def _closest_shape(parameters: int) -> Config:
    """Return the config whose feed-forward width is nearest to 3.5 times the hidden size."""
    rows, tied, ratio = next(v[1:] for v in _VOCABULARIES if parameters >= v[0])
    best: dict[str, object] = {}
    nearest = float("inf")
    layers = 0
    while True:
        layers += 1
        hidden = ratio * layers
        head_dim = 128 if hidden >= _WIDE_HEADS_FROM else 64
        heads = hidden // head_dim
        kv_heads = 8 if heads % 8 == 0 else heads
        attention = 2 * hidden * (heads + kv_heads) * head_dim
        fixed = rows * hidden * (1 if tied else 2) + layers * (attention + 2 * hidden) + hidden
        size = (parameters - fixed) // (3 * hidden * layers)
        if size < 1:
            break
        distance = abs(size / hidden - _INTERMEDIATE_RATIO)
        if distance < nearest:
            nearest = distance
            best = {
                "hidden_size": hidden,
                "num_hidden_layers": layers,
                "num_attention_heads": heads,
                "num_key_value_heads": kv_heads,
                "head_dim": head_dim,
                "intermediate_size": size,
                "vocab_size": rows,
                "tie_word_embeddings": tied,
            }
    return Config(best, pointer="/model/parameters")
