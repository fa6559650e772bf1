"""How ms-swift spreads a model: its DeepSpeed and FSDP files by name, and sequence parallelism.

Sources: ms-swift 4.6.0 ``arguments/sft_args.py`` (``_init_deepspeed``, ``_init_fsdp``),
``config/fsdp2.json``; 2.6.1 ``llm/utils/argument.py`` (``default-zero2``).
"""

from collections.abc import Mapping
from typing import Any

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.deepspeed.reader import say_deepspeed
from vramgate.launch.frameworks.dotted import assume_packaged
from vramgate.launch.frameworks.fsdp import say_fsdp
from vramgate.launch.frameworks.hugging_face.sharding import say_sharding as say_hf_sharding
from vramgate.launch.frameworks.ms_swift.training import autocast_dtype
from vramgate.launch.frameworks.tuners import at_least_one, is_config
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.settings import Setting, Settings, of_document
from vramgate.launch.words import Word

_BEFORE_3 = {
    "default-zero2": "zero2",
    "default-zero3": "zero3",
    "zero2-offload": "zero2_offload",
    "zero3-offload": "zero3_offload",
}
_FSDP2 = "ms-swift swift/config/fsdp2.json"
_FSDP2_CONFIG = {
    "fsdp_version": 2,
    "fsdp_reshard_after_forward": True,
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_cpu_ram_efficient_loading": True,
    "fsdp_activation_checkpointing": True,
}
_FROM_CHECKPOINT = "ms-swift default (the checkpoint's dtype)"


def say_sharding(settings: Settings, context: Context) -> None:
    """Say who shards what."""
    draft = context.draft
    _say_deepspeed(settings, context)
    _say_fsdp(settings, context)
    draft.say(
        "parallelism.context_parallel_size", at_least_one(settings.whole("sequence_parallel_size"))
    )
    draft.say(
        "parallelism.tensor_parallel_size",
        at_least_one(settings.whole("deepspeed_autotp_size", "tp")),
    )
    draft.say("parallelism.pipeline_parallel_size", at_least_one(settings.whole("pp")))
    group = settings.whole("zero_hpz_partition_size")
    if isinstance(group, Found) and group.value > 1:
        draft.warn(
            "second_partition",
            f"{group.source} keeps a second copy of the weights within {group.value} ranks, which"
            " is not estimated.",
        )


def _say_deepspeed(settings: Settings, context: Context) -> None:
    setting = settings.get("deepspeed") or settings.get("deepspeed_config_path")
    said = settings.text("deepspeed", "deepspeed_config_path")
    if setting is None or said is None:
        return
    if isinstance(said, Found) and said.value in _BEFORE_3:
        setting = Setting(said=_BEFORE_3[said.value], source=said.source)
    say_deepspeed(setting, context, trainer=_trainer(settings))


def _trainer(settings: Settings) -> Settings:
    """Return what DeepSpeed's "auto" is filled from; mixed precision follows the weights' format."""
    batch = settings.get("per_device_train_batch_size") or settings.get("batch_size")
    own = {} if batch is None else {"per_device_train_batch_size": batch}
    products = autocast_dtype(settings)
    if products is None:
        own["bf16"] = Setting(said=True, source=_FROM_CHECKPOINT)
    elif products.value is not None:
        own[products.value.value] = Setting(said=True, source=products.source)
    return Settings(own).over(settings)


def _say_fsdp(settings: Settings, context: Context) -> None:
    said = settings.text("fsdp")
    if isinstance(said, Unseen):
        context.draft.unknown("sharding", said)
    if not isinstance(said, Found):
        return
    if said.value == "fsdp2":
        say_fsdp(of_document(_FSDP2_CONFIG, _FSDP2), context)
        assume_packaged(context.draft, _FSDP2)
        return
    stack = context.draft.said("software.stack")
    versions = stack.value if stack else None
    if not is_config(Word(text=said.value, source=said.source)):
        own = {name: settings[name] for name in ("fsdp", "fsdp_config") if name in settings}
        say_hf_sharding(Settings(own), context, stack=versions)
        return
    file = context.files.find(Word(text=said.value, source=said.source))
    if not isinstance(file, Found):
        _say_unsent(file, context.draft)
        return
    words = _of_file(file.value.mapping(), file.value.name)
    say_hf_sharding(words, context, stack=versions)


def _say_unsent(file: Reading[object], draft: Draft) -> None:
    if isinstance(file, Unseen):
        draft.unknown("sharding", file)


def _of_file(values: Mapping[str, Any], name: str) -> Settings:
    """Return a file's ``fsdp`` and ``fsdp_config`` as the Trainer has them; the version is 2."""
    config = values.get("fsdp_config")
    own: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    settings = of_document(values, name)
    if {"fsdp_version", "version"} & set(own):
        return settings
    with_version = {**own, "version": 2}
    said = Setting(said=with_version, source=f"{name}: fsdp_config")
    words = settings.get("fsdp") or Setting(said="full_shard auto_wrap", source=f"{name}: fsdp")
    return Settings({"fsdp_config": said, "fsdp": words})
