"""Layers of Megatron's that are not attention and a dense feed-forward: experts, latents, state spaces.

Defaults: Megatron-LM ``training/arguments.py`` (d98e8a64); of a configuration, those of
``core/transformer/transformer_config.py: MLATransformerConfig``.
"""

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.megatron.pattern import MAX_LAYERS, NoPatternError, layer_pattern
from vramgate.launch.frameworks.megatron.shape import ExpertShape, LatentShape, MambaShape
from vramgate.launch.frameworks.megatron.sizes import Sizes
from vramgate.launch.reading import Found, Unseen


def read_latent(sizes: Sizes) -> LatentShape:
    """Return the widths of latent attention."""
    whole = sizes.arguments.is_command_line
    return LatentShape(
        query_rank=sizes.whole("q_lora_rank", default=0 if whole else 512) or None,
        kv_rank=sizes.whole("kv_lora_rank", default=32 if whole else 512),
        plain=sizes.whole("qk_head_dim", default=128),
        rotary=sizes.whole("qk_pos_emb_head_dim", default=64),
        value=sizes.whole("v_head_dim", default=128),
    )


def read_experts(sizes: Sizes, layers: int, intermediate: int, draft: Draft) -> ExpertShape | None:
    """Return the experts; None without any. A pattern that does not fit is reported."""
    count = sizes.whole("num_experts", default=0)
    if count == 0 or (count == 1 and "deepspeed" in sizes.arguments.settings):
        return None
    sparse = _sparse_layers(sizes, layers, draft)
    return ExpertShape(
        count=count,
        per_token=sizes.whole("moe_router_topk", "topk", default=2),
        size=sizes.whole("moe_ffn_hidden_size", default=intermediate),
        sparse=sparse,
        shared_size=sizes.whole("moe_shared_expert_intermediate_size", default=0),
        shared_gate=sizes.switch("moe_shared_expert_gate"),
        latent_size=sizes.whole("moe_latent_size", default=0) or None,
    )


def _sparse_layers(sizes: Sizes, layers: int, draft: Draft) -> tuple[bool, ...]:
    reading = sizes.arguments.settings.value("moe_layer_freq")
    if isinstance(reading, Unseen):
        sizes.unseen.append(reading)
    if not isinstance(reading, Found):
        return (True,) * layers
    text = str(reading.value)
    try:
        return layer_pattern(text, layers)
    except NoPatternError:
        sizes.refused = True
        draft.problem(
            Problem(
                rule="layer_pattern",
                detail=f"{reading.source} {text[:80]} does not name {layers} layers",
                fix=f'write a number, or a list such as "[0]*1+[1]*{max(1, layers - 1)}"',
                values={reading.source: text[:200]},
                field="model",
            )
        )
        return (True,) * layers


def read_mamba(sizes: Sizes, hidden: int) -> MambaShape | None:
    """Return a hybrid's pattern and mixers; None for a model of one kind of layer."""
    pattern = sizes.text("hybrid_layer_pattern", default="") or sizes.text(
        "hybrid_override_pattern", default=""
    )
    main = pattern.partition("/")[0].replace("|", "")[: MAX_LAYERS + 1]
    if not main:
        return None
    head_dim = sizes.whole("mamba_head_dim", default=64)
    heads = sizes.whole("mamba_num_heads", default=0) or (2 * hidden // head_dim if head_dim else 0)
    return MambaShape(
        pattern=main,
        heads=heads,
        head_dim=head_dim,
        state=sizes.whole("mamba_state_dim", default=128),
        groups=sizes.whole("mamba_num_groups", default=8),
    )
