"""Sharding as transformers' ``TrainingArguments`` say it: deepspeed, fsdp, parallelism_config.

FSDP goes to ``say_fsdp`` under accelerate's names, DeepSpeed's file to ``say_deepspeed``.

Sources: transformers 4.45.2 to 5.24.0 ``training_args.py`` (``_process_fsdp_args``, ``__post_init__``):
FSDP2 is the default from 5.10 on, and every version from there on wraps the layers; before, only
``auto_wrap`` does. ``trainer.py``: fsdp with deepspeed is refused.
"""

from collections.abc import Iterable, Mapping

from vramgate.costmodel.job import ShardingImplementation
from vramgate.jobs.stack import Version
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.deepspeed.reader import say_deepspeed
from vramgate.launch.frameworks.fsdp import say_fsdp
from vramgate.launch.frameworks.hugging_face.arguments import versions_of
from vramgate.launch.frameworks.tuners import is_on, is_under, nested
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.settings import Setting, Settings, of_document
from vramgate.launch.words import Word

FSDP2_SINCE: Version = (5, 10)
RESHARDS_SINCE: Version = (5, 4)
"""Before, FSDP2 kept what it had gathered unless the configuration said otherwise."""
_STRATEGIES = frozenset(
    {"full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2"}
)
_OPTIONS = _STRATEGIES | {"offload", "auto_wrap"}
_OFF = frozenset({"", "false", "none", "null", "no"})
_ON = frozenset({"true", "1", "yes"})
_FSDP = (ShardingImplementation.FSDP, ShardingImplementation.FSDP2)
_SAME_NAMES = (
    "activation_checkpointing",
    "transformer_layer_cls_to_wrap",
    "min_num_params",
    "cpu_ram_efficient_loading",
    "state_dict_type",
)


def engine_of(settings: Settings, draft: Draft) -> ShardingImplementation | None:
    """Return DeepSpeed or FSDP where the arguments, or the launcher before them, ask for one."""
    if _is_said(settings, "deepspeed") or is_under(draft, ShardingImplementation.DEEPSPEED):
        return ShardingImplementation.DEEPSPEED
    if _fsdp_options(settings) is not None:
        return ShardingImplementation.FSDP
    return next((one for one in _FSDP if is_under(draft, one)), None)


def say_sharding(settings: Settings, context: Context, *, stack: str | None) -> None:
    """Keep how the states are shared out."""
    draft = context.draft
    options = _fsdp_options(settings)
    if isinstance(options, Unseen):
        draft.unknown("sharding", options)
    elif isinstance(options, Found):
        _check_alone(settings, options, draft)
        _say_fsdp(settings, options, context, stack)
    if _is_said(settings, "deepspeed"):
        say_deepspeed(settings["deepspeed"], context, trainer=settings)
    _say_parallelism(nested(settings, "parallelism_config"), draft)
    _say_accelerator(settings, draft)


def _is_said(settings: Settings, name: str) -> bool:
    said = settings.value(name)
    if isinstance(said, Found):
        return bool(said.value) and str(said.value).strip().lower() not in _OFF
    return said is not None


def _fsdp_options(settings: Settings) -> Found[tuple[str, ...]] | Unseen | None:
    """Return the words of ``fsdp``; none of them where it is only switched on."""
    reading = settings.texts("fsdp")
    if isinstance(reading, Unseen):
        return reading
    setting = settings.get("fsdp")
    if setting is None:
        return None
    if setting.said == ():
        return Found((), setting.source)
    if not isinstance(reading, Found):
        return None
    words = tuple(word.lower() for text in reading.value for word in text.split())
    if not words or set(words) <= _OFF:
        return None
    return Found(tuple(word for word in words if word not in _ON), reading.source)


def _check_alone(settings: Settings, fsdp: Found[tuple[str, ...]], draft: Draft) -> None:
    if not _is_said(settings, "deepspeed"):
        return
    draft.problem(
        Problem(
            rule="fsdp_with_deepspeed",
            detail="fsdp and deepspeed are both asked for; only one of them can shard",
            fix="leave one of them out",
            values={fsdp.source: " ".join(fsdp.value) or True, settings["deepspeed"].source: True},
            field="sharding.implementation",
        )
    )


def _say_fsdp(
    settings: Settings, options: Found[tuple[str, ...]], context: Context, stack: str | None
) -> None:
    config = _fsdp_config(settings, context)
    if isinstance(config, Unseen):
        context.draft.unknown("sharding", config)
        return
    if is_on(config.flag("xla")):
        context.draft.warn("fsdp_on_xla", "FSDP under XLA was read as FSDP under CUDA.")
    _check_options(options, context.draft)
    version = config.whole("version")
    release = versions_of(stack).transformers
    if version is None:
        default = 2 if release >= FSDP2_SINCE else 1
        version = Found(default, f"transformers default (fsdp_config.version {default})")
    if isinstance(version, Found):
        say_fsdp(_accelerate_names(config, options, version, release), context)
        _note_default(version, context.draft)


def _check_options(options: Found[tuple[str, ...]], draft: Draft) -> None:
    odd = [word for word in options.value if word not in _OPTIONS]
    if not odd:
        return
    draft.problem(
        Problem(
            rule="fsdp_option_unknown",
            detail=f"fsdp knows no option {odd[0][:80]}",
            fix=f"write some of {', '.join(sorted(_OPTIONS))}",
            values={options.source: " ".join(options.value)},
            field="sharding.implementation",
        )
    )


def _note_default(version: Found[int], draft: Draft) -> None:
    """List the implementation as assumed where only the version's default says it."""
    said = draft.said("sharding.implementation")
    if said is not None and said.source == version.source:
        draft.assume("sharding.implementation", said.value, version.source)


def _fsdp_config(settings: Settings, context: Context) -> Settings | Unseen:
    """Return ``fsdp_config`` without the beginning ``fsdp_`` of its keys, from an object or its file."""
    config = nested(settings, "fsdp_config")
    said = settings.value("fsdp_config")
    if not len(config) and isinstance(said, Found) and isinstance(said.value, str):
        text = said.value.strip()
        if text and not text.startswith("{"):
            sent = context.files.find(Word(text=text, source=said.source))
            if isinstance(sent, Unseen):
                return sent
            if isinstance(sent, Found):
                config = of_document(sent.value.mapping(), sent.value.name)
    elif isinstance(said, Unseen):
        return said
    plain = {name.removeprefix("fsdp_"): setting for name, setting in config.items()}
    for name in ("min_num_params", "transformer_layer_cls_to_wrap"):
        legacy = settings.text(f"fsdp_{name}")
        if isinstance(legacy, Found) and legacy.value != "0":
            plain[name] = settings[f"fsdp_{name}"]
    return Settings(plain)


def _accelerate_names(
    config: Settings,
    options: Found[tuple[str, ...]],
    version: Found[int],
    release: Version,
) -> Settings:
    """Return the configuration under the names of ``accelerate launch``."""
    named: dict[str, Setting] = {"fsdp_version": Setting(said=version.value, source=version.source)}
    for name in _SAME_NAMES:
        if name in config:
            named[f"fsdp_{name}"] = config[name]
    for name in ("cpu_offload", "offload_params"):
        if name in config:
            named["fsdp_offload_params"] = config[name]
    if "offload" in options.value and "fsdp_offload_params" not in named:
        named["fsdp_offload_params"] = Setting(said=True, source=options.source)
    named |= _strategy(config, options, version.value, release)
    named["fsdp_auto_wrap_policy"] = _wrap_policy(config, options, wraps=release >= FSDP2_SINCE)
    return Settings(named)


def _strategy(
    config: Settings, options: Found[tuple[str, ...]], version: int, release: Version
) -> Mapping[str, Setting]:
    strategy = next((word for word in options.value if word in _STRATEGIES), None)
    reshard = config.get("reshard_after_forward")
    if version == 1:
        if reshard is not None and not isinstance(reshard.said, bool):
            return {"fsdp_sharding_strategy": reshard}
        if strategy is not None:
            said = Setting(said=strategy.upper(), source=options.source)
            return {"fsdp_sharding_strategy": said}
        return {}
    if reshard is not None:
        return {"fsdp_reshard_after_forward": reshard}
    if release < RESHARDS_SINCE:
        source = "transformers before 5.4 default (fsdp_config.reshard_after_forward)"
        return {"fsdp_reshard_after_forward": Setting(said=False, source=source)}
    if strategy is not None:
        said = Setting(said=strategy != "shard_grad_op", source=options.source)
        return {"fsdp_reshard_after_forward": said}
    return {}


def _wrap_policy(config: Settings, options: Found[tuple[str, ...]], *, wraps: bool) -> Setting:
    """Return what is wrapped: each layer, units by size, or nothing."""
    if "auto_wrap_policy" in config:
        return config["auto_wrap_policy"]
    if not (wraps or "auto_wrap" in options.value):
        return Setting(said="NO_WRAP", source=f"{options.source} without auto_wrap")
    least = config.whole("min_num_params")
    by_size = isinstance(least, Found) and least.value > 0 and not wraps
    if by_size and isinstance(least, Found):
        return Setting(said="SIZE_BASED_WRAP", source=least.source)
    named: Iterable[Setting | None] = (config.get("transformer_layer_cls_to_wrap"),)
    source = next((one.source for one in named if one is not None), options.source)
    return Setting(said="TRANSFORMER_BASED_WRAP", source=source)


def _say_parallelism(config: Settings, draft: Draft) -> None:
    """Keep accelerate's ``ParallelismConfig``; what is 1 is as if nobody had said it."""
    draft.say("parallelism.tensor_parallel_size", _more_than_one(config.whole("tp_size")))
    for name in ("sp_size", "cp_size"):
        draft.say("parallelism.context_parallel_size", _more_than_one(config.whole(name)))
    replicas = _more_than_one(config.whole("dp_replicate_size"))
    shards = _more_than_one(config.whole("dp_shard_size"))
    if replicas is not None and shards is not None:
        draft.say("sharding.shard_group_size", shards)


def _more_than_one(reading: Reading[int]) -> Reading[int]:
    return None if isinstance(reading, Found) and reading.value <= 1 else reading


def _say_accelerator(settings: Settings, draft: Draft) -> None:
    """Keep what ``accelerator_config`` changes of a step."""
    config = nested(settings, "accelerator_config")
    each = nested(config, "gradient_accumulation_kwargs").flag("sync_each_batch")
    if is_on(each):
        draft.say("sharding.sync_each_micro_batch", each)
    if is_on(config.flag("split_batches")) or is_on(settings.flag("split_batches")):
        draft.warn(
            "split_batches",
            "split_batches is on: the batch as written is shared out over the processes, the"
            " estimate takes it for each of them.",
        )
