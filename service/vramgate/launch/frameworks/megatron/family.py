"""Which family of the cost model is the model that Megatron builds: a ``config.json``, exact or nearest.

Candidates are families that can have the traits; the one whose parameters, counted by the cost
model, are Megatron's own counts, else the nearest, and how far it is off.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vramgate.costmodel.families import architecture_from_config
from vramgate.errors import DomainError
from vramgate.launch.frameworks.megatron.experts import (
    Json,
    base_config,
    deepseek,
    mixtures,
    nemotron_h,
)
from vramgate.launch.frameworks.megatron.shape import Shape, parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A config.json, and how many parameters more it has than Megatron's model."""

    config: Json
    difference: int
    parameters: int
    """Of Megatron's model."""


def nearest_family(shape: Shape) -> Family | None:
    """Return the family that is nearest in parameters; the first of equal ones; None where none fits."""
    wanted = parameters(shape)
    best: Family | None = None
    for config in _candidates(shape):
        counted = _counted(config)
        if counted is None:
            continue
        found = Family(config=config, difference=counted - wanted, parameters=wanted)
        if best is None or abs(found.difference) < abs(best.difference):
            best = found
        if found.difference == 0:
            break
    return best


def _counted(config: Json) -> int | None:
    try:
        return architecture_from_config(config).parameters
    except DomainError:
        return None


def _candidates(shape: Shape) -> Iterator[Json]:
    if shape.is_bert:
        yield _bert(shape)
        return
    if shape.mamba is not None:
        yield nemotron_h(shape)
        return
    yield from _decoders(shape)
    if shape.prediction_layers:
        yield from _decoders(_with_prediction_layers(shape))


def _with_prediction_layers(shape: Shape) -> Shape:
    """Return the shape with each prediction layer as one layer more."""
    more, experts = shape.prediction_layers, shape.experts
    if experts is not None:
        last = experts.sparse[-1:] * more
        experts = replace(experts, sparse=(*experts.sparse, *last))
    return replace(shape, layers=shape.layers + more, experts=experts, prediction_layers=0)


def _decoders(shape: Shape) -> Iterator[Json]:
    if shape.latent is not None:
        yield deepseek(shape, shape.latent)
    elif shape.experts is not None:
        yield from mixtures(shape, shape.experts)
    elif shape.learned_positions and not shape.gated:
        yield from (_gpt2(shape), _opt(shape))
    elif not shape.gated:
        yield from _ungated(shape)
    else:
        yield from _gated(shape)


def _gated(shape: Shape) -> Iterator[Json]:
    """Yield decoders with a gated feed-forward."""
    if not shape.rms:
        yield {
            **base_config(shape, "stablelm"),
            "partial_rotary_factor": shape.rotary_percent,
            "use_qkv_bias": shape.qkv_bias,
            "qk_layernorm": shape.qk_norm,
            "use_parallel_residual": False,
            "hidden_dropout": shape.hidden_dropout,
        }
        return
    if shape.hidden_dropout and not shape.qk_norm:
        yield _seed_oss(shape)
    if shape.qk_norm:
        yield {**base_config(shape, "qwen3"), "attention_bias": shape.qkv_bias}
        return
    if shape.window is not None and not shape.qkv_bias:
        yield {**base_config(shape, "mistral"), "sliding_window": shape.window}
    if shape.qkv_bias and not shape.bias:
        yield base_config(shape, "qwen2")
    yield {**base_config(shape, "llama"), **_biases(shape)}


def _biases(shape: Shape) -> Json:
    return {"attention_bias": shape.bias, "mlp_bias": shape.bias}


def _seed_oss(shape: Shape) -> Json:
    """Return a Llama whose residuals drop out, and whose biases have a switch each."""
    return {
        **base_config(shape, "seed_oss"),
        "attention_dropout": shape.attention_dropout,
        "residual_dropout": shape.hidden_dropout,
        "attention_bias": shape.qkv_bias,
        "attention_out_bias": shape.bias,
        "mlp_bias": shape.bias,
    }


def _ungated(shape: Shape) -> Iterator[Json]:
    """Yield decoders with two linears around an activation."""
    if shape.rms:
        yield {**base_config(shape, "arcee"), **_biases(shape)}
        return
    if shape.activation == "relu2":
        yield {
            **base_config(shape, "nemotron"),
            **_biases(shape),
            "partial_rotary_factor": shape.rotary_percent,
        }
    yield {
        **base_config(shape, "starcoder2"),
        "use_bias": shape.bias,
        "attention_dropout": shape.attention_dropout,
        "residual_dropout": shape.hidden_dropout,
        "embedding_dropout": shape.hidden_dropout,
    }


def _gpt2(shape: Shape) -> Json:
    return {
        "model_type": "gpt2",
        "hidden_size": shape.hidden,
        "n_inner": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.groups,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "n_positions": shape.positions,
        "tie_word_embeddings": shape.tied,
        "activation_function": shape.activation,
        "attn_pdrop": shape.attention_dropout,
        "resid_pdrop": shape.hidden_dropout,
        "embd_pdrop": shape.hidden_dropout,
    }


def _opt(shape: Shape) -> Json:
    """Return OPT, whose biases have a switch; its table of positions has two rows more."""
    return {
        **base_config(shape, "opt"),
        "ffn_dim": shape.intermediate,
        "enable_bias": shape.bias,
        "activation_function": shape.activation,
        "dropout": shape.hidden_dropout,
        "attention_dropout": shape.attention_dropout,
    }


def _bert(shape: Shape) -> Json:
    """Return BERT with both heads of its pretraining, or with the masked one alone."""
    return {
        "model_type": "bert",
        "architectures": ["BertForPreTraining" if shape.binary_head else "BertForMaskedLM"],
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": 2 if shape.binary_head else 0,
        "hidden_act": shape.activation,
        "hidden_dropout_prob": shape.hidden_dropout,
        "attention_probs_dropout_prob": shape.attention_dropout,
    }
