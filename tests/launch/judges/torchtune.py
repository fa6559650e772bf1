"""Judges torchtune launches: ``tune run``'s own parser, its configuration after overrides, its recipes' checks.

A script for torchtune's own environment: it reads launches as JSON lines on stdin and prints, for each,
the fields of our job that torchtune says as plainly, or the error it raises.
"""
# requires: torch==2.13.0 torchtune==0.6.1 torchao==0.13.0

import argparse
import contextlib
import importlib.util
import inspect
import io
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

# The folder holds judges named like the packages they judge.
sys.path[:] = [one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent]

from omegaconf import DictConfig, OmegaConf  # noqa: E402
from torchtune._cli.run import Run  # noqa: E402
from torchtune.config._errors import InstantiationError  # noqa: E402
from torchtune.config._parse import TuneRecipeArgumentParser  # noqa: E402
from torchtune.config._utils import (  # noqa: E402
    _get_component_from_path,
    _merge_yaml_and_cli_args,
)
from torchtune.training.precision import PRECISION_STR_TO_DTYPE  # noqa: E402

_WEIGHTS = {"bf16": "bf16", "fp32": "fp32", "fp16": "fp16"}
_BUILT = ("model",)


class Captured(Exception):  # noqa: N818 not an error
    """How the recipe would have been started."""

    def __init__(self, args: argparse.Namespace, *, distributed: bool, builtin: bool) -> None:
        super().__init__()
        self.said, self.distributed, self.builtin = args, distributed, builtin


class Asked(Run):  # type: ignore[misc]
    """``tune run`` up to the moment it would start the recipe."""

    def _run_distributed(self, args: argparse.Namespace, is_builtin: bool) -> None:
        raise Captured(args, distributed=True, builtin=is_builtin)

    def _run_single_device(self, args: argparse.Namespace, is_builtin: bool) -> None:
        raise Captured(args, distributed=False, builtin=is_builtin)


def asked(words: list[str]) -> Captured:
    """Return what ``tune run`` makes of its words."""
    parser = argparse.ArgumentParser(prog="tune")
    Asked(parser.add_subparsers())
    sys.argv = words
    args = parser.parse_args(words[1:])
    try:
        args.func(args)
    except Captured as captured:
        return captured
    raise AssertionError(words)


def configuration(recipe_args: list[str]) -> DictConfig:
    """Return the configuration that the recipe would get."""
    yaml_args, cli_args = TuneRecipeArgumentParser().parse_known_args(recipe_args)
    return _merge_yaml_and_cli_args(yaml_args, cli_args)


def check(config: DictConfig, captured: Captured | None) -> None:
    """Raise what the builder's signature, or the recipe's constructor, would raise."""
    OmegaConf.to_container(config, resolve=True)
    for name in _BUILT:
        node = config.get(name)
        if OmegaConf.is_dict(node) and "_component_" in node:
            try:
                builder = _get_component_from_path(node["_component_"])
            except InstantiationError as error:
                if "ModuleNotFoundError" in str(error):
                    continue  # images need more packages than are here
                raise
            arguments = {key: value for key, value in node.items() if key != "_component_"}
            inspect.signature(builder).bind(**arguments)
    if captured is None or not captured.builtin:
        return
    if config.get("dtype") not in PRECISION_STR_TO_DTYPE:
        raise ValueError(f"dtype {config.get('dtype')}")
    if not str(captured.said.recipe).endswith("finetune_single_device.py"):
        return
    # No card is here; accumulation against optimizer_in_bwd is for every framework, in jobs.rules.
    for_cpu = OmegaConf.merge(config, {"device": "cpu", "gradient_accumulation_steps": 1})
    recipe: Any = next(
        one
        for name, one in vars(_module(Path(captured.said.recipe))).items()
        if inspect.isclass(one) and name.endswith("RecipeSingleDevice")
    )
    try:
        recipe(for_cpu)
    except RuntimeError as error:
        if "CUDA" not in str(error) or not config.get("enable_activation_checkpointing"):
            raise


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fields(config: DictConfig, captured: Captured | None) -> dict[str, Any]:
    """Return the fields of our job that the configuration says as plainly."""
    found: dict[str, Any] = {
        "micro_batch_size": config.get("batch_size"),
        "gradient_accumulation_steps": config.get("gradient_accumulation_steps"),
        "compile": config.get("compile"),
        "precision.weights": _WEIGHTS.get(config.get("dtype") or "fp32"),
        "sequence_length": OmegaConf.select(config, "tokenizer.max_seq_len"),
        "method.rank": OmegaConf.select(config, "model.lora_rank"),
        "method.dropout": OmegaConf.select(config, "model.lora_dropout"),
        "optimizer.in_backward": config.get("optimizer_in_bwd"),
    }
    dataset = config.get("dataset")
    if OmegaConf.is_dict(dataset) and dataset.get("packed"):
        found["packing"] = "packed"
    if captured is not None and Path(captured.said.recipe).name.startswith("ppo_"):
        del found["micro_batch_size"]  # it counts what is generated
    if captured is not None and captured.distributed:
        nodes, processes = str(captured.said.nnodes), str(captured.said.nproc_per_node)
        low, _, high = nodes.partition(":")
        if processes.isdigit() and (not high or low == high):
            found["hardware.devices"] = int(low) * int(processes)
    return {key: value for key, value in found.items() if value is not None}


def verdict(launch: dict[str, Any]) -> dict[str, Any]:
    """Return torchtune's reading of one launch."""
    if "config" in launch:
        config = OmegaConf.create(launch["config"])
        check(config, None)
        return {"fields": fields(config, None)}
    command = launch.get("command", "")
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if words[:2] != ["tune", "run"]:
        return {"skipped": "not tune run alone"}
    if any("$" in word for word in words):
        return {"skipped": "a shell has not been over it"}
    captured = asked(words)
    path = Path(captured.said.recipe_args[captured.said.recipe_args.index("--config") + 1])
    if not path.is_file():
        return {"skipped": f"{path} is not here"}
    config = configuration(captured.said.recipe_args)
    check(config, captured)
    return {"fields": fields(config, captured)}


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
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
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
