"""DeepSpeed as accelerate configures it: by its own few words, or by DeepSpeed's file.

Source: accelerate 1.15.0 ``utils/dataclasses.py``: ``DeepSpeedPlugin.__post_init__``,
``_deepspeed_config_checks``, ``set_mixed_precision``.
"""

from collections.abc import Iterator, Mapping

from vramgate.costmodel.job import ShardingImplementation
from vramgate.jobs.frameworks.hugging_face import DEEPSPEED_BUCKET
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.sharding import FULL_SHARD, PREFETCH_BUCKET
from vramgate.jobs.vocabulary import Offload
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.accelerate.precision import mixed_precision, say_linear
from vramgate.launch.frameworks.accelerate.settings import is_from_file
from vramgate.launch.frameworks.deepspeed.reader import say_deepspeed
from vramgate.launch.frameworks.deepspeed.zero import offload_device, say_offload, say_stage
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.settings import Setting, Settings

_FILE = "deepspeed_config_file"
_DEFAULT_STAGE = 2
_SHADOWED = (
    *("gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device"),
    *("offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path"),
    "zero3_save_16bit_model",
)
_PRESETS = {
    "bf16": PrecisionPreset.BF16_MASTER,
    "fp8": PrecisionPreset.BF16_MASTER,
    "fp16": PrecisionPreset.FP16_MASTER,
}


def say_deepspeed_section(
    settings: Settings, flat: Settings, source: str, context: Context
) -> None:
    """Say what accelerate tells DeepSpeed. ``flat`` has the keys of sections too."""
    draft = context.draft
    mode = mixed_precision(flat)
    file = flat.text(_FILE)
    if file is not None:
        _report_shadowed(settings, flat, draft)
        say_deepspeed(flat[_FILE], context, trainer=_halves(mode))
        _assume_stage_0(draft)
    else:
        _say_plugin(flat, source, draft)
        _say_precision(mode, draft)
    if isinstance(mode, Found):
        say_linear(mode, flat, draft)


def _halves(mode: Reading[str]) -> Settings:
    """Return what fills the file's ``"auto"``."""
    if not isinstance(mode, Found):
        return Settings()
    name = "fp16" if mode.value == "fp16" else "bf16"
    return Settings({name: Setting(said=True, source=mode.source)})


def _assume_stage_0(draft: Draft) -> None:
    """Keep DeepSpeed's own default stage for its file; accelerate's of 2 is for its own words."""
    is_seen = draft.said("precision.compute") or draft.said("sharding.buckets.reduce_elements")
    if draft.said("sharding.zero_stage") is None and is_seen:
        draft.assume("sharding.zero_stage", 0, "DeepSpeed default (zero_optimization.stage)")


def _say_plugin(flat: Settings, source: str, draft: Draft) -> None:
    draft.forget("sharding")
    draft.say("sharding.implementation", Found(ShardingImplementation.DEEPSPEED, source))
    stage = flat.whole("zero_stage")
    if stage is None:
        draft.assume(
            "sharding.zero_stage", _DEFAULT_STAGE, "accelerate default (DeepSpeedPlugin.zero_stage)"
        )
        stage = Found(_DEFAULT_STAGE, "")
    else:
        say_stage(stage, draft)
    number = stage.value if isinstance(stage, Found) else _DEFAULT_STAGE
    say_offload(
        _device(flat, "offload_optimizer_device"),
        _device(flat, "offload_param_device"),
        draft,
        stage=number,
    )
    if number == FULL_SHARD:
        name = "sharding.buckets."
        reduced = f"{DEEPSPEED_BUCKET.source}"
        draft.assume(f"{name}reduce_elements", DEEPSPEED_BUCKET.value, reduced)
        prefetch = "DeepSpeed default (stage3_prefetch_bucket_size)"
        draft.assume(f"{name}prefetch_elements", PREFETCH_BUCKET, prefetch)
    steps = flat.text("gradient_accumulation_steps")
    if not (isinstance(steps, Found) and steps.value == "auto"):
        draft.say("gradient_accumulation_steps", flat.whole("gradient_accumulation_steps"))


def _device(flat: Settings, name: str) -> Reading[Offload]:
    """Return a device; ``accelerate launch`` hands it over in small letters."""
    said = flat.value(name)
    if isinstance(said, Found):
        return offload_device(Found(str(said.value).lower(), said.source))
    return said


def _say_precision(mode: Reading[str], draft: Draft) -> None:
    if isinstance(mode, Found):
        draft.say_preset(Found(_PRESETS[mode.value], mode.source))
    elif isinstance(mode, Unseen):
        draft.unknown("precision", mode)
    elif isinstance(mode, Misread):
        draft.misread("precision", mode)


def _shadowed(settings: Settings, flat: Settings) -> Iterator[str]:
    """Yield the words of accelerate's file that DeepSpeed's file stands over."""
    section = settings.get("deepspeed_config")
    inside = section.said if section is not None and isinstance(section.said, Mapping) else {}
    yield from (name for name in _SHADOWED if name in inside)
    if is_from_file(flat.get("mixed_precision")):
        yield "mixed_precision"


def _report_shadowed(settings: Settings, flat: Settings, draft: Draft) -> None:
    names = tuple(_shadowed(settings, flat))
    if names:
        draft.problem(
            Problem(
                rule="accelerate_deepspeed_conflict",
                detail=f"deepspeed_config_file with {', '.join(names)} in accelerate's file: accelerate"
                " wants these in DeepSpeed's file",
                fix=f"leave {', '.join(names)} out of accelerate's file",
                values={flat[name].source: flat[name].said for name in names},
                field="sharding",
            )
        )
