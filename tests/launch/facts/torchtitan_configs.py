"""Make ``torchtitan/configs.json`` from an installed torchtitan: what its packaged configurations say of memory.

``python tests/launch/facts/torchtitan_configs.py > …/frameworks/torchtitan/configs.json``

Run it where torchtitan 0.3.0 is installed (``pip install torch==2.13.0 torchtitan==0.3.0 triton
torchao``; no GPU is needed). Every function of every ``models/*/config_registry.py`` is called and its
``Trainer.Config`` read under the names that the command line has for it. ``shape`` is kept for the
test that compares the models with the catalog's.
"""

import dataclasses
import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from typing import Any

MODULES = ("llama3", "deepseek_v3", "qwen3", "gpt_oss")
"""Those without images: the others need libraries for CUDA to be imported."""
TRAINING = (
    "local_batch_size",
    "global_batch_size",
    "seq_len",
    "enable_cpu_offload",
    "dtype",
    "mixed_precision_param",
    "disable_cuda_graphs",
)
PARALLELISM = (
    "data_parallel_replicate_degree",
    "data_parallel_shard_degree",
    "fsdp_reshard_after_forward",
    "tensor_parallel_degree",
    "enable_sequence_parallel",
    "pipeline_parallel_degree",
    "pipeline_parallel_schedule",
    "pipeline_parallel_microbatch_size",
    "context_parallel_degree",
    "expert_parallel_degree",
)
CHECKPOINTING = {"SelectiveAC": "selective", "FullAC": "full", "MemoryBudgetAC": "memory_budget"}
QUANTIZED = ("Float8", "MXFP8", "NVFP4")


def pretend_to_have_a_card() -> None:
    """Let the converters to FP8 and FP4 look for a card and find one: only names are read."""
    tools = importlib.import_module("torchtitan.tools.utils")
    vars(tools)["has_cuda_capability"] = lambda *_: True


def configs(module: str) -> Iterator[tuple[str, Any]]:
    """Yield the configurations of a module by name."""
    registry = importlib.import_module(f"torchtitan.models.{module}.config_registry")
    for name, function in sorted(vars(registry).items()):
        own = inspect.isfunction(function) and function.__module__ == registry.__name__
        if not own or name.startswith("_"):
            continue
        if any(one.default is one.empty for one in inspect.signature(function).parameters.values()):
            continue
        config = function()
        if hasattr(config, "model_spec") and hasattr(config, "training"):
            yield name, config


def owner(config: object) -> str:
    """Return the name of the class that a ``Config`` is nested in."""
    return type(config).__qualname__.split(".")[0]


def classes(value: object, seen: set[int]) -> Iterator[str]:
    """Yield the owners of all configurations inside one."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if dataclasses.is_dataclass(value):
        yield owner(value)
        for one in dataclasses.fields(value):
            yield from classes(getattr(value, one.name, None), seen)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from classes(item, seen)


def facts(config: Any) -> dict[str, Any]:  # noqa: ANN401 torchtitan has no types here
    """Return what a configuration says of memory."""
    spec, checkpointing = config.model_spec, config.activation_checkpoint
    inside = set(classes(spec.model, set()))
    groups = config.optimizer.param_groups
    found: dict[str, Any] = {
        "model": {"name": spec.name, "flavor": spec.flavor},
        "training": {key: getattr(config.training, key) for key in TRAINING},
        "parallelism": {key: getattr(config.parallelism, key) for key in PARALLELISM},
        "activation_checkpoint": {
            "mode": CHECKPOINTING[owner(checkpointing)] if checkpointing else "none"
        },
        "compile": {"enable": config.compile.enable, "components": config.compile.components},
        "loss": owner(config.loss),
        "optimizer": {
            "name": sorted({one.optimizer_name for one in groups}),
            "implementation": config.optimizer.implementation,
        },
        "quantized": sorted(one for one in inside if one.startswith(QUANTIZED)),
        "adapters": sorted(one for one in inside if one.startswith(("LoRA", "Frozen"))),
        "attention": sorted(one for one in inside if one.endswith("Attention")),
    }
    layers = getattr(spec.model, "layers", None)
    dim = getattr(spec.model, "dim", None)
    if layers is not None and dim is not None:
        found["shape"] = [dim, len(layers), spec.model.vocab_size]
    return found


if __name__ == "__main__":
    pretend_to_have_a_card()
    known = {module: dict(configs(module)) for module in MODULES}
    lines = [
        f"{json.dumps(f'{module} {name}')}: {json.dumps(facts(config), sort_keys=True)}"
        for module, named in known.items()
        for name, config in named.items()
    ]
    sys.stdout.write('{"source": "torchtitan 0.3.0", "configs": {\n' + ",\n".join(lines) + "\n}}\n")
