"""Make ``torchtune_builders.json`` from torchtune's wheel: the sizes in its model builders.

``python tests/launch/facts/torchtune_builders.py WHEEL > tests/launch/facts/torchtune_builders.json``

``torchtune/models/*/_model_builders.py`` is read as text: of each builder the numbers it gives the
component builder, under their names.
"""

import ast
import json
import sys
import zipfile
from collections.abc import Iterator

SIZES = frozenset(
    {"vocab_size", "num_layers", "num_heads", "num_kv_heads", "embed_dim", "intermediate_dim"}
)


def builders(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the builders of a module and their sizes; those of a vision model's decoder count."""
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        sizes: dict[str, int] = {}
        for call in ast.walk(node):
            if isinstance(call, ast.keyword) and isinstance(call.value, ast.Constant):
                name = (call.arg or "").removeprefix("decoder_")
                if name in SIZES and isinstance(call.value.value, int):
                    sizes.setdefault(name, call.value.value)
        if {"num_layers", "embed_dim"} <= set(sizes):
            yield node.name, dict(sorted(sizes.items()))


if __name__ == "__main__":
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        files = [one for one in wheel.namelist() if one.endswith("/_model_builders.py")]
        found = {
            name: sizes for file in files for name, sizes in builders(wheel.read(file).decode())
        }
    lines = [f"{json.dumps(name)}: {json.dumps(sizes)}" for name, sizes in sorted(found.items())]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")
