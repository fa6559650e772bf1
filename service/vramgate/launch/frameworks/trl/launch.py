"""The part of ``trl`` that starts processes: accelerate's options, TRL's own files for it, ``env``.

Source: TRL 1.16.0 ``cli/accelerate_config.py``, ``cli/accelerate_launcher.py`` and
``accelerate_configs/*.yaml``, whose facts ``_PACKAGED`` restates.
"""

from collections.abc import Mapping
from typing import Any

from vramgate.launch.frameworks.accelerate.reader import say_accelerate
from vramgate.launch.frameworks.hugging_face.arguments import names
from vramgate.launch.frameworks.tuners import nested
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Settings, of_document
from vramgate.launch.words import Word

_ALL = {"mixed_precision": "bf16", "num_machines": 1, "num_processes": 8}
_PACKAGED: Mapping[str, Mapping[str, Any]] = {
    "single_gpu": {**_ALL, "distributed_type": "NO"},
    "multi_gpu": {**_ALL, "distributed_type": "MULTI_GPU"},
    "zero1": {
        **_ALL,
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 1, "gradient_accumulation_steps": 1},
    },
    "zero2": {
        **_ALL,
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {
            "zero_stage": 2,
            "offload_optimizer_device": "none",
            "offload_param_device": "none",
        },
    },
    "zero3": {
        **_ALL,
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {
            "zero_stage": 3,
            "offload_optimizer_device": "none",
            "offload_param_device": "none",
            "zero3_init_flag": True,
        },
    },
    "fsdp1": {
        **_ALL,
        "distributed_type": "FSDP",
        "fsdp_config": {
            "fsdp_version": 1,
            "fsdp_reshard_after_forward": "FULL_SHARD",
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_offload_params": False,
            "fsdp_activation_checkpointing": False,
        },
    },
    "fsdp2": {
        **_ALL,
        "distributed_type": "FSDP",
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": True,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_offload_params": False,
            "fsdp_activation_checkpointing": False,
        },
    },
}
_LAUNCH = names(
    """
    num_processes num_machines machine_rank gpu_ids multi_gpu mixed_precision config_file
    use_deepspeed deepspeed_config_file zero_stage offload_optimizer_device offload_param_device
    use_fsdp dynamo_backend use_parallelism_config
    """
)
"""Options of ``accelerate launch`` that no configuration of TRL's takes."""
_BEGINNINGS = ("parallelism_config_", "fsdp_")
_TRAINERS = frozenset({"fsdp_config", "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap"})


def say_accelerate_part(settings: Settings, context: Context) -> None:
    """Say what ``accelerate launch`` is told: a file of TRL's or one's own, and options over it."""
    options = Settings(
        {
            name: setting
            for name, setting in settings.items()
            if name in _LAUNCH or (name.startswith(_BEGINNINGS) and name not in _TRAINERS)
        }
    )
    named = settings.text("accelerate_config")
    if isinstance(named, Found):
        _say_file(named, options, context)
    elif isinstance(named, Unseen):
        context.draft.unknown("sharding", named)
    elif len(options):
        say_accelerate(options, context)


def _say_file(named: Found[str], options: Settings, context: Context) -> None:
    sent = context.files.find(Word(text=named.value, source=named.source))
    if isinstance(sent, Found):
        file = sent.value
        say_accelerate(options.over(of_document(file.mapping(), file.name)), context)
        return
    packaged = _PACKAGED.get(named.value)
    if packaged is None:
        if isinstance(sent, Unseen):
            context.draft.unknown("sharding", sent)
            context.draft.unknown("hardware.devices", sent)
        if len(options):
            say_accelerate(options, context)
        return
    name = f"TRL accelerate_configs/{named.value}.yaml"
    say_accelerate(options.over(of_document(packaged, name)), context)
    for field, found in context.draft.finished().provenance.items():
        if found.source.startswith(name):
            context.draft.assume(field, found.value, found.source)


def say_environment(settings: Settings, context: Context) -> None:
    """Say what the ``env`` section sets: the allocator's segments."""
    variables = nested(settings, "env")
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        said = variables.text(name)
        if isinstance(said, Found) and "expandable_segments:true" in said.value.lower():
            context.draft.say("software.expandable_segments", Found(value=True, source=said.source))
