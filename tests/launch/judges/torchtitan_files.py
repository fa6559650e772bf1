"""Judges torchtitan launches by TOML file: the configuration manager of 0.2.2, the last release with files.

A script for an environment of its own: it reads launches as JSON lines on stdin and prints, for each, the
fields of our job that torchtitan says as plainly, or the error it raises. Only files that came with a
launch are read: the package does not have its own. It judges the launches of another judge too:

# goldens: torchtitan
"""
# requires: torch==2.13.0 torchtitan==0.2.2 triton==3.9.0 torchao==0.18.0

import argparse
import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

# The folder holds judges named like the packages they judge.
sys.path[:] = [one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent]

from torchtitan.config import ConfigManager  # noqa: E402
from torchtitan.distributed import ParallelDims  # noqa: E402

_WEIGHTS = {"float32": "fp32", "bfloat16": "bf16"}
_STARTS = ("torchrun", "python")


def arguments(words: list[str]) -> list[str] | None:
    """Return what follows torchtitan's program."""
    for index, word in enumerate(words):
        if word == "torchtitan.train" or word.endswith("train.py"):
            return words[index + 1 :]
    return None


def world(words: list[str]) -> int:
    """Return torchrun's processes; 0 where it is not started by torchrun."""
    said = argparse.ArgumentParser(prefix_chars="-")
    said.add_argument("--nnodes", type=int, default=1)
    said.add_argument("--nproc_per_node", type=int, default=1)
    known, _ = said.parse_known_args(words)
    return known.nnodes * known.nproc_per_node if words[0] == "torchrun" else 0


def accumulation(config: Any, devices: int) -> int:  # noqa: ANN401 torchtitan's
    """Return the accumulation steps; the assertions are torchtitan's, and those of its ``train.py``."""
    parallelism, training = config.parallelism, config.training
    dims = ParallelDims(
        dp_replicate=parallelism.data_parallel_replicate_degree,
        dp_shard=parallelism.data_parallel_shard_degree,
        cp=parallelism.context_parallel_degree,
        tp=parallelism.tensor_parallel_degree,
        pp=parallelism.pipeline_parallel_degree,
        ep=parallelism.expert_parallel_degree,
        etp=parallelism.expert_tensor_parallel_degree,
        world_size=devices,
    )
    at_once = training.local_batch_size * dims.dp_replicate * dims.dp_shard
    whole = training.global_batch_size if training.global_batch_size > 0 else at_once
    assert whole % at_once == 0, "global batch size"
    steps: int = whole // at_once
    if dims.pp > 1:
        rows = parallelism.pipeline_parallel_microbatch_size
        assert training.local_batch_size % rows == 0, "batch size divisible by microbatch_size"
        assert not config.optimizer.early_step_in_backward, "optimizers in backward"
        steps *= training.local_batch_size // rows
    return steps


def fields(config: Any) -> dict[str, Any]:  # noqa: ANN401 torchtitan's
    """Return the fields of our job that the configuration says as plainly."""
    parallelism, training = config.parallelism, config.training
    checkpointing = config.activation_checkpoint
    found: dict[str, Any] = {
        "sequence_length": training.seq_len,
        "precision.weights": _WEIGHTS[training.dtype],
        "parallelism.tensor_parallel_size": parallelism.tensor_parallel_degree,
        "parallelism.pipeline_parallel_size": parallelism.pipeline_parallel_degree,
        "parallelism.context_parallel_size": parallelism.context_parallel_degree,
        "parallelism.expert_parallel_size": parallelism.expert_parallel_degree,
        "compile": config.compile.enable and "model" in config.compile.components,
        "optimizer.implementation": config.optimizer.implementation.replace("-", "_"),
        "optimizer.in_backward": config.optimizer.early_step_in_backward,
    }
    option = checkpointing.selective_ac_option
    if checkpointing.mode in {"none", "full"}:
        found["activation_checkpointing.mode"] = checkpointing.mode
    elif checkpointing.mode == "selective" and option == "op":
        found["activation_checkpointing.mode"] = "selective"
    elif checkpointing.mode == "selective":
        # distributed/activation_checkpoint.py: every so many layers, whole.
        found["activation_checkpointing.mode"] = "full"
        found["activation_checkpointing.every_n_layers"] = max(1, int(option))
    if parallelism.pipeline_parallel_degree == 1:
        found["micro_batch_size"] = training.local_batch_size
    else:
        found["micro_batch_size"] = parallelism.pipeline_parallel_microbatch_size
    return found


def verdict(launch: dict[str, Any]) -> dict[str, Any]:
    """Return torchtitan's reading of one launch."""
    command = launch.get("command", "")
    words = shlex.split(command) if isinstance(command, str) else list(command)
    mine = arguments(words)
    if mine is None or words[0] not in _STARTS or any("$" in word for word in words):
        return {"skipped": "not torchtitan alone"}
    if not any(word.startswith("--job.config") for word in mine):
        return {"skipped": "of a newer release"}
    named = [
        one.partition("=")[2] or mine[mine.index(one) + 1] for one in mine if "config_file" in one
    ]
    if not Path(named[0]).is_file():
        return {"skipped": f"{named[0]} is not here"}
    config = ConfigManager().parse_args(mine)
    found = fields(config)
    devices = world(words)
    if devices:
        found["hardware.devices"] = devices
        found["gradient_accumulation_steps"] = accumulation(config, devices)
    return {"fields": found}


def judged(item: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict on one item, errors included."""
    launch = item["launch"]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in launch.get("files", {}).items():
            place = Path(folder) / name.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        os.chdir(folder)
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                return {"name": item["name"], **verdict(launch)}
        except SystemExit:
            return {"name": item["name"], "error": said.getvalue()[-400:]}
        except Exception as error:  # noqa: BLE001 whatever the framework raises
            return {"name": item["name"], "error": f"{type(error).__name__}: {error}"[:400]}
        finally:
            os.chdir("/")


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(judged(json.loads(line)), default=str) + "\n")
