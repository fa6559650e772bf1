"""How axolotl spreads a model: DeepSpeed, FSDP in both of its spellings, and model-parallel sizes.

Sources: axolotl 0.19.0 ``utils/schemas/fsdp.py``, ``utils/schemas/validation.py``
(``check_fsdp_config_kwargs_prefix``, ``check_fsdp_version_in_fsdp_config``), ``utils/trainer.py``
(``setup_fsdp_envs``, ``setup_parallelism_envs``).
"""

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.deepspeed.reader import say_deepspeed
from vramgate.launch.frameworks.fsdp import say_fsdp
from vramgate.launch.frameworks.tuners import at_least_one, nested, renamed
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found
from vramgate.launch.settings import Setting, Settings

_PREFIX = "fsdp_"
_WRAP = "TRANSFORMER_BASED_WRAP"
_STRATEGIES = frozenset(
    {"full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2"}
)
_TRAINER = {
    "micro_batch_size": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "fp16": "fp16",
    "optimizer": "optim",
    "max_grad_norm": "max_grad_norm",
    "learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
}
_SIZES = {
    "parallelism.tensor_parallel_size": ("tensor_parallel_size",),
    "parallelism.context_parallel_size": ("context_parallel_size", "sequence_parallel_degree"),
    "parallelism.expert_parallel_size": ("expert_parallel_size",),
}
_HALVES = frozenset({"true", "yes", "1", "auto"})


def say_sharding(settings: Settings, context: Context) -> None:
    """Say who shards what."""
    draft = context.draft
    deepspeed = settings.value("deepspeed")
    if deepspeed is not None and not (isinstance(deepspeed, Found) and not deepspeed.value):
        say_deepspeed(settings["deepspeed"], context, trainer=_trainer(settings))
    fsdp = fsdp_settings(settings)
    if fsdp:
        say_fsdp(fsdp, context)
    for field, names in _SIZES.items():
        draft.say(field, at_least_one(settings.whole(*names)))
    _say_groups(settings, draft)


def _trainer(settings: Settings) -> Settings:
    """Return what DeepSpeed's "auto" is filled from (``core/builders/base.py``)."""
    trainer = renamed(settings, _TRAINER)
    bf16, fp16 = settings.text("bf16"), settings.flag("fp16")
    if isinstance(fp16, Found) and fp16.value:
        return trainer
    if bf16 is None:
        on = Setting(said=True, source="axolotl default (bf16 auto)")
        return Settings({"bf16": on}).over(trainer)
    if isinstance(bf16, Found):
        said = bf16.value.lower() in _HALVES
        return Settings({"bf16": Setting(said=said, source=bf16.source)}).over(trainer)
    return Settings({"bf16": settings["bf16"]}).over(trainer)


def fsdp_settings(settings: Settings) -> Settings:
    """Return FSDP's settings under accelerate's names; empty where FSDP is not used."""
    parts: dict[str, Setting] = {}
    for name, setting in nested(settings, "fsdp_config").items():
        full = name if name.startswith(_PREFIX) else f"{_PREFIX}{name}"
        if setting.said is not None:
            parts[full] = setting
    words = settings.texts("fsdp")
    listed = words.value if isinstance(words, Found) else ()
    if not parts and not listed:
        return Settings()
    version = settings.get("fsdp_version")
    if version is not None and version.said is not None:
        parts["fsdp_version"] = version
    # check_fsdp_version_in_fsdp_config: axolotl pins FSDP1 where no version is given.
    parts.setdefault("fsdp_version", Setting(said=1, source="axolotl default (fsdp_version)"))
    if isinstance(words, Found):
        for word in (part for text in words.value for part in text.lower().split()):
            _take_word(word, words.source, parts)
    # transformers 5.16 training_args.py, _process_fsdp_args: every layer is wrapped.
    parts.setdefault("fsdp_auto_wrap_policy", Setting(said=_WRAP, source="transformers default"))
    return Settings(parts)


def _take_word(word: str, source: str, parts: dict[str, Setting]) -> None:
    """Take one word of the old list: ``[full_shard, auto_wrap, offload]``."""
    if word in _STRATEGIES:
        said = Setting(said=word.upper(), source=source)
        parts.setdefault("fsdp_sharding_strategy", said)
    elif word == "offload":
        parts.setdefault("fsdp_offload_params", Setting(said=True, source=source))
    elif word == "auto_wrap":
        parts.setdefault("fsdp_auto_wrap_policy", Setting(said=_WRAP, source=source))


def _say_groups(settings: Settings, draft: Draft) -> None:
    """Say the ranks of a shard where there are several copies of it."""
    copies, ranks = settings.whole("dp_replicate_size"), settings.whole("dp_shard_size")
    if isinstance(copies, Found) and isinstance(ranks, Found) and copies.value > 1:
        draft.say("sharding.shard_group_size", at_least_one(ranks))
