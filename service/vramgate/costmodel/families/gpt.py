"""GPT-2 and its relatives: GPTBigCode, GPT-J, GPT-Neo, NeoX, CodeGen.

Source of every trait: the modeling file of the family in transformers 5.24.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    BlockLayout,
    ModelArchitecture,
    ModuleKind,
    NormKind,
    Position,
)
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    Config,
    Rate,
    Switch,
)
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.parts import HEAD_KEYS
from vramgate.costmodel.families.style import (
    GPT_NORMS,
    AttentionStyle,
    DecoderStyle,
    FeedForwardStyle,
    MaskBuffer,
    NormPlace,
    Window,
)

GPT2 = DecoderStyle(
    family="gpt2",
    root="transformer.",
    layers="h",
    embedding="wte",
    position_embedding="wpe",
    final_norm="ln_f",
    tied=True,
    linear=ModuleKind.CONV1D,
    norm=NormKind.LAYER,
    norm_bias=True,
    norms=GPT_NORMS,
    attention=AttentionStyle(
        path="attn.",
        projections=("c_attn", "c_proj"),
        bias=True,
        output_bias=True,
        position=Position.LEARNED,
        dropout=Rate(("attn_pdrop",), 0.1),
    ),
    feed_forward=FeedForwardStyle(
        names=("c_fc", "c_proj"),
        gated=False,
        bias=True,
        activation="gelu_new",
        activation_keys=("activation_function",),
        size_keys=("n_inner",),
        times_hidden=4,
    ),
    residual_dropout=Rate(("resid_pdrop",), 0.1),
    embedding_dropout=Rate(("embd_pdrop",), 0.1),
)


_BIGCODE = replace(
    GPT2,
    family="gpt_bigcode",
    linear=ModuleKind.LINEAR,
    feed_forward=replace(GPT2.feed_forward, activation="gelu_pytorch_tanh"),
    mask_buffer=MaskBuffer.ONCE,
)


GPTJ = replace(
    GPT2,
    family="gptj",
    linear=ModuleKind.LINEAR,
    position_embedding=None,
    head_bias=True,
    tied=False,
    norms=(NormPlace(role="input_norm", path="ln_1"),),
    layout=BlockLayout.PARALLEL,
    attention=replace(
        GPT2.attention,
        projections=("q_proj", "k_proj", "v_proj", "out_proj"),
        bias=False,
        output_bias=False,
        position=Position.ROTARY,
        rotary_dim_default=64,
        dropout=Rate(("attn_pdrop",)),
    ),
    feed_forward=replace(GPT2.feed_forward, names=("fc_in", "fc_out")),
    residual_dropout=Rate(("resid_pdrop",)),
    embedding_dropout=Rate(("embd_pdrop",)),
    rotary_table_rows=True,
)


CODEGEN = replace(
    GPTJ,
    family="codegen",
    attention=replace(GPTJ.attention, projections=("qkv_proj", "out_proj")),
)


_NEOX = DecoderStyle(
    family="gpt_neox",
    root="gpt_neox.",
    embedding="embed_in",
    final_norm="final_layer_norm",
    former_head="embed_out",
    norm=NormKind.LAYER,
    norm_bias=True,
    attention=AttentionStyle(
        path="attention.",
        projections=("query_key_value", "dense"),
        bias=Switch("attention_bias", default=True),
        output_bias=Switch("attention_bias", default=True),
        partial_rotary=0.25,
    ),
    feed_forward=FeedForwardStyle(
        names=("dense_h_to_4h", "dense_4h_to_h"), gated=False, bias=True, activation="gelu"
    ),
    residual_dropout=Rate(("hidden_dropout",)),
    embedding_dropout=Rate(("hidden_dropout",)),
)


def gpt2(config: Config) -> ModelArchitecture:
    """Return GPT-2.

    Raises:
        InvalidModelConfigError: a key is missing or malformed, or cross-attention is asked for.
    """
    refuse_cross_attention(config)
    return build_decoder(config, GPT2)


def refuse_cross_attention(config: Config) -> None:
    """Raise where a decoder is to have cross-attention, which no builder counts.

    Raises:
        InvalidModelConfigError: ``add_cross_attention`` is true.
    """
    if config.flag(Switch("add_cross_attention", default=False)):
        hint = "Describe the encoder-decoder model by the config.json of its own family."
        config.refuse("add_cross_attention", "true is not supported", hint=hint)


def gpt_bigcode(config: Config) -> ModelArchitecture:
    """Return GPTBigCode (SantaCoder, StarCoder): GPT-2, with ``multi_query`` one key-value head.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    refuse_cross_attention(config)
    multi_query = config.flag(Switch("multi_query", default=True))
    kv_heads = 1 if multi_query else config.whole(*HEAD_KEYS, at_most=MAX_HEADS)
    return build_decoder(config.replaced(num_key_value_heads=kv_heads), _BIGCODE)


def gpt_neo(config: Config) -> ModelArchitecture:
    """Return GPT-Neo: separate projections, every second layer local.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return build_decoder(config, _GPT_NEO)


def local_layers(config: Config, layers: int) -> tuple[bool, ...]:
    """Return which layers of GPT-Neo are local: ``attention_types``, [[["global", "local"], 6]].

    Raises:
        InvalidModelConfigError: it is malformed or names another number of layers.
    """
    _, groups = config.get("attention_types")
    if groups is None:
        return tuple(layer % 2 == 1 for layer in range(layers))
    kinds: list[bool] = []
    for group in groups if isinstance(groups, (list, tuple)) else (None,):
        if not isinstance(group, (list, tuple)) or len(group) != len(("names", "times")):
            config.refuse("attention_types", "it is no list of [names, times]", code="type")
        names, times = group
        if not isinstance(names, (list, tuple)) or type(times) is not int:
            config.refuse("attention_types", "it is no list of [names, times]", code="type")
        if not 0 < len(kinds) + times * len(names) <= layers:
            break
        kinds.extend([name == "local" for name in names] * times)
    if len(kinds) != layers:
        detail = f"it does not name {layers} layers"
        config.refuse("attention_types", detail, code="contradiction")
    return tuple(kinds)


_GPT_NEO = replace(
    GPT2,
    family="gpt_neo",
    mask_buffer=MaskBuffer.EACH_LAYER,
    linear=ModuleKind.LINEAR,
    attention=replace(
        GPT2.attention,
        path="attn.attention.",
        projections=("q_proj", "k_proj", "v_proj", "out_proj"),
        bias=False,
        dropout=Rate(("attention_dropout",)),
        window=Window(default=256, key="window_size", rule=local_layers),
    ),
    feed_forward=replace(GPT2.feed_forward, size_keys=("intermediate_size",)),
    residual_dropout=Rate(("resid_dropout",)),
    embedding_dropout=Rate(("embed_dropout",)),
)


def gpt_neox(config: Config) -> ModelArchitecture:
    """Return GPT-NeoX (Pythia, Dolly): both halves read the stream, each through its norm.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    parallel = config.flag(Switch("use_parallel_residual", default=True))
    layout = BlockLayout.PARALLEL if parallel else BlockLayout.PRE_NORM
    return build_decoder(config, replace(_NEOX, layout=layout))
