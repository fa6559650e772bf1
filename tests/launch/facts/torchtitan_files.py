"""Make ``torchtitan/files.json`` from a checkout of torchtitan v0.2.2: its TOML files, as far as memory goes.

``python tests/launch/facts/torchtitan_files.py CHECKOUT > …/frameworks/torchtitan/files.json``

``git clone --depth 1 --branch v0.2.2 https://github.com/pytorch/torchtitan`` makes the checkout. v0.2.2
is the last release whose configurations are files (``torchtitan/models/*/train_configs/*.toml``).
"""

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEPT = ("model", "training", "parallelism", "activation_checkpoint", "compile", "quantize")
DROPPED = frozenset(
    {"dataset", "dataset_path", "steps", "max_norm", "hf_assets_path", "tokenizer_path"}
)


def kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections that matter for memory, and the optimizer's name and implementation."""
    found = {
        section: {key: value for key, value in config[section].items() if key not in DROPPED}
        for section in KEPT
        if section in config
    }
    optimizer = config.get("optimizer", {})
    found["optimizer"] = {
        key: optimizer[key]
        for key in ("name", "implementation", "early_step_in_backward")
        if key in optimizer
    }
    return found


if __name__ == "__main__":
    root = Path(sys.argv[1])
    files = sorted(root.glob("torchtitan/models/*/train_configs/*.toml"))
    lines = [
        f"{json.dumps(str(path.relative_to(root)))}: "
        + json.dumps(kept(tomllib.loads(path.read_text())), sort_keys=True)
        for path in files
        if "flux" not in path.parts
    ]
    sys.stdout.write('{"source": "torchtitan 0.2.2", "files": {\n' + ",\n".join(lines) + "\n}}\n")
