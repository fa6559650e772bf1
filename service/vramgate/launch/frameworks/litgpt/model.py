"""litgpt's models: a checkpoint's folder, a name of ``litgpt/config.py``, or a configuration of its own."""

from collections.abc import Mapping
from typing import Any

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.litgpt.config import Options
from vramgate.launch.frameworks.litgpt.job import Subcommand
from vramgate.launch.reading import Found, Reading, Unseen, value_or
from vramgate.launch.settings import Settings

_NAMES: Mapping[str, str] = {
    "tiny-llama-1.1b": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "tiny-llama-1.1b-chat": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
}
"""Names of litgpt's own; all its others are those of repositories (0.5.13, 141 models)."""


def say_model(command: Subcommand, options: Options, draft: Draft) -> None:
    """Keep the model; ``pretrain`` prefers model_config to model_name, others have a folder."""
    settings = options.settings
    own = _own_config(settings)
    if own is not None:
        draft.say("model.config", own)
        return
    reading = _name(command, options)
    if isinstance(reading, Found):
        path = reading.value.rstrip("/") or reading.value
        reading = Found(_NAMES.get(path, path), reading.source)
    draft.say("model.name", reading)


def _name(command: Subcommand, options: Options) -> Reading[str]:
    named = "model_name" if command.pretrains else "checkpoint_dir"
    reading = options.settings.text(named, "checkpoint_dir", "model_name")
    if options.first is None:
        return reading
    word = options.first
    if not word.is_known:
        hidden = word.unresolved[0]
        return Unseen(word.source, f"{hidden} has no value here", f"give {hidden} in launch.env")
    return Found(word.text, word.source)


def _own_config(settings: Settings) -> Reading[Mapping[str, Any]]:
    """Return a Hugging Face config for a model_config of Llama's kind; None where there is none."""
    layers = settings.whole("model_config.n_layer")
    if layers is None:
        return None
    sizes = {name: settings.whole(*ways) for name, ways in _SIZES.items()}
    unseen = next((one for one in (layers, *sizes.values()) if isinstance(one, Unseen)), None)
    if unseen is not None:
        return unseen
    kind = value_or(settings.text("model_config.mlp_class_name"), "GptNeoxMLP")
    complete = all(isinstance(one, Found) for one in (layers, *sizes.values()))
    if not isinstance(layers, Found) or not complete or kind != "LLaMAMLP":
        source = settings["model_config.n_layer"].source
        reason = f"a model_config with {kind[:40]} is not known here"
        return Unseen(source, reason, "give the model's parameters in model.parameters")
    known = {name: value_or(reading, 0) for name, reading in sizes.items()}
    return Found(_llama(layers.value, known, settings), layers.source)


_SIZES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("model_config.n_embd",),
    "num_attention_heads": ("model_config.n_head",),
    "intermediate_size": ("model_config.intermediate_size",),
    "vocab_size": ("model_config.padded_vocab_size", "model_config.vocab_size"),
}


def _llama(layers: int, sizes: Mapping[str, int], settings: Settings) -> dict[str, Any]:
    """Return the config of a Llama with these sizes.

    ``litgpt/model.py``: LLaMAMLP has gate, up and down; the head is the embedding's only with
    train.tie_embeddings.
    """
    groups = settings.whole("model_config.n_query_groups")
    config: dict[str, Any] = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": layers,
        **sizes,
        "num_key_value_heads": value_or(groups, sizes["num_attention_heads"]),
        "tie_word_embeddings": value_or(settings.flag("train.tie_embeddings"), default=False),
    }
    head = settings.whole("model_config.head_size")
    block = settings.whole("model_config.block_size")
    if isinstance(head, Found):
        config["head_dim"] = head.value
    if isinstance(block, Found):
        config["max_position_embeddings"] = block.value
    return config
