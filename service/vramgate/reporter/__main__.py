"""``python -m vramgate.reporter count MODEL``: the parameters of a model, counted."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from vramgate.reporter.parameters import print_parameters


def main(arguments: Sequence[str] | None = None) -> int:
    """Count a model's parameters on the meta device: no weights are loaded."""
    parser = argparse.ArgumentParser(prog="python -m vramgate.reporter")
    commands = parser.add_subparsers(dest="command", required=True)
    count = commands.add_parser("count", help="print the parameters of a model by number format")
    count.add_argument("model", help="a folder with a config.json, or a name on the hub")
    count.add_argument("--dtype", default=None, help="such as bfloat16; else the config's own")
    asked = parser.parse_args(arguments)
    try:
        torch, transformers = map(importlib.import_module, ("torch", "transformers"))
    except ModuleNotFoundError as error:
        print(f"counting a model by name needs {error.name}", file=sys.stderr)  # noqa: T201
        return 2
    config = transformers.AutoConfig.from_pretrained(asked.model)
    dtype = asked.dtype or getattr(config, "dtype", None) or torch.float32
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, dtype) if isinstance(dtype, str) else dtype
        )
    print_parameters(model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
