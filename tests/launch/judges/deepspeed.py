"""Judges how DeepSpeed's own ``DeepSpeedConfig`` reads what ``launch/frameworks/deepspeed.py`` reads.

Reads one JSON object a line on stdin, ``{"name": …, "launch": {…}}``, and prints one a line: the batch,
ZeRO and number formats by fields of the job; ``error`` where DeepSpeed, or transformers' Trainer over it,
refuses the configuration.
"""

# requires: torch==2.13.0 deepspeed==0.19.8 accelerate==1.15.0 transformers==5.24.0 numpy==2.4.6 setuptools==80.9.0

import contextlib
import dataclasses
import io
import json
import os
import shlex
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

os.environ["DS_ACCELERATOR"] = "cpu"

from deepspeed.runtime.config import DeepSpeedConfig
from transformers import TrainingArguments
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

_GPT2 = SimpleNamespace(config=SimpleNamespace(hidden_size=768))
_STEPS = 100


def main() -> None:
    """Judge every line."""
    for line in sys.stdin:
        item = json.loads(line)
        with contextlib.redirect_stdout(io.StringIO()):
            answer = judged(item["launch"])
        sys.stdout.write(json.dumps({"name": item["name"], **answer}) + "\n")


def judged(launch: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of one launch, or why there are none."""
    if launch.get("framework") == "deepspeed" or "script" in launch:
        return {"skipped": "the number of ranks is not in it"}
    words = [part for word in shlex.split(launch["command"]) for part in _parts(word)]
    world = int(dict(pairwise(words)).get("--num_gpus", "0"))
    options = _options(words)
    said = options.get("deepspeed_config") or options.get("deepspeed")
    text = launch.get("files", {}).get(said, said if said and said.startswith("{") else None)
    if not world or text is None:
        return {"skipped": "no number of ranks, or no configuration"}
    try:
        if "deepspeed_config" in options:
            config = _ours(_raw(text, world))
        else:
            config = _ours(_trained(json.loads(text), options, world))
    except (Exception, SystemExit) as error:  # noqa: BLE001 whatever it is refused with
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    if config["sharding.zero_stage"] == 0 and "offload_optimizer" in text:
        return {"skipped": "DeepSpeedCPUAdam refuses it, at the first step"}
    return {"fields": config}


def _parts(word: str) -> list[str]:
    """Return ``--num_gpus=8`` as two words."""
    return word.split("=", 1) if word.startswith("--") else [word]


def _options(words: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for word, behind in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--") and not behind.startswith("--"):
            options[word.removeprefix("--")] = behind
    return options


def _raw(text: str, world: int) -> DeepSpeedConfig:
    """Return what a script's own ``--deepspeed_config`` becomes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ds.json"
        path.write_text(text)
        return _parsed(str(path), world)


def _parsed(config: str | dict[str, Any], world: int) -> DeepSpeedConfig:
    if isinstance(config, str):
        # ``initialize`` hands on the object: "sequence_parallel_size" in a path is never true.
        import hjson  # noqa: PLC0415 DeepSpeed's own dependency

        config = hjson.loads(Path(config).read_text())
    with (
        mock.patch("deepspeed.comm.get_rank", return_value=0),
        mock.patch("deepspeed.comm.get_world_size", return_value=world),
    ):
        return DeepSpeedConfig(config)


def _trained(config: dict[str, Any], options: dict[str, str], world: int) -> DeepSpeedConfig:
    """Return what a Trainer makes of it: ``"auto"`` filled, contradictions refused."""
    arguments = SimpleNamespace(
        **{
            field.name: field.default
            for field in dataclasses.fields(TrainingArguments)
            if field.default is not dataclasses.MISSING
        }
    )
    arguments.world_size = world
    arguments.get_warmup_steps = lambda _: 0
    for name, value in options.items():
        old = getattr(arguments, name, None)
        if isinstance(old, bool):
            setattr(arguments, name, value == "True")
        elif isinstance(old, int):
            setattr(arguments, name, int(value))
    trained = HfTrainerDeepSpeedConfig(config)
    trained.trainer_config_process(arguments)
    trained.trainer_config_finalize(arguments, _GPT2, _STEPS)
    return _parsed(trained.config, world)


def _ours(config: DeepSpeedConfig) -> dict[str, Any]:
    zero = config.zero_config
    stage = int(zero.stage)
    fields: dict[str, Any] = {
        "micro_batch_size": config.train_micro_batch_size_per_gpu,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "sharding.zero_stage": stage,
    }
    if stage:
        fields["sharding.buckets.reduce_elements"] = zero.reduce_bucket_size
        fields["sharding.buckets.allgather_elements"] = zero.allgather_bucket_size
    if stage == 3:
        fields["sharding.buckets.prefetch_elements"] = zero.prefetch_bucket_size
        fields["sharding.buckets.max_live_elements"] = zero.max_live_parameters
        fields["sharding.offload_parameters"] = _device(zero.offload_param)
        fields["sharding.offload_optimizer"] = _device(zero.offload_optimizer)
        if zero.offload_optimizer is not None:
            fields["sharding.offload_fraction"] = zero.offload_optimizer.ratio
    if config.tensor_parallel_config.autotp_size > 1:
        fields["parallelism.tensor_parallel_size"] = config.tensor_parallel_config.autotp_size
    return fields | _formats(config)


def _device(section: Any) -> str:  # noqa: ANN401 pydantic's model
    return "none" if section is None else str(getattr(section.device, "value", section.device))


def _formats(config: DeepSpeedConfig) -> dict[str, Any]:
    """Return the number formats: 16-bit weights with an fp32 copy, autocast, or fp32."""
    for name, section in (("bf16", config.bfloat16_config), ("fp16", config.float16_config)):
        if section.enabled:
            return {
                "precision.weights": name,
                "precision.compute": name,
                "precision.autocast": False,
                "precision.master_weights": True,
            }
    if config.torch_autocast_enabled:
        return {"precision.weights": "fp32", "precision.autocast": True}
    return {"precision.weights": "fp32", "precision.autocast": False}


if __name__ == "__main__":
    main()
