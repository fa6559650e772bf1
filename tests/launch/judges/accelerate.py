"""Judges how ``accelerate launch`` itself reads the flags and files that ``launch/frameworks/accelerate.py`` reads.

Reads one JSON object a line on stdin, ``{"name": …, "launch": {…}}``, and prints one a line: what
accelerate's parser, its environment and its plugins make of it, by fields of the job; ``error`` where
accelerate refuses it.
"""

# requires: torch==2.13.0 accelerate==1.15.0 transformers==5.24.0 deepspeed==0.19.8 numpy==2.4.6 setuptools==80.9.0

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["HF_HOME"] = tempfile.mkdtemp()

import yaml
from accelerate.commands.config import config_args
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import DeepSpeedPlugin, FullyShardedDataParallelPlugin
from accelerate.utils import launch as environments
from torch.distributed.fsdp import ShardingStrategy

_STAGES = {
    ShardingStrategy.FULL_SHARD: 3,
    ShardingStrategy.SHARD_GRAD_OP: 2,
    ShardingStrategy.NO_SHARD: 0,
    ShardingStrategy.HYBRID_SHARD: 3,
    ShardingStrategy._HYBRID_SHARD_ZERO2: 2,
}
_SCRIPT = "train.py"
_DEFAULT = "default_config.yaml"


def main() -> None:
    """Judge every line."""
    for line in sys.stdin:
        item = json.loads(line)
        with contextlib.redirect_stdout(io.StringIO()):
            answer = judged(item["launch"])
        sys.stdout.write(json.dumps({"name": item["name"], **answer}) + "\n")


def judged(launch: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of one launch, or why there are none."""
    words = _words(launch)
    if words is None:
        return {"skipped": "accelerate launch does not start it"}
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
        try:
            words = _with_files(words, launch, Path(folder))
        except KeyError as missing:
            return {"skipped": f"{missing} was not sent"}
        try:
            return {"fields": _read(words)}
        except (Exception, SystemExit) as error:  # noqa: BLE001 whatever it is refused with
            return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def _words(launch: dict[str, Any]) -> list[str] | None:
    """Return what follows ``accelerate launch``; a configuration alone is its file."""
    if launch.get("framework") == "accelerate":
        return ["--config_file", "config", _SCRIPT]
    words = shlex.split(launch["command"])
    return words[2:] if words[:2] == ["accelerate", "launch"] else None


def _with_files(words: list[str], launch: dict[str, Any], folder: Path) -> list[str]:
    """Write the files, and name them where they are named."""
    files = dict(launch.get("files", {}))
    if "config" in launch:
        said = launch["config"]
        files["config"] = said if isinstance(said, str) else yaml.safe_dump(said)
    default = next((name for name in files if name.endswith(_DEFAULT)), None)
    config_args.default_config_file = str(folder / _DEFAULT)
    from accelerate.commands import launch as module  # noqa: PLC0415 holds the name too

    module.default_config_file = str(folder / _DEFAULT)
    names = {name: str(folder / Path(name).name) for name in files}
    for name, text in files.items():
        Path(names[name]).write_text(_renamed(text, names))
    if "--config_file" in words:
        place = words.index("--config_file") + 1
        return [*words[:place], names[words[place]], *words[place + 1 :]]
    if default is None and "--num_processes" not in words:
        raise KeyError(_DEFAULT)
    return words


def _renamed(text: str, names: dict[str, str]) -> str:
    """Return a file with the names of the others as they lie on the disk."""
    for name, path in names.items():
        text = text.replace(f"../{name}", path).replace(f" {name}\n", f" {path}\n")
    return text


def _read(words: list[str]) -> dict[str, Any]:
    parser = launch_command_parser()
    arguments, defaults, from_file = _validate_launch_command(parser.parse_args(words))
    fields = _devices(arguments)
    with mock.patch.object(environments, "is_fp8_available", return_value=True):
        if arguments.use_deepspeed:
            names = list(defaults.deepspeed_config) if defaults else []
            names += ["mixed_precision"] if from_file else []
            arguments.deepspeed_fields_from_accelerate_config = ",".join(names)
            _, environment = environments.prepare_deepspeed_cmd_env(arguments)
        elif arguments.use_fsdp or arguments.multi_gpu or arguments.use_megatron_lm:
            environment = environments.prepare_multi_gpu_env(arguments)
        else:
            return fields
    os.environ.update(environment)
    if arguments.use_deepspeed:
        fields |= _deepspeed(arguments)
    elif arguments.mixed_precision in {"bf16", "fp16"} and not arguments.use_megatron_lm:
        fields |= {"precision.compute": arguments.mixed_precision, "precision.autocast": True}
    if arguments.use_fsdp:
        fields |= _fsdp()
    if arguments.multi_gpu:
        fields["sharding.implementation"] = "ddp"
    if arguments.use_parallelism_config:
        fields |= _sizes(arguments)
    return fields


def _devices(arguments: Namespace) -> dict[str, Any]:
    spread = arguments.use_deepspeed or arguments.use_fsdp or arguments.multi_gpu
    spread = spread or arguments.use_megatron_lm
    total = arguments.num_processes if spread else 1
    return {
        "hardware.devices": total,
        "hardware.devices_per_node": total // (arguments.num_machines or 1),
    }


def _deepspeed(arguments: Namespace) -> dict[str, Any]:
    plugin = DeepSpeedPlugin()
    plugin.set_mixed_precision(arguments.mixed_precision)
    config = plugin.deepspeed_config
    fields = {
        "sharding.implementation": "deepspeed",
        "sharding.zero_stage": config["zero_optimization"]["stage"],
        "sharding.offload_optimizer": plugin.offload_optimizer_device,
    }
    for name in ("bf16", "fp16"):
        if config.get(name, {}).get("enabled") is True:
            fields |= {"precision.weights": name, "precision.master_weights": True}
    if isinstance(config["gradient_accumulation_steps"], int):
        fields["gradient_accumulation_steps"] = config["gradient_accumulation_steps"]
    return fields


def _fsdp() -> dict[str, Any]:
    # Neither changes memory once training runs, and both need a GPU here.
    os.environ["FSDP_SYNC_MODULE_STATES"] = os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
    plugin = FullyShardedDataParallelPlugin()
    is_first = plugin.fsdp_version == 1
    offloads = getattr(plugin.cpu_offload, "offload_params", not is_first)
    is_offloaded = type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy" or (
        is_first and offloads
    )
    fields: dict[str, Any] = {
        "sharding.implementation": "fsdp" if is_first else "fsdp2",
        "sharding.wrap": "none" if plugin.auto_wrap_policy is None else "block",
    }
    # What is off is so by default, and then no word of a job without a model.
    if is_offloaded:
        fields["sharding.offload_parameters"] = "cpu"
    if plugin.activation_checkpointing:
        fields["activation_checkpointing.mode"] = "full"
    if plugin.activation_checkpointing_offload:
        fields["activation_checkpointing.offload"] = True
    if is_first and plugin.sharding_strategy is not ShardingStrategy.FULL_SHARD:
        fields["sharding.zero_stage"] = _STAGES[plugin.sharding_strategy]
    if not is_first and not plugin.reshard_after_forward:
        fields["sharding.reshard_after_forward"] = False
    return fields


def _sizes(arguments: Namespace) -> dict[str, Any]:
    """Return the parallel sizes; ``_validate_accelerator``'s product is checked here, without a process group."""
    sizes = ParallelismConfig()
    if sizes.sp_size == 1 and sizes.total_size not in {1, arguments.num_processes}:
        raise ValueError(f"total_size {sizes.total_size} does not match {arguments.num_processes}")
    said = {
        "parallelism.tensor_parallel_size": sizes.tp_size,
        "parallelism.context_parallel_size": sizes.cp_size * sizes.sp_size,
    }
    return {field: size for field, size in said.items() if size > 1}


if __name__ == "__main__":
    main()
