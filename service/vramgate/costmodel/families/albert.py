"""ALBERT: layers that share their weights.

Source: Lan et al. 2020 and the modeling file in transformers 5.24.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import (
    ModelArchitecture,
    Module,
    Part,
    Stack,
    linear,
)
from vramgate.costmodel.families.config import (
    MAX_LAYERS,
    Config,
    Rate,
)
from vramgate.costmodel.families.encoder import (
    BERT,
    EncoderSizes,
    embedding_modules,
    encoder_around,
    encoder_block,
    encoder_sizes,
    root_of,
)

ALBERT = replace(
    BERT,
    family="albert",
    root="albert.",
    projections=("attention.query", "attention.key", "attention.value", "attention.dense"),
    feed_forward=("ffn", "ffn_output"),
    norms=("attention.LayerNorm", "full_layer_layer_norm"),
    dropout=Rate(("hidden_dropout_prob",)),
    attention_dropout=Rate(("attention_probs_dropout_prob",)),
    heads="albert",
)


def build_albert(config: Config) -> ModelArchitecture:
    """Return ALBERT: all layers of a group are the same weights.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = encoder_sizes(config.replaced(embedding_size=_albert_width(config)), ALBERT)
    root, hidden = root_of(config, ALBERT.root), sizes.hidden
    layers = _shared_layers(config, sizes, f"{root}encoder.albert_layer_groups")
    into = linear(
        f"{root}encoder.embedding_hidden_mapping_in",
        Part.EMBEDDING,
        "embedding_project_in",
        sizes.embedding,
        hidden,
        bias=True,
    )
    outside = (*embedding_modules(root, sizes), into)
    return encoder_around(config, ALBERT, sizes, layers, outside)


def _shared_layers(config: Config, sizes: EncoderSizes, path: str) -> Stack:
    """Return the layers: in groups, each group ``inner_group_num`` layers used over and over."""
    groups = config.whole("num_hidden_groups", at_most=MAX_LAYERS, default=1)
    inner = config.whole("inner_group_num", at_most=MAX_LAYERS, default=1)
    if groups > sizes.layers:
        detail = f"{groups} groups for {sizes.layers} layers"
        config.refuse("num_hidden_groups", detail, code="contradiction")
    if inner * sizes.layers > MAX_LAYERS:
        config.refuse("inner_group_num", f"more than {MAX_LAYERS} layers", code="out_of_range")
    block = encoder_block(config, ALBERT, sizes)
    return Stack(
        name="encoder",
        hidden_size=sizes.hidden,
        blocks=tuple(
            replace(block, modules=tuple(_inside(m, i) for m in block.modules))
            for _ in range(groups)
            for i in range(inner)
        ),
        layers=tuple(
            layer * groups // sizes.layers * inner + i
            for layer in range(sizes.layers)
            for i in range(inner)
        ),
        path=path,
        shared=True,
    )


def _albert_width(config: Config) -> int:
    """Return the width of the embedding."""
    return config.whole("embedding_size", default=128)


def _inside(module: Module, index: int) -> Module:
    """Return a module of a group's ``index``-th layer."""
    return replace(module, path=f"albert_layers.{index}.{module.path}")
