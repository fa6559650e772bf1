"""What strictness costs when a body is read."""

import json

from tests.bench.harness import Comparison, timing
from vramgate.json_text import parse_json

_JOB = {
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "method": {"kind": "lora", "rank": 16, "target_modules": ["q_proj", "v_proj"]},
    "micro_batch_size": 2,
    "sequence_length": 2048,
    "hardware": {"accelerator": "a100-sxm4-80gb", "devices": 8},
}
_ITEMS = 1000


def reading_a_body() -> Comparison:
    """Compare our reader with the standard library's on a full batch."""
    raw = json.dumps({"items": [{"job": _JOB}] * _ITEMS}).encode()
    return Comparison(
        title=f"Reading a batch of {_ITEMS} jobs, {len(raw) // 1024} KiB",
        unit="batch",
        timings=[
            timing("json.loads", lambda _: json.loads(raw)),
            timing("parse_json", lambda _: parse_json(raw)),
        ],
    )
