"""Judges how peft's own ``LoraConfig`` reads the adapter settings that ``launch/frameworks/adapters.py`` reads.

Reads one JSON object a line on stdin, ``{"name": …, "launch": {…}}``, and prints one a line: what
``LoraConfig`` makes of a configuration's ``peft_config``, by fields of the job; ``error`` where it
refuses it.
"""

# requires: peft==0.21.2 transformers==5.24.0 accelerate==1.15.0 torch==2.13.0
# goldens: transformers trl

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Judge every line."""
    here = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != here]  # judges have their frameworks' names
    peft = importlib.import_module("peft")
    for line in sys.stdin:
        item = json.loads(line)
        answer = judged(item["launch"].get("config"), peft)
        sys.stdout.write(json.dumps({"name": item["name"], **answer}) + "\n")


def judged(config: object, peft: Any) -> dict[str, Any]:  # noqa: ANN401 a module
    """Return the fields of one launch, or why there are none."""
    adapters = config.get("peft_config") if isinstance(config, dict) else None
    if not isinstance(adapters, dict):
        return {"skipped": "no adapters as an object"}
    told = dict(next(iter(adapters.values())))
    try:
        lora = peft.LoraConfig(**{key: value for key, value in told.items() if key != "peft_type"})
    except (TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    targets = lora.target_modules
    return {
        "fields": {
            "method.rank": lora.r,
            "method.dropout": lora.lora_dropout,
            "method.dora": lora.use_dora,
            "method.target_modules": targets if isinstance(targets, str) else sorted(targets),
        }
    }


if __name__ == "__main__":
    main()
