"""Valid requests as callers send them; every field can be overridden by keyword."""

from typing import Any

BASE_URL = "http://127.0.0.1:8000"


def a_job(**overrides: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
    """Return a job that fits its card: LoRA on an 8B model, one A100."""
    return {
        "model": {"name": "meta-llama/Llama-3.1-8B"},
        "method": {"kind": "lora", "rank": 16, "target_modules": "all-linear"},
        "precision": "bf16-true",
        "micro_batch_size": 2,
        "sequence_length": 2048,
        "activation_checkpointing": "full",
        "hardware": {"accelerator": "a100-sxm4-80gb"},
        **overrides,
    }


def a_request(**overrides: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
    """Return a request for an estimate of ``a_job``."""
    return {"job": a_job(), **overrides}
