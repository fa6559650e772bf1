"""Judges how axolotl's own schema reads the configurations that ``launch/frameworks/axolotl.py`` reads.

Reads one JSON object a line on stdin, ``{"name": …, "launch": {…}}``, and prints one a line: what
``validate_config`` makes of the configuration, by fields of the job; ``error`` where the schema refuses
it. There is no device here: the schema is told of one H100 a process, and what reads the model (its
layers, its types) is not judged.
"""

# Its whole list of dependencies (Gradio, clients of clouds, CUDA kernels) is not needed for its schema.
# requires: --no-deps axolotl==0.19.0 -r tests/launch/judges/axolotl.txt

import importlib
import importlib.machinery
import json
import os
import shlex
import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

_CAPABILITIES = {
    "bf16": True,
    "fp8": True,
    "tf32": True,
    "n_gpu": 1,
    "compute_capability": "sm_90",
}
_ENVIRONMENT = {"torch_version": "2.13.0"}
_UNUSED = ("evaluate", "wandb", "numba")
"""Modules that the plugins' modules import for training, and their arguments do without."""
_NEEDED = {"datasets": [{"path": "mhenrichsen/alpaca_2k_test", "type": "alpaca"}]}
_TASKS = {"dpo": "dpo", "kto": "kto", "orpo": "orpo", "simpo": "simpo"}
_ATTENTION = {
    "eager": "eager",
    "sdpa": "sdpa",
    "flash_attention_2": "flash_attention_2",
    "flash_attention_3": "flash_attention_3",
    "flex_attention": "flex",
}
_OPTIMIZERS = {
    "adamw_torch": ("adamw", "foreach"),
    "adamw_torch_fused": ("adamw", "fused"),
    "adamw_8bit": ("adamw_8bit", None),
    "adamw_bnb_8bit": ("adamw_8bit", None),
    "paged_adamw_8bit": ("paged_adamw_8bit", None),
}
_LORA = {"lora_r": "method.rank", "lora_dropout": "method.dropout", "peft_use_dora": "method.dora"}


def main() -> None:
    """Judge every line."""
    here = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != here]  # judges have their frameworks' names
    out, sys.stdout = sys.stdout, sys.stderr
    sys.modules.update({name: _stand_in(name) for name in _UNUSED})
    schema = importlib.import_module("axolotl.utils.config")
    plugins = importlib.import_module("axolotl.integrations.base")
    dicts = importlib.import_module("axolotl.utils.dict")
    for line in sys.stdin:
        item = json.loads(line)
        answer = judged(item["launch"], schema, plugins, dicts)
        out.write(json.dumps({"name": item["name"], **answer}) + "\n")
        out.flush()


def _stand_in(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module)["__getattr__"] = lambda _attribute: mock.MagicMock()
    return module


def judged(launch: dict[str, Any], schema: Any, plugins: Any, dicts: Any) -> dict[str, Any]:  # noqa: ANN401 modules
    """Return the fields of one launch, or why there are none."""
    if launch.get("env", {}).get("VRAMGATE_STACK"):
        return {"skipped": "another version"}
    said = _said(launch)
    if isinstance(said, str):
        return {"skipped": said}
    if isinstance(said.get("deepspeed"), str):
        said["deepspeed"] = {}  # only asked for whether it is there; its files are not
    config = dicts.DictDefault({**_NEEDED, **{k: v for k, v in said.items() if v is not None}})
    try:
        _register(config, plugins.PluginManager)
        read = schema.validate_config(
            config, capabilities=dict(_CAPABILITIES), env_capabilities=dict(_ENVIRONMENT)
        )
    except ImportError as error:
        return {"skipped": f"not installed: {error}"}
    except Exception as error:  # noqa: BLE001 whatever it is refused with
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    return {"fields": _fields(read)}


def _register(config: Any, manager: Any) -> None:  # noqa: ANN401 axolotl's
    """Do what ``axolotl.cli.config.prepare_plugins`` does, whose module needs all that training does."""
    manager._instance = None  # one for all, and launches are apart
    plugins = manager.get_instance()
    for name in config.get("plugins") or ():
        plugins.register(name)
    if len(plugins.plugins) < len(config.get("plugins") or ()):
        raise ImportError("a plugin cannot be imported")
    for plugin in plugins.plugins.values():
        plugin.register(config)


def _said(launch: dict[str, Any]) -> dict[str, Any] | str:
    """Return the settings of a launch, the flags of the command over the file's."""
    config = launch.get("config")
    if config is not None:
        return dict(yaml.safe_load(config) if isinstance(config, str) else config)
    words = shlex.split(launch["command"].partition(" -- ")[0])
    path = next((word for word in words if word.endswith((".yaml", ".yml"))), "")
    text = launch.get("files", {}).get(path)
    if text is None or "$" in launch["command"]:
        return "the file is not there, or a variable has no value"
    said = dict(yaml.safe_load(text))
    flags = iter(words[words.index(path) + 1 :])
    for flag in flags:
        name, _, value = flag.removeprefix("--").partition("=")
        value = value or next(flags)
        if name != "launcher":
            said[name.replace("-", "_")] = yaml.safe_load(value)
    return said


def _fields(read: Any) -> dict[str, Any]:  # noqa: ANN401 axolotl's dictionary
    fields: dict[str, Any] = {
        "model.name": read.base_model,
        "micro_batch_size": read.micro_batch_size,
        "gradient_accumulation_steps": read.gradient_accumulation_steps,
    }
    if read.gradient_checkpointing:
        fields["activation_checkpointing.mode"] = "full"
    if read.sequence_len:
        fields["sequence_length"] = read.sequence_len
    if read.rl in _TASKS:
        fields["task"] = _TASKS[read.rl]
    if read.attn_implementation in _ATTENTION:
        fields["attention"] = _ATTENTION[read.attn_implementation]
    if read.sample_packing:
        fields["packing"] = "packed"
    elif read.batch_flattening is True:
        fields["packing"] = "padding_free"
    return fields | _sizes(read) | _method(read) | _optimizer(read)


def _sizes(read: Any) -> dict[str, Any]:  # noqa: ANN401 axolotl's dictionary
    """Return what is spread over devices."""
    fields: dict[str, Any] = {}
    for name in ("tensor_parallel_size", "context_parallel_size"):
        if (read[name] or 1) > 1:
            fields[f"parallelism.{name}"] = read[name]
    if read.fsdp_config:
        offloads = read.fsdp_config.offload_params
        fields["sharding.offload_parameters"] = "cpu" if offloads else "none"
        if read.fsdp_config.reshard_after_forward is not None:
            fields["sharding.reshard_after_forward"] = read.fsdp_config.reshard_after_forward
    return fields


def _method(read: Any) -> dict[str, Any]:  # noqa: ANN401 axolotl's dictionary
    if read.adapter not in {"lora", "qlora"}:
        return {}
    fields: dict[str, Any] = {"method.kind": "qlora" if read.load_in_8bit else read.adapter}
    for name, field in _LORA.items():
        if read[name] is not None:
            fields[field] = read[name]
    if read.lora_target_linear:  # loaders/adapter.py adds every linear layer to the names
        fields["method.target_modules"] = "all-linear"
    elif isinstance(read.lora_target_modules, list):
        fields["method.target_modules"] = list(read.lora_target_modules)
    return fields


def _optimizer(read: Any) -> dict[str, Any]:  # noqa: ANN401 axolotl's dictionary
    name, implementation = _OPTIMIZERS.get(
        getattr(read.optimizer, "value", read.optimizer), ("", None)
    )
    fields = {"optimizer.name": name, "optimizer.implementation": implementation}
    return {field: value for field, value in fields.items() if value}


if __name__ == "__main__":
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    main()
