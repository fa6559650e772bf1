"""What a site's words say of the model: its name, its sizes, or the config that came along."""

from collections.abc import Mapping
from typing import Any

from vramgate.costmodel.families import architecture_from_config
from vramgate.errors import DomainError
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.settings import Settings
from vramgate.launch.words import Word

_SIZES: Mapping[str, str] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "intermediate": "intermediate_size",
    "heads": "num_attention_heads",
    "kv-heads": "num_key_value_heads",
    "vocab": "vocab_size",
}
_NEEDED = frozenset({"layers", "hidden", "intermediate", "heads", "vocab"})
_SAME_SIZE = 0.01
"""``params=8.03e9`` is rounded: a shape whose count differs by less is the model's."""
_EXPECTED = "a name, or sizes: params=8.03e9,layers=32,hidden=4096"


def say_model(settings: Settings, key: str, context: Context) -> None:
    """Say the model: a hub's id, ``params=8.03e9,layers=32,…``, or a ``config.json`` that was sent."""
    reading = settings.text(key)
    if not isinstance(reading, Found):
        _say(context, "model.name", reading)
    elif reading.value.startswith("sha256:") or reading.value.endswith(".json"):
        _say(context, "model.config", _config(reading, context))
    elif "=" in reading.value:
        _say_sizes(reading, context)
    else:
        _say(context, "model.name", reading)


def _say(context: Context, field: str, reading: Reading[Any]) -> None:
    if isinstance(reading, Found | Unseen):
        context.draft.forget("model")
    context.draft.say(field, reading)


def _config(reading: Found[str], context: Context) -> Reading[Mapping[str, Any]]:
    name = reading.value.removeprefix("sha256:")
    found = context.files.find(Word(text=name, source=reading.source))
    if not isinstance(found, Found):
        return found
    return Found(found.value.mapping(), reading.source)


def _say_sizes(reading: Found[str], context: Context) -> None:
    sizes = _sizes(reading.value)
    if sizes is None:
        context.draft.misread("model.parameters", Misread(reading.source, reading.value, _EXPECTED))
        return
    parameters = sizes.pop("params", None)
    config = _llama_config(sizes)
    count = _parameters(config) if config is not None else None
    if count is not None and (
        parameters is None or abs(count - parameters) <= _SAME_SIZE * parameters
    ):
        _say(context, "model.config", Found(config, reading.source))
        return
    if parameters is None:
        needed = ", ".join(sorted(_NEEDED - sizes.keys())) or "sizes that go together"
        unseen = Unseen(reading.source, f"the sizes lack params, or {needed}", "add params=")
        _say(context, "model.parameters", unseen)
        return
    _say(context, "model.parameters", Found(parameters, reading.source))
    if sizes:
        context.draft.warn(
            "model_sizes_not_taken",
            f"Of {reading.source} only params was taken: the other sizes do not make up a"
            " Llama-type model of that many parameters. Give the model's config.json.",
        )


def _sizes(text: str) -> dict[str, int] | None:
    """Return sizes by name, None where one is not a number or not known."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, said = part.strip().partition("=")
        name = name.strip().lower().replace("_", "-")
        try:
            number = float(said)
        except ValueError:
            return None
        if (name != "params" and name not in _SIZES) or not 1 <= number < float("inf"):
            return None
        sizes[name] = int(number)
    return sizes


def _llama_config(sizes: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the config of a Llama-type model of these sizes, None where they do not suffice."""
    if not sizes.keys() >= _NEEDED:
        return None
    return {"model_type": "llama"} | {_SIZES[name]: size for name, size in sizes.items()}


def _parameters(config: Mapping[str, Any]) -> int | None:
    try:
        return int(architecture_from_config(config).parameters)
    except DomainError:
        return None
