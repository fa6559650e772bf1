"""Judges torchtitan launches by module and name: the configuration manager of 0.3.

A script for torchtitan's own environment: it reads launches as JSON lines on stdin and prints, for each,
the fields of our job that torchtitan says as plainly, or the error it raises. Launches with a TOML file
are of older releases: see ``torchtitan_files.py``.
"""
# requires: torch==2.13.0 torchtitan==0.3.0 triton==3.9.0 torchao==0.18.0

import contextlib
import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

# The folder holds judges named like the packages they judge.
sys.path[:] = [one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent]

import torchtitan.tools.utils  # noqa: E402

# The converters to FP8 and FP4 look for a card: only their names are read here.
torchtitan.tools.utils.has_cuda_capability = lambda *_: True

from torchtitan.config import ConfigManager  # noqa: E402

_MODES = {"SelectiveAC": "selective", "FullAC": "full"}
_LOSSES = {"ChunkedLossWrapper": "chunked", "CrossEntropyLoss": "standard"}
_WEIGHTS = {"float32": "fp32", "bfloat16": "bf16"}
_IMPLEMENTATIONS = {"for-loop": "for_loop", "fused_opt_states_bf16": "fused"}
_STARTS = ("torchrun", "python")


def arguments(words: list[str]) -> list[str] | None:
    """Return what follows ``torchtitan.train``."""
    for index, word in enumerate(words):
        if word == "torchtitan.train" or word.endswith("torchtitan/train.py"):
            return words[index + 1 :]
    return None


def owner(config: object) -> str:
    """Return the name of the class that a ``Config`` is nested in."""
    return type(config).__qualname__.split(".")[0]


def fields(config: Any) -> dict[str, Any]:  # noqa: ANN401 torchtitan's
    """Return the fields of our job that the configuration says as plainly."""
    parallelism, training = config.parallelism, config.training
    checkpointing = config.activation_checkpoint
    implementation = config.optimizer.implementation
    found: dict[str, Any] = {
        "sequence_length": training.seq_len,
        "precision.weights": _WEIGHTS[training.dtype],
        "parallelism.tensor_parallel_size": parallelism.tensor_parallel_degree,
        "parallelism.pipeline_parallel_size": parallelism.pipeline_parallel_degree,
        "parallelism.context_parallel_size": parallelism.context_parallel_degree,
        "parallelism.expert_parallel_size": parallelism.expert_parallel_degree,
        "activation_checkpointing.mode": "none"
        if checkpointing is None
        else _MODES.get(owner(checkpointing)),
        "compile": config.compile.enable and "model" in config.compile.components,
        "optimizer.implementation": _IMPLEMENTATIONS.get(implementation, implementation),
        "loss": _LOSSES.get(owner(config.loss)),
    }
    if training.global_batch_size < 0 and parallelism.pipeline_parallel_degree == 1:
        found["gradient_accumulation_steps"] = 1
    if parallelism.pipeline_parallel_degree == 1:
        found["micro_batch_size"] = training.local_batch_size
    else:
        found["micro_batch_size"] = parallelism.pipeline_parallel_microbatch_size
    return {key: value for key, value in found.items() if value is not None}


def verdict(launch: dict[str, Any]) -> dict[str, Any]:
    """Return torchtitan's reading of one launch."""
    command = launch.get("command", "")
    words = shlex.split(command) if isinstance(command, str) else list(command)
    mine = arguments(words)
    if mine is None or words[0] not in _STARTS or any("$" in word for word in words):
        return {"skipped": "not torchtitan alone"}
    if any(word.startswith("--job.config") for word in mine) or "--module" not in mine:
        return {"skipped": "of an older release"}
    if any("num_tokens" in word or "max_context" in word for word in mine):
        return {"skipped": "of a newer release"}
    return {"fields": fields(ConfigManager().parse_args(mine))}


def judged(item: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict on one item, errors included."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return {"name": item["name"], **verdict(item["launch"])}
    except SystemExit:
        return {"name": item["name"], "error": said.getvalue()[-400:]}
    except Exception as error:  # noqa: BLE001 whatever the framework raises
        return {"name": item["name"], "error": f"{type(error).__name__}: {error}"[:400]}


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(judged(json.loads(line)), default=str) + "\n")
