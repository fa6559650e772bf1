"""Make ``torchtune/recipes.json`` from torchtune's wheel: what its packaged configurations say of memory.

``python tests/launch/facts/torchtune_recipes.py WHEEL > …/frameworks/torchtune/recipes.json``

The wheel comes from ``pip download --no-deps torchtune==0.6.1``. Nothing of torchtune is imported:
``torchtune/_recipe_registry.py`` is read as text, the configurations as YAML. Kept are the values a
reader of launches looks at, not the files.
"""

import ast
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

REGISTRY = "torchtune/_recipe_registry.py"
NOT_TRAINING = ("generate", "eleuther_eval", "quantize", "dev/generate")
KEPT = frozenset(
    {
        "batch_size",
        "gradient_accumulation_steps",
        "dtype",
        "compile",
        "optimizer_in_bwd",
        "clip_grad_norm",
        "enable_activation_checkpointing",
        "enable_activation_offloading",
        "ac_mode",
        "ac_option",
        "fsdp_cpu_offload",
        "fsdp_reshard_after_forward",
        "custom_sharded_layers",
        "tensor_parallel_dim",
        "tensor_parallel_plan",
        "collate_fn",
        "model",
        "teacher_model",
        "policy_model",
        "reward_and_value_model",
    }
)
KEPT_BELOW: Mapping[str, frozenset[str]] = {
    "tokenizer": frozenset({"_component_", "max_seq_len"}),
    "dataset": frozenset({"_component_", "packed"}),
    "checkpointer": frozenset({"_component_", "checkpoint_dir"}),
    "optimizer": frozenset({"_component_", "fused", "foreach"}),
    "loss": frozenset({"_component_"}),
    "quantizer": frozenset({"_component_"}),
}


def recipes(registry: str) -> Iterator[tuple[str, bool, list[tuple[str, str]]]]:
    """Yield each recipe's name, whether torchrun may start it, and its configurations and their files."""
    for node in ast.walk(ast.parse(registry)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id != "Recipe":
                continue
            said = {one.arg: one.value for one in node.keywords}
            configs = said["configs"]
            assert isinstance(configs, ast.List)
            yield (
                ast.literal_eval(said["name"]),
                ast.literal_eval(said["supports_distributed"]),
                [_config(one) for one in configs.elts],
            )


def _config(node: ast.expr) -> tuple[str, str]:
    assert isinstance(node, ast.Call)
    said = {one.arg: ast.literal_eval(one.value) for one in node.keywords}
    return said["name"], said["file_path"]


def kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that matters for memory."""
    facts = {key: value for key, value in config.items() if key in KEPT}
    for name, keys in KEPT_BELOW.items():
        value = config.get(name)
        if isinstance(value, dict):
            facts[name] = {key: value[key] for key in keys & set(value)}
        elif isinstance(value, list):
            facts[name] = [{key: one[key] for key in sorted(keys & set(one))} for one in value]
    return facts


def facts(wheel: zipfile.ZipFile) -> dict[str, Any]:
    """Return the recipes and the configurations of those that train."""
    registry = wheel.read(REGISTRY).decode()
    files = set(wheel.namelist())
    found: dict[str, Any] = {}
    known: dict[str, bool] = {}
    for name, distributed, configs in recipes(registry):
        known[name] = distributed
        if name.startswith(NOT_TRAINING):
            continue
        for config, file in configs:
            path = f"recipes/configs/{file}"
            if path in files:
                found[config] = kept(yaml.safe_load(wheel.read(path)))
    return {"source": "torchtune 0.6.1", "recipes": known, "configs": found}


def written(value: Mapping[str, Any]) -> str:
    """Return the facts as JSON, one configuration a line."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(one, sort_keys=True)}"
        for name, one in sorted(value["configs"].items())
    ]
    head = {key: value[key] for key in ("source", "recipes")}
    return json.dumps(head)[:-1] + ',\n"configs": {\n' + ",\n".join(lines) + "\n}}"


if __name__ == "__main__":
    with zipfile.ZipFile(sys.argv[1]) as opened:
        sys.stdout.write(written(facts(opened)) + "\n")
