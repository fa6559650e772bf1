"""Judges litgpt launches: its own command line, and its trainers up to the moment they would start.

A script for litgpt's own environment: it reads launches as JSON lines on stdin and prints, for each, the
fields of our job that litgpt says as plainly, or the error it raises. ``setup`` runs with a model's
configuration from ``litgpt/config.py`` instead of a download, and stops where Fabric would start.
"""
# requires: torch==2.13.0 litgpt==0.5.13 jsonargparse==4.41.0 lightning==2.6.6

import contextlib
import importlib
import io
import json
import os
import shlex
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

# The folder holds judges named like the packages they judge.
sys.path[:] = [one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent]

from jsonargparse import (  # noqa: E402
    CLI,
    capture_parser,
    set_config_read_mode,
    set_docstring_parse_options,
)
from litgpt.__main__ import PARSER_DATA  # noqa: E402
from litgpt.config import Config  # noqa: E402

_MODULES = {
    "finetune": "litgpt.finetune.lora",
    "finetune_lora": "litgpt.finetune.lora",
    "finetune_full": "litgpt.finetune.full",
    "finetune_adapter": "litgpt.finetune.adapter",
    "finetune_adapter_v2": "litgpt.finetune.adapter_v2",
    "pretrain": "litgpt.pretrain",
}
_WEIGHTS = {"bf16-true": "bf16", "16-true": "fp16", "bf16-mixed": "fp32", "16-mixed": "fp32"}
_STRATEGIES = {"FSDPStrategy": "fsdp", "ModelParallelStrategy": "fsdp2", "str": "none"}
_SOME_MODEL = "pythia-14m"


class Started(Exception):  # noqa: N818 not an error
    """What Fabric was about to be started with."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.arguments = arguments


class Fabric:
    """Fabric's place: it keeps what it is given and stops."""

    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 theirs
        raise Started(arguments)


def parser() -> Any:  # noqa: ANN401 jsonargparse's
    """Return litgpt's own parser."""
    set_docstring_parse_options(attribute_docstrings=True)
    set_config_read_mode(urls_enabled=False)
    return capture_parser(lambda: CLI(PARSER_DATA))


def started(module: types.ModuleType, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what Fabric gets from a trainer's ``setup``."""
    places = vars(module)
    replaced = {
        "auto_download_checkpoint": lambda model_name, **_: Path(model_name),
        "check_valid_checkpoint_dir": lambda *_, **__: None,
        "init_out_dir": lambda out_dir: out_dir,
        "choose_logger": lambda *_, **__: None,
        "Config": types.SimpleNamespace(
            from_file=lambda *_, **__: Config.from_name(_SOME_MODEL), from_name=Config.from_name
        ),
        "L": types.SimpleNamespace(Fabric=Fabric),
        "BitsandbytesPrecision": lambda *_, **__: "bitsandbytes",
        "Tokenizer": lambda *_: None,
    }
    kept = {name: places[name] for name in replaced if name in places}
    places.update({name: replaced[name] for name in kept})
    try:
        module.setup(**arguments)
    except Started as fabric:
        return fabric.arguments
    finally:
        places.update(kept)
    raise AssertionError(f"{module.__name__} did not start Fabric")


def verdict(launch: dict[str, Any]) -> dict[str, Any]:
    """Return litgpt's reading of one launch."""
    command = launch.get("command", "")
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if words[:1] != ["litgpt"] or words[1] not in _MODULES:
        return {"skipped": "not litgpt alone"}
    if any("$" in word for word in words) or words[1:3] == ["finetune", "lora"]:
        return {"skipped": "a shell has not been over it, or of an older release"}
    if any("config_hub/" in word and not Path(word).is_file() for word in words):
        return {"skipped": "a file of config_hub, which the package does not have"}
    read = parser()
    config = read.parse_args(words[1:])
    made = read.instantiate_classes(config)
    name = config["subcommand"]
    arguments = dict(made[name].items())
    arguments.pop("config", None)
    module = importlib.import_module(_MODULES[name])
    train, evaluation = arguments["train"], arguments["eval"]
    extra = () if name != "pretrain" else (arguments["initial_checkpoint_dir"], arguments["resume"])
    module.validate_args(train, evaluation, *extra)
    fabric = started(module, arguments)
    return {"fields": fields(name, arguments, fabric)}


def fields(name: str, arguments: dict[str, Any], fabric: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of our job that the arguments say as plainly."""
    train, devices, nodes = arguments["train"], arguments["devices"], arguments["num_nodes"]
    found: dict[str, Any] = {
        "micro_batch_size": train.micro_batch_size,
        "sequence_length": train.max_seq_length,
        "method.rank": arguments.get("lora_r"),
        "method.dropout": arguments.get("lora_dropout"),
    }
    precision = fabric["precision"] or arguments.get("precision")
    found["precision.weights"] = _WEIGHTS.get(str(precision), "fp32")
    if isinstance(devices, int):
        found["hardware.devices"] = devices * nodes
        found["gradient_accumulation_steps"] = train.gradient_accumulation_iters(devices, nodes)
        found["sharding.implementation"] = _STRATEGIES[type(fabric["strategy"]).__name__]
        policy = getattr(fabric["strategy"], "_activation_checkpointing_kwargs", None)
        if name != "finetune_lora" and name != "finetune":
            found["activation_checkpointing.mode"] = "full" if policy else "none"
    return {key: value for key, value in found.items() if value is not None}


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
