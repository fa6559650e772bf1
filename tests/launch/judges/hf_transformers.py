"""Judges how transformers' own parser reads the options that ``launch/frameworks/transformers.py`` reads.

Reads one JSON object a line on stdin, ``{"name": …, "launch": {…}}``, and prints one a line: what
``HfArgumentParser`` and ``TrainingArguments`` make of it, by fields of the job; ``error`` where they
refuse it. A script's own options are left aside. Launches of another transformers are skipped.
"""

# requires: transformers==5.24.0 accelerate==1.15.0 torch==2.13.0
# goldens: transformers

import importlib
import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

_LAUNCHERS = {"torchrun", "python"}
# torch's switches and engines that a machine without a card, or without DeepSpeed, refuses.
_LEFT_OUT = {"--tf32": 1}
_NEEDS_MORE = {"--deepspeed"}


def main() -> None:
    """Judge every line."""
    here = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != here]  # judges have their frameworks' names
    out, sys.stdout = sys.stdout, sys.stderr
    transformers = importlib.import_module("transformers")
    for line in sys.stdin:
        item = json.loads(line)
        answer = judged(item["launch"], transformers)
        out.write(json.dumps({"name": item["name"], **answer}) + "\n")
        out.flush()


def judged(launch: dict[str, Any], transformers: Any) -> dict[str, Any]:  # noqa: ANN401 a module
    """Return the fields of one launch, or why there are none."""
    version = re.search(r"transformers (\d+\.\d+)", launch.get("env", {}).get("VRAMGATE_STACK", ""))
    own = ".".join(transformers.__version__.split(".")[:2])
    if (version[1] if version else "5.24") != own:
        return {"skipped": "another version"}
    config = launch.get("config")
    if isinstance(config, dict):
        words = None
    else:
        words = _words(launch)
        if words is None or "$" in " ".join(words):
            return {"skipped": "no plain command line"}
        if _NEEDS_MORE & set(words):
            return {"skipped": "DeepSpeed is not installed"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in launch.get("files", {}).items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        try:
            args = _parsed(words, config, transformers)
        except FileNotFoundError as error:
            return {"skipped": f"not sent: {error.filename}"}
        except (Exception, SystemExit) as error:  # noqa: BLE001 whatever it refuses it with
            return {"error": f"{type(error).__name__}: {error}"}
    if args.optim.endswith("layerwise") and args.gradient_accumulation_steps > 1:
        return {"skipped": "the Trainer refuses it, with a model at hand"}
    return {"fields": fields(args)}


def _words(launch: dict[str, Any]) -> list[str] | None:
    """Return what follows the script."""
    words = shlex.split(launch["command"])
    script = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
    if script is None or words[0] not in _LAUNCHERS or "no_trainer" in words[script]:
        return None
    return words[script + 1 :]


def _parsed(
    words: list[str] | None,
    config: dict[str, Any] | None,
    transformers: Any,  # noqa: ANN401 a module
) -> Any:  # noqa: ANN401 TrainingArguments
    """Return ``TrainingArguments`` as a script on a CPU has them."""
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    cpu = {"output_dir": "out", "use_cpu": True}
    if config is not None:
        told = {key: value for key, value in config.items() if key not in _WRAPPED}
        (args,) = parser.parse_dict({**told, **cpu}, allow_extra_keys=True)
        return args
    assert words is not None
    if len(words) == 1 and words[0].endswith(".json"):
        told = json.loads(Path(words[0]).read_text())
        (args,) = parser.parse_dict({**told, **cpu}, allow_extra_keys=True)
        return args
    kept, skip = [], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in _LEFT_OUT:
            skip = _LEFT_OUT[word]
        else:
            kept.append(word)
    if "--output_dir" not in kept:
        kept += ["--output_dir", "out"]
    args, _ = parser.parse_args_into_dataclasses(
        [*kept, "--use_cpu", "True"], return_remaining_strings=True, look_for_args_file=False
    )
    return args


_WRAPPED = {"parallelism_config", "accelerator_config", "_n_gpu"}
"""What an object of a class of accelerate's stands for, and no dictionary."""


def fields(args: Any) -> dict[str, Any]:  # noqa: ANN401 TrainingArguments
    """Return the fields of the job that ``TrainingArguments`` decide alone."""
    found: dict[str, Any] = {
        "micro_batch_size": args.train_batch_size,
        "gradient_accumulation_steps": args.gradient_accumulation_steps,
        "compile": args.torch_compile,
    }
    if args.bf16 or args.fp16:
        found["precision.compute"] = "bf16" if args.bf16 else "fp16"
        found["precision.autocast"] = True
    if args.optim in ("adamw_torch_fused", "adamw_torch"):
        found["optimizer.name"] = "adamw"
        found["optimizer.implementation"] = (
            "fused" if args.optim == "adamw_torch_fused" else "foreach"
        )
    kwargs = args.gradient_checkpointing_kwargs or {}
    if not args.fsdp:
        found["activation_checkpointing.mode"] = "full" if args.gradient_checkpointing else "none"
    if args.gradient_checkpointing and "use_reentrant" in kwargs:
        found["activation_checkpointing.reentrant"] = kwargs["use_reentrant"]
    if args.ddp_bucket_cap_mb is not None:
        found["sharding.buckets.ddp_bytes"] = args.ddp_bucket_cap_mb * 2**20
    if args.fsdp:
        found |= _fsdp(args)
    return found


def _fsdp(args: Any) -> dict[str, Any]:  # noqa: ANN401 TrainingArguments
    plugin = getattr(args, "fsdp_plugin_args", None)
    if plugin is None:  # 4.45 tells accelerate by variables of the environment
        strategy = {"1": 3, "2": 2}.get(os.environ.get("FSDP_SHARDING_STRATEGY", ""))
        return {"sharding.implementation": "fsdp", "sharding.zero_stage": strategy}
    if plugin["fsdp_version"] == 1:
        return {"sharding.implementation": "fsdp"}
    reshards = bool(plugin["reshard_after_forward"])
    return {
        "sharding.implementation": "fsdp2",
        "sharding.reshard_after_forward": reshards,
        "sharding.zero_stage": 3 if reshards else 2,
        "sharding.offload_parameters": "cpu" if plugin.get("cpu_offload") else "none",
    }


if __name__ == "__main__":
    main()
