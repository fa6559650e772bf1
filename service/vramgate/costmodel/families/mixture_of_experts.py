"""Decoders with routed experts: Mixtral, Qwen-MoE, OLMoE, gpt-oss, GLM-4.5, DBRX, Llama 4.

Expert modules are named as in transformers 4, where each expert is a module, without its index:
``block_sparse_moe.experts.w1`` stands for ``block_sparse_moe.experts.0.w1`` and its ``copies``.
From version 5 on they are stacked parameters (``mlp.experts.gate_up_proj``). Source of every
trait: the family's modeling file.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    ModelArchitecture,
    ModuleKind,
    NormKind,
)
from vramgate.costmodel.families.config import MAX_LAYERS, Config, Rate, Switch
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.llama import (
    ATTENTION_BIAS,
    ERNIE,
    FULL_NORM,
    HEAD_NORM,
    HUNYUAN,
    LLAMA,
    MISTRAL,
    OLMO2,
    QWEN2,
    QWEN3,
    QWEN_WINDOW,
)
from vramgate.costmodel.families.style import (
    LLAMA_NORMS,
    AttentionStyle,
    DecoderStyle,
    ExpertStyle,
    FeedForwardStyle,
    NormPlace,
    QueryKeyNorm,
    RotaryLayers,
    SharedExpertStyle,
    Window,
)


def every_step(config: Config, layers: int) -> tuple[bool, ...]:
    """Return Qwen's sparse layers: every ``decoder_sparse_step``-th but ``mlp_only_layers``."""
    step = config.whole("decoder_sparse_step", at_most=MAX_LAYERS, default=1)
    dense = set(config.wholes("mlp_only_layers", at_most=MAX_LAYERS) or ())
    return tuple((i + 1) % step == 0 and i not in dense for i in range(layers))


def after_none(config: Config, layers: int) -> tuple[bool, ...]:
    """Return dots.llm1's sparse layers: all, unless ``first_k_dense_replace`` leaves some out."""
    return after_first(config, layers, default=0)


def after_first(config: Config, layers: int, *, default: int = 1) -> tuple[bool, ...]:
    """Return DeepSeek's and GLM's sparse layers: all after the first ``first_k_dense_replace``."""
    kinds = config.words("mlp_layer_types", length=layers)
    if kinds is not None:
        return tuple(kind != "dense" for kind in kinds)
    first = config.whole("first_k_dense_replace", at_least=0, at_most=MAX_LAYERS, default=default)
    step = config.whole("moe_layer_freq", at_most=MAX_LAYERS, default=1)
    return tuple(i >= first and i % step == 0 for i in range(layers))


def between(config: Config, layers: int) -> tuple[bool, ...]:
    """Return ERNIE's sparse layers: every ``moe_layer_interval``-th from start to end index."""
    step = config.whole("moe_layer_interval", at_most=MAX_LAYERS, default=1)
    start = config.whole("moe_layer_start_index", at_least=0, at_most=MAX_LAYERS, default=1)
    end = config.whole("moe_layer_end_index", at_least=-1, at_most=MAX_LAYERS, default=-1)
    last = layers - 1 if end < 0 else end
    return tuple((i + 1) % step == 0 and start <= i <= last for i in range(layers))


def interleaved(config: Config, layers: int) -> tuple[bool, ...]:
    """Return Llama 4's sparse layers: ``moe_layers``, or every ``interleave_moe_layer_step``-th."""
    listed = config.wholes("moe_layers", at_most=MAX_LAYERS)
    if listed is not None:
        sparse = set(listed)
        return tuple(layer in sparse for layer in range(layers))
    step = config.whole("interleave_moe_layer_step", at_most=MAX_LAYERS, default=1)
    return tuple((i + 1) % step == 0 for i in range(layers))


QWEN_EXPERTS = ExpertStyle(
    count_keys=("num_experts", "num_local_experts"),
    size_keys=("moe_intermediate_size",),
    sparse=every_step,
)
QWEN_SHARED = SharedExpertStyle(
    path="mlp.shared_expert",
    size_keys=("shared_expert_intermediate_size",),
    gate="mlp.shared_expert_gate",
)
DEEPSEEK_SHARED = SharedExpertStyle(
    path="mlp.shared_experts", count_keys=("n_shared_experts",), count_default=0
)
DEEPSEEK_EXPERTS = ExpertStyle(
    count_keys=("n_routed_experts", "num_local_experts", "num_experts"),
    size_keys=("moe_intermediate_size",),
    sparse=after_first,
    shared=DEEPSEEK_SHARED,
)
MIXTRAL_EXPERTS = ExpertStyle(
    router="block_sparse_moe.gate",
    path="block_sparse_moe.experts.",
    names=("w1", "w3", "w2"),
)

MIXTRAL = replace(
    MISTRAL,
    family="mixtral",
    attention=replace(MISTRAL.attention, window=Window()),
    experts=MIXTRAL_EXPERTS,
)
QWEN2_MOE = replace(
    QWEN2,
    family="qwen2_moe",
    attention=AttentionStyle(
        bias=Switch("qkv_bias", default=True), kv_heads_default=16, window=QWEN_WINDOW
    ),
    experts=replace(QWEN_EXPERTS, shared=QWEN_SHARED),
)
QWEN3_MOE = replace(
    QWEN3,
    family="qwen3_moe",
    attention=replace(
        QWEN3.attention,
        kv_heads_default=4,
        head_dim_default=None,
        window=replace(QWEN_WINDOW, first_layer_key=None),
    ),
    experts=QWEN_EXPERTS,
)
OLMOE = replace(
    OLMO2,
    family="olmoe",
    norms=LLAMA_NORMS,
    layout=LLAMA.layout,
    experts=ExpertStyle(count_keys=("num_experts", "num_local_experts")),
)
PHIMOE = replace(
    MIXTRAL,
    family="phimoe",
    norm=NormKind.LAYER,
    norm_bias=True,
    head_bias=Switch("lm_head_bias", default=False),
    attention=AttentionStyle(
        bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, kv_heads_default=8, window=Window()
    ),
)
GRANITE_EXPERTS = ExpertStyle(
    router="block_sparse_moe.router.layer",
    path="block_sparse_moe.",
    names=("input_linear", "output_linear"),
)
GRANITEMOE = DecoderStyle(
    family="granitemoe",
    embedding_scaled=True,
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    experts=GRANITE_EXPERTS,
)
GPT_OSS = DecoderStyle(
    family="gpt_oss",
    attention=AttentionStyle(
        bias=Switch("attention_bias", default=True),
        output_bias=Switch("attention_bias", default=True),
        sinks=True,
        kv_heads_default=8,
        head_dim_default=64,
        window=Window(default=128, period=2),
    ),
    experts=ExpertStyle(
        router="mlp.router", router_bias=True, names=("gate_up_proj", "down_proj"), bias=True
    ),
)
GLM4_MOE = DecoderStyle(
    family="glm4_moe",
    attention=AttentionStyle(
        bias=ATTENTION_BIAS,
        partial_rotary=0.5,
        kv_heads_default=8,
        norm=QueryKeyNorm(when=Switch("use_qk_norm", default=False)),
    ),
    experts=replace(
        DEEPSEEK_EXPERTS,
        shared=SharedExpertStyle(
            path="mlp.shared_experts", count_keys=("n_shared_experts",), count_default=1
        ),
    ),
)
DEEPSEEK = replace(LLAMA, family="deepseek", experts=DEEPSEEK_EXPERTS)
ERNIE_MOE = replace(
    ERNIE,
    family="ernie4_5_moe",
    head_bias=Switch("use_bias", default=False),
    attention=replace(ERNIE.attention, kv_heads_default=4, head_dim_default=None),
    experts=ExpertStyle(
        count_keys=("moe_num_experts", "num_experts"),
        per_token_keys=("moe_k", "num_experts_per_tok"),
        size_keys=("moe_intermediate_size",),
        sparse=between,
        correction_bias="mlp.gate.moe_statics.e_score_correction_bias",
        shared=SharedExpertStyle(
            path="mlp.shared_experts",
            count_keys=("moe_num_shared_experts",),
            count_default=2,
            bias=Switch("use_bias", default=False),
        ),
    ),
)
MINIMAX_M2 = DecoderStyle(
    family="minimax_m2",
    attention=AttentionStyle(norm=FULL_NORM, kv_heads_default=8, head_dim_default=128),
    experts=MIXTRAL_EXPERTS,
)
LLAMA4 = DecoderStyle(
    family="llama4",
    attention=AttentionStyle(
        bias=ATTENTION_BIAS,
        output_bias=ATTENTION_BIAS,
        kv_heads_default=8,
        head_dim_default=128,
        rotary_layers=RotaryLayers.LISTED,
        window=Window(
            default=8192, key="attention_chunk_size", period=4, period_key="no_rope_layer_interval"
        ),
    ),
    feed_forward=FeedForwardStyle(path="feed_forward.", size_keys=("intermediate_size_mlp",)),
    experts=ExpertStyle(
        router="feed_forward.router",
        path="feed_forward.experts.",
        names=("gate_up_proj", "down_proj"),
        sparse=interleaved,
        shared=SharedExpertStyle(
            path="feed_forward.shared_expert", size_keys=("intermediate_size",)
        ),
    ),
)
_DBRX = DecoderStyle(
    family="dbrx",
    root="transformer.",
    layers="blocks",
    embedding="wte",
    final_norm="norm_f",
    norm=NormKind.LAYER,
    norms=(
        NormPlace(role="input_norm", path="norm_attn_norm.norm_1"),
        NormPlace(role="pre_feed_forward_norm", path="norm_attn_norm.norm_2"),
    ),
    attention=AttentionStyle(
        path="norm_attn_norm.attn.",
        projections=("Wqkv", "out_proj"),
        dropout=Rate(("attn_pdrop",)),
    ),
    experts=ExpertStyle(
        router="ffn.router.layer",
        router_kind=ModuleKind.LINEAR,
        path="ffn.experts.mlp.",
        names=("w1", "v1", "w2"),
        count_keys=("moe_num_experts",),
        per_token_keys=("moe_top_k",),
        size_keys=("ffn_hidden_size",),
    ),
    residual_dropout=Rate(("resid_pdrop",)),
)


def dbrx(config: Config) -> ModelArchitecture:
    """Return DBRX, whose attention and experts have configs of their own.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    attention = config.section("attn_config") or Config({})
    experts = config.section("ffn_config")
    if experts is None:
        config.require("ffn_config")
    activation = experts.section("ffn_act_fn") or Config({})
    flat = config.replaced(
        num_key_value_heads=attention.get("kv_n_heads")[1],
        attn_pdrop=attention.get("attn_pdrop")[1],
        ffn_hidden_size=experts.get("ffn_hidden_size")[1],
        moe_num_experts=experts.get("moe_num_experts")[1],
        moe_top_k=experts.get("moe_top_k")[1],
        hidden_act=activation.get("name")[1],
    )
    return build_decoder(flat, _DBRX)


HUNYUAN_MOE = replace(
    HUNYUAN,
    family="hunyuan_moe",
    experts=ExpertStyle(
        router="mlp.gate.wg",
        router_kind=ModuleKind.LINEAR,
        count_keys=("num_experts", "num_local_experts"),
        per_token_keys=("moe_topk", "num_experts_per_tok"),
        shared=SharedExpertStyle(path="mlp.shared_mlp", size_keys=("intermediate_size",)),
    ),
)
DOTS1 = replace(
    DEEPSEEK,
    family="dots1",
    attention=AttentionStyle(
        bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, norm=HEAD_NORM, window=QWEN_WINDOW
    ),
    feed_forward=FeedForwardStyle(),
    experts=replace(DEEPSEEK_EXPERTS, sparse=after_none),
)
