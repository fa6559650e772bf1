"""Judges how TRL's own parser reads the options that ``launch/frameworks/trl.py`` reads.

Reads one JSON object a line on stdin, ``{"name": …, "launch": {…}}``, and prints one a line: what
``TrlParser`` with the trainer's configuration and ``ModelConfig`` makes of it, by fields of the job;
``error`` where they refuse it. What only a trainer refuses, with a model at hand, is not judged.
"""

# requires: trl==1.16.0 transformers==5.24.0 peft==0.21.2 accelerate==1.15.0 torch==2.13.0
# goldens: trl

import importlib
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

_CONFIGS = {
    "sft": "SFTConfig",
    "dpo": "DPOConfig",
    "kto": "KTOConfig",
    "reward": "RewardConfig",
    "grpo": "GRPOConfig",
}
_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_OPTIMIZERS = {
    "adamw_torch_fused": ("adamw", "fused"),
    "adamw_torch": ("adamw", "foreach"),
    "paged_adamw_8bit": ("paged_adamw_8bit", "fused"),
    "rmsprop": ("rmsprop", "foreach"),
}


def main() -> None:
    """Judge every line."""
    here = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != here]  # judges have their frameworks' names
    out, sys.stdout = sys.stdout, sys.stderr
    trl = importlib.import_module("trl")
    for line in sys.stdin:
        item = json.loads(line)
        answer = judged(item["launch"], trl)
        out.write(json.dumps({"name": item["name"], **answer}) + "\n")
        out.flush()


def judged(launch: dict[str, Any], trl: Any) -> dict[str, Any]:  # noqa: ANN401 a module
    """Return the fields of one launch, or why there are none."""
    if launch.get("env", {}).get("VRAMGATE_STACK"):
        return {"skipped": "another version"}
    config = launch.get("config")
    trainer = _trainer_of(config) if isinstance(config, dict) else None
    words: list[str] = []
    if trainer is None:
        trainer, words = _command(launch["command"])
    if trainer not in _CONFIGS:
        return {"skipped": "no trainer of TRL's commands"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in launch.get("files", {}).items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        if isinstance(config, dict):
            Path("config.yaml").write_text(yaml.safe_dump(config))
            words = ["--config", "config.yaml"]
        try:
            training, model, is_sharded = _parsed(trainer, words, trl)
        except FileNotFoundError as error:
            return {"skipped": f"not sent: {error.filename}"}
        except (Exception, SystemExit) as error:  # noqa: BLE001 whatever it refuses it with
            return {"error": f"{type(error).__name__}: {error}"}
    if model.load_in_4bit and not model.use_peft:
        return {"skipped": "the Trainer refuses it, with a model at hand"}
    return {"fields": fields(trainer, training, model, trl, is_sharded=is_sharded)}


def _trainer_of(config: dict[str, Any]) -> str:
    if "desirable_weight" in config:
        return "kto"
    return "dpo" if "precompute_ref_log_probs" in config else "sft"


def _command(command: str) -> tuple[str, list[str]]:
    """Return the trainer and its words, the file before the options as ``--config``."""
    words = shlex.split(command)
    if "trl" in words:
        start = words.index("trl") + 1
        trainer = words[start]
    else:
        ends = [i for i, w in enumerate(words) if w.endswith(".py") or w.startswith("trl.scripts.")]
        start = ends[0]
        name = words[start].removesuffix(".py").rpartition("/")[2].rpartition(".")[2]
        trainer = name.removeprefix("run_")
    rest = words[start + 1 :]
    if rest and rest[0].endswith((".yaml", ".yml")):
        rest = ["--config", *rest]
    return trainer, rest


def _parsed(
    trainer: str,
    words: list[str],
    trl: Any,  # noqa: ANN401 a module
) -> tuple[Any, Any, bool]:
    """Return the trainer's and the model's configuration, and whether accelerate is told to shard."""
    classes = (trl.ScriptArguments, getattr(trl, _CONFIGS[trainer]), trl.ModelConfig)
    parser = trl.TrlParser(classes)
    told = parser.parse_args_and_config(
        [*words, "--use_cpu", "True", "--output_dir", "out"],
        return_remaining_strings=True,
        fail_with_unknown_args=False,
    )
    return told[1], told[2], "--accelerate_config" in told[-1]


def fields(
    trainer: str,
    training: Any,  # noqa: ANN401 a configuration
    model: Any,  # noqa: ANN401 ModelConfig
    trl: Any,  # noqa: ANN401 a module
    *,
    is_sharded: bool,
) -> dict[str, Any]:
    """Return the fields of the job that the configurations decide alone."""
    found: dict[str, Any] = {
        "micro_batch_size": training.per_device_train_batch_size,
        "gradient_accumulation_steps": training.gradient_accumulation_steps,
        "compile": training.torch_compile,
    }
    if trainer != "grpo":
        found["task"] = trainer
        found["sequence_length"] = training.max_length
    if trainer == "sft" and training.packing:
        found["packing"] = "packed"
    kwargs = training.gradient_checkpointing_kwargs or {}
    if not kwargs.get("selective"):
        on = training.gradient_checkpointing
        found["activation_checkpointing.mode"] = "full" if on else "none"
    if "use_reentrant" in kwargs and training.gradient_checkpointing:
        found["activation_checkpointing.reentrant"] = kwargs["use_reentrant"]
    if training.optim in _OPTIMIZERS:
        name, implementation = _OPTIMIZERS[training.optim]
        found |= {"optimizer.name": name, "optimizer.implementation": implementation}
    if not is_sharded and (training.bf16 or training.fp16):
        found["precision.compute"] = "bf16" if training.bf16 else "fp16"
        found["precision.autocast"] = True
    return found | _model_fields(training, model, trl, is_sharded=is_sharded)


def _model_fields(
    training: Any,  # noqa: ANN401 a configuration
    model: Any,  # noqa: ANN401 ModelConfig
    trl: Any,  # noqa: ANN401 a module
    *,
    is_sharded: bool,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if model.model_name_or_path is not None:
        found["model.name"] = model.model_name_or_path
    made = training.model_init_kwargs or {}
    dtype = made.get("dtype", model.dtype)
    quantised = model.load_in_4bit or model.load_in_8bit
    if dtype in _DTYPES and not is_sharded and not quantised:
        found["precision.weights"] = _DTYPES[dtype]
    adapters = trl.get_peft_config(model)
    if adapters is not None:
        found["method.kind"] = "qlora" if quantised else "lora"
        found |= {"method.rank": adapters.r, "method.dropout": adapters.lora_dropout}
        found["method.dora"] = adapters.use_dora
        targets = adapters.target_modules
        if isinstance(targets, str):
            found["method.target_modules"] = targets
    elif model.model_name_or_path is not None:
        found["method.kind"] = "full"
    return found


if __name__ == "__main__":
    main()
