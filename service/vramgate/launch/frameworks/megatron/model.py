"""Reads the model's shape from Megatron's arguments.

Defaults and rules: Megatron-LM ``training/arguments.py`` (d98e8a64); a configuration without the
command line's defaults has those of ``core/transformer/transformer_config.py``.
"""

import re
from dataclasses import replace

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.megatron.arguments import Arguments, flag
from vramgate.launch.frameworks.megatron.layers import read_experts, read_latent, read_mamba
from vramgate.launch.frameworks.megatron.shape import Shape
from vramgate.launch.frameworks.megatron.sizes import Sizes
from vramgate.launch.reading import Found, Misread, Unseen

_REQUIRED = ("hidden_size", "num_attention_heads", "max_position_embeddings")
_LAYERS = ("num_layers", "encoder_num_layers")
_PATTERNS = ("hybrid_layer_pattern", "hybrid_override_pattern")

BUILT_IN_CODE = {
    "language_model_type": "the language model's sizes, vision tower and projector are in the program",
    "heterogeneous_layers_config_path": "each layer has its own shape, in a file of its own",
    "heterogeneous_layers_config_encoded_json": "each layer has its own shape",
    "experimental_attention_variant": "attention is of an experimental kind",
    "linear_attention_freq": "some layers have linear attention",
    "enable_mhc_connections": "layers have hyper-connections",
    "retro_add_retriever": "the model has a retriever",
    "yaml_cfg": "the arguments are in a file of their own",
    "use_checkpoint_args": "the model's sizes are in the checkpoint",
    "vision_pretraining": "the model is a vision transformer",
    "attention_output_gate": "attention has an output gate",
    "moe_use_upcycling": "a dense checkpoint is made into experts",
}
"""Options by which the other sizes do not describe the model any more, and why."""

_OTHER_MODELS = ("pretrain_vlm", "pretrain_ict", "pretrain_t5", "pretrain_retro", "pretrain_vision")
HINT = "give the model's config.json in model.config, or VRAMGATE_MODEL"


def read_shape(arguments: Arguments, rows: int, draft: Draft) -> Shape | Unseen | None:
    """Return the shape with an embedding of so many rows, why it cannot be seen, or None.

    None: the arguments say nothing of a model, or what they say was reported as a problem.
    """
    outside = built_elsewhere(arguments)
    if outside is not None:
        return outside
    missing = _missing(arguments)
    if missing and arguments.hidden:
        word = arguments.hidden[0]
        reason = f"{word.unresolved[0]} has no value here, and the model's sizes may be in it"
        return Unseen(word.source, reason, f"give {word.unresolved[0]} in launch.env")
    if missing:
        if arguments.is_command_line:
            draft.problem(_missing_problem(arguments, missing))
        return None
    sizes = Sizes(arguments)
    shape = _shape(sizes, rows, draft)
    if sizes.unseen:
        return sizes.unseen[0]
    for misread in sizes.misread:
        draft.misread("model.config", misread)
    return None if sizes.misread or sizes.refused else shape


def built_elsewhere(arguments: Arguments) -> Unseen | None:
    """Return why the sizes do not describe the model, where they do not."""
    for name, why in BUILT_IN_CODE.items():
        setting = arguments.settings.value(name)
        if isinstance(setting, Unseen) or (isinstance(setting, Found) and setting.value):
            return Unseen(setting.source, why, HINT)
    experts = arguments.settings.whole("num_experts")
    if arguments.on("deepspeed") and isinstance(experts, Found) and experts.value > 1:
        return Unseen(experts.source, "Megatron-DeepSpeed's experts are no family known here", HINT)
    program = arguments.program.rpartition("/")[2]
    if program.startswith(_OTHER_MODELS):
        return Unseen(program, f"no family known here is what {program} builds", HINT)
    return None


def _missing(arguments: Arguments) -> list[str]:
    settings = arguments.settings
    missing = [name for name in _REQUIRED if name not in settings]
    if not any(name in settings for name in (*_LAYERS, *_PATTERNS)):
        missing.insert(0, _LAYERS[0])
    return missing


def _missing_problem(arguments: Arguments, missing: list[str]) -> Problem:
    flags = " and ".join(map(flag, missing))
    return Problem(
        rule="missing_argument",
        detail=f"{flags} {'is' if len(missing) == 1 else 'are'} missing",
        fix=f"add {flags}",
        values={arguments.program: None},
        field="model",
    )


def _shape(sizes: Sizes, rows: int, draft: Draft) -> Shape | None:
    dense = _dense(sizes, rows)
    mamba = read_mamba(sizes, dense.hidden)
    latent = read_latent(sizes) if sizes.switch("multi_latent_attention") else None
    layers = len(mamba.pattern) if mamba else dense.layers
    program = sizes.arguments.program.rpartition("/")[2]
    shape = replace(
        dense,
        layers=layers,
        groups=dense.heads if latent else dense.groups,
        experts=read_experts(sizes, layers, dense.intermediate, draft),
        latent=latent,
        mamba=mamba,
        prediction_layers=sizes.layers("mtp_num_layers"),
        is_bert=program.startswith("pretrain_bert"),
        binary_head=not sizes.switch("bert_no_binary_head"),
    )
    return shape if layers and shape.hidden and shape.heads and shape.head_dim else None


def _dense(sizes: Sizes, rows: int) -> Shape:
    """Return the shape as far as it is a dense decoder's."""
    hidden = sizes.whole("hidden_size", default=0)
    heads = sizes.whole("num_attention_heads", default=0)
    gated, activation = _activation(sizes)
    default = _default_intermediate(hidden, gated=gated and sizes.switch("swiglu"))
    position = _position(sizes)
    bias = sizes.switch(
        "add_bias_linear", "disable_bias_linear", "no_add_bias_linear", default=True
    )
    return Shape(
        layers=sizes.layers(*_LAYERS),
        hidden=hidden,
        heads=heads,
        groups=_groups(sizes, heads),
        head_dim=sizes.whole("kv_channels", default=0) or _head_dim(hidden, heads, sizes),
        intermediate=sizes.whole("ffn_hidden_size", default=default),
        vocabulary=rows,
        positions=sizes.whole("max_position_embeddings", default=0),
        learned_positions=position == "learned_absolute",
        rotary_percent=_rotary(sizes, position),
        rms=sizes.text("normalization", default="LayerNorm").lower() == "rmsnorm",
        gated=gated,
        activation=activation,
        bias=bias,
        qkv_bias=bias or sizes.switch("add_qkv_bias"),
        qk_norm=sizes.switch("qk_layernorm"),
        tied=_tied(sizes),
        hidden_dropout=sizes.number("hidden_dropout", default=0.1),
        attention_dropout=sizes.number("attention_dropout", default=0.1),
        window=_window(sizes),
        sinks=sizes.text("softmax_type", default="vanilla") == "learnable",
    )


def _head_dim(hidden: int, heads: int, sizes: Sizes) -> int:
    if heads and hidden % heads == 0:
        return hidden // heads
    source = sizes.arguments.settings["num_attention_heads"].source
    if heads and hidden:
        sizes.misread.append(
            Misread(source, heads, f"a divisor of the hidden size {hidden} (or give --kv-channels)")
        )
    return 0


def _default_intermediate(hidden: int, *, gated: bool) -> int:
    # validate_args: two thirds of 4h, whole multiples of 64, with --swiglu.
    return int((4 * hidden * 2 / 3) / 64) * 64 if gated else 4 * hidden


def _activation(sizes: Sizes) -> tuple[bool, str]:
    """Return whether the feed-forward is gated, and its activation as transformers names it."""
    if sizes.switch("swiglu"):
        return True, "silu"
    if sizes.switch("squared_relu"):
        return False, "relu2"
    if sizes.switch("quick_geglu"):
        return True, "quick_gelu"
    named = sizes.text("activation_func", default="gelu").rpartition(".")[2].lower()
    known = {"silu": "silu", "squared_relu": "relu2", "quick_gelu": "quick_gelu"}
    return sizes.switch("gated_linear_unit"), known.get(named, "gelu")


def _groups(sizes: Sizes, heads: int) -> int:
    if "num_key_value_heads" in sizes.arguments.settings:  # Megatron-DeepSpeed
        return sizes.whole("num_key_value_heads", default=heads) or heads
    asked = sizes.switch("group_query_attention", default=not sizes.arguments.is_command_line)
    if not asked:
        return heads
    default = 1 if sizes.arguments.is_command_line else heads
    return sizes.whole("num_query_groups", default=default) or heads


def _position(sizes: Sizes) -> str:
    if sizes.switch("use_rotary_position_embeddings") or sizes.switch("enable_gpt_oss"):
        return "rope"
    return sizes.text("position_embedding_type", default="learned_absolute")


def _rotary(sizes: Sizes, position: str) -> float:
    percent = sizes.number("rotary_percent", default=1.0)
    return percent if position in {"rope", "yarn", "mrope"} else 0.0


def _tied(sizes: Sizes) -> bool:
    untied = sizes.switch("untie_embeddings_and_output_weights")
    return sizes.switch("share_embeddings_and_output_weights", default=not untied)


def _window(sizes: Sizes) -> int | None:
    if "window_attn_skip_freq" in sizes.arguments.settings:
        return None
    text = sizes.text("window_size", default="").strip("()[] ")
    first = text.partition(",")[0].strip()
    return int(first) + 1 if re.fullmatch(r"\d{1,9}", first) else None
