"""Families of the cost model with experts, latent attention or state-space mixers, from Megatron's sizes."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from vramgate.launch.frameworks.megatron.shape import ExpertShape, LatentShape, Shape

Json: TypeAlias = dict[str, Any]


def base_config(shape: Shape, model_type: str) -> Json:
    """Return the keys that most families have."""
    return {
        "model_type": model_type,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.groups,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.positions,
        "tie_word_embeddings": shape.tied,
        "hidden_act": shape.activation,
        **({"attention_dropout": shape.attention_dropout} if shape.attention_dropout else {}),
        **({"partial_rotary_factor": shape.rotary_percent} if shape.rotary_percent != 1 else {}),
    }


def mixtures(shape: Shape, experts: ExpertShape) -> Iterator[Json]:
    """Yield decoders with routed experts."""
    everywhere = all(experts.sparse)
    routed = {"num_local_experts": experts.count, "num_experts_per_tok": experts.per_token}
    if not shape.rms:
        yield {
            **base_config(shape, "phimoe"),
            **routed,
            "intermediate_size": experts.size,
            "attention_bias": shape.bias,
        }
        return
    if shape.sinks and everywhere and shape.bias:
        yield {**_gpt_oss(shape), **routed, "intermediate_size": experts.size}
    if everywhere and not experts.shared_size and not shape.qkv_bias and not shape.qk_norm:
        yield {**base_config(shape, "mixtral"), **routed, "intermediate_size": experts.size}
        return
    if shape.qk_norm and not experts.shared_size:
        yield {**_qwen_moe(shape, experts, "qwen3_moe"), "attention_bias": shape.bias}
    if experts.shared_gate or not experts.shared_size:
        yield {
            **_qwen_moe(shape, experts, "qwen2_moe"),
            "qkv_bias": shape.qkv_bias,
            "shared_expert_intermediate_size": experts.shared_size,
        }
    yield _glm4_moe(shape, experts)


def _gpt_oss(shape: Shape) -> Json:
    """Return gpt-oss: biases everywhere, sinks, a clamped activation of its own that is called silu."""
    return {**base_config(shape, "gpt_oss"), "hidden_act": "silu", "attention_bias": True}


def _qwen_moe(shape: Shape, experts: ExpertShape, model_type: str) -> Json:
    dense = [layer for layer, sparse in enumerate(experts.sparse) if not sparse]
    return {
        **base_config(shape, model_type),
        "num_experts": experts.count,
        "num_experts_per_tok": experts.per_token,
        "moe_intermediate_size": experts.size,
        **({"mlp_only_layers": dense} if dense else {}),
    }


def _deepseek_experts(shape: Shape, experts: ExpertShape) -> Json:
    """Return the experts' keys of DeepSeek's families: shared ones are so many routed ones wide."""
    shared = -(-experts.shared_size // experts.size) if experts.size else 0
    first = next((layer for layer, sparse in enumerate(experts.sparse) if sparse), shape.layers)
    return {
        "n_routed_experts": experts.count,
        "num_experts_per_tok": experts.per_token,
        "moe_intermediate_size": experts.size,
        "n_shared_experts": shared,
        **(
            {"first_k_dense_replace": first}
            if all(experts.sparse[first:])
            else {"mlp_layer_types": ["sparse" if one else "dense" for one in experts.sparse]}
        ),
    }


def _glm4_moe(shape: Shape, experts: ExpertShape) -> Json:
    return {
        **base_config(shape, "glm4_moe"),
        **_deepseek_experts(shape, experts),
        "partial_rotary_factor": shape.rotary_percent,
        "attention_bias": shape.qkv_bias,
        "use_qk_norm": shape.qk_norm,
    }


def deepseek(shape: Shape, latent: LatentShape) -> Json:
    base = base_config(shape, "deepseek_v3")
    del base["head_dim"]
    none = ExpertShape(count=1, per_token=1, size=1, sparse=(False,) * shape.layers)
    return {
        **base,
        "q_lora_rank": latent.query_rank,
        "kv_lora_rank": latent.kv_rank,
        "qk_nope_head_dim": latent.plain,
        "qk_rope_head_dim": latent.rotary,
        "v_head_dim": latent.value,
        **_deepseek_experts(shape, shape.experts or none),
    }


def nemotron_h(shape: Shape) -> Json:
    """Return Nemotron-H: every layer is a mixer, attention, a feed-forward or experts, alone."""
    mamba, experts = shape.mamba, shape.experts
    base = base_config(shape, "nemotron_h")
    if mamba is None or shape.gated or not shape.rms:
        return {**base, "model_type": "nemotron_h", "hybrid_override_pattern": ""}
    for name in ("hidden_act", "partial_rotary_factor", "tie_word_embeddings"):
        base.pop(name, None)
    return {
        **base,
        "mlp_hidden_act": shape.activation,
        "hybrid_override_pattern": mamba.pattern,
        "mamba_num_heads": mamba.heads,
        "mamba_head_dim": mamba.head_dim,
        "ssm_state_size": mamba.state,
        "n_groups": mamba.groups,
        "mlp_bias": shape.bias,
        **({} if experts is None else _nemotron_experts(experts)),
    }


def _nemotron_experts(experts: ExpertShape) -> Json:
    return {
        "n_routed_experts": experts.count,
        "num_experts_per_tok": experts.per_token,
        "moe_intermediate_size": experts.size,
        "moe_shared_expert_intermediate_size": experts.shared_size,
        **({"moe_latent_size": experts.latent_size} if experts.latent_size else {}),
    }
