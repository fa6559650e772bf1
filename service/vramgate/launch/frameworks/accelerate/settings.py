"""accelerate's words under one name each: from its YAML, from flags, from variables.

Sources: accelerate 1.15.0 ``commands/launch.py`` (``_validate_launch_command``: flags over the file, a
section's key ``x`` as ``fsdp_x``, ``fp8_x``, ``dynamo_x``), ``commands/config/config_args.py``,
``utils/launch.py`` (variables).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from vramgate.launch.files import Files
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.words import Word

_SECTIONS: Mapping[str, str] = {
    "deepspeed_config": "",
    "megatron_lm_config": "",
    "mpirun_config": "",
    "fsdp_config": "fsdp_",
    "fp8_config": "fp8_",
    "dynamo_config": "dynamo_",
    "parallelism_config": "parallelism_config_",
}
"""A section, and how its keys begin on the command line."""

DEFAULT_FILE = "~/.cache/huggingface/accelerate/default_config.yaml"

_SWITCHES: Mapping[str, str] = {
    "ACCELERATE_USE_DEEPSPEED": "use_deepspeed",
    "ACCELERATE_USE_FSDP": "use_fsdp",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "use_parallelism_config",
    "ACCELERATE_MIXED_PRECISION": "mixed_precision",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "gradient_accumulation_steps",
    "ACCELERATE_DYNAMO_BACKEND": "dynamo_backend",
    "ACCELERATE_DEEPSPEED_CONFIG_FILE": "deepspeed_config_file",
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": "zero_stage",
    "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": "offload_optimizer_device",
    "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE": "offload_param_device",
    "ACCELERATE_FP8_BACKEND": "fp8_backend",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "fsdp_transformer_layer_cls_to_wrap",
}
_PREFIXES = ("FSDP_", "PARALLELISM_CONFIG_")
_NOT_A_FILE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """All of accelerate's words; ``unseen`` where its file did not come along."""

    settings: Settings
    unseen: Unseen | None = None


def with_config_file(settings: Settings, files: Files) -> Resolved:
    """Return settings over those of the file they name, or of the default file where it was sent.

    Raises:
        UnreadableLaunchError: the file was sent and holds no object.
    """
    setting = settings.get("config_file")
    said = settings.text("config_file")
    if isinstance(said, Unseen):
        return Resolved(settings=settings, unseen=said)
    path = said.value if isinstance(said, Found) else DEFAULT_FILE
    source = setting.source if setting is not None else "accelerate launch"
    found = files.find(Word(text=path, source=source))
    if isinstance(found, Found):
        name = found.value.name
        values = {
            str(key): Setting(said=value, source=f"{name}: {key}")
            for key, value in found.value.mapping().items()
        }
        return Resolved(settings=settings.over(Settings(values)))
    if setting is not None and isinstance(found, Unseen):
        return Resolved(settings=settings, unseen=found)
    return Resolved(settings=settings)


def flattened(settings: Settings) -> Settings:
    """Return the settings with those of sections beside them; what stands outside a section goes before."""
    inner: dict[str, Setting] = {}
    for section, prefix in _SECTIONS.items():
        setting = settings.get(section)
        if setting is None or not isinstance(setting.said, Mapping):
            continue
        for key, value in setting.said.items():
            name = str(key) if str(key).startswith(prefix) else f"{prefix}{key}"
            inner[name] = Setting(said=value, source=f"{setting.source}.{key}")
    outer = {name: one for name, one in settings.items() if name not in _SECTIONS}
    return Settings(outer).over(Settings(inner))


def is_from_file(setting: Setting | None) -> bool:
    """Return whether a setting stands in a file, not on a command line or among variables."""
    return setting is not None and not (
        isinstance(setting.said, tuple) and all(isinstance(word, Word) for word in setting.said)
    )


def of_environment(environment: Mapping[str, Word]) -> Settings:
    """Return what variables say in place of ``accelerate launch``, which sets them itself."""
    settings: dict[str, Setting] = {}
    for name, word in environment.items():
        known = _SWITCHES.get(name)
        if known is None and name.startswith(_PREFIXES):
            known = name.lower()
        if known is not None and word.text != _NOT_A_FILE:
            settings[known] = Setting(said=(word,), source=word.source)
    return Settings(settings)
