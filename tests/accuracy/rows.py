"""Rows made by hand, for the tests of the metrics."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vramgate.accuracy.cases import Kind, Layer, LengthIs
from vramgate.accuracy.figures import relative_error
from vramgate.accuracy.measured import CaseResult, error_on
from vramgate.accuracy.oracle import OracleResult
from vramgate.accuracy.predictions import LayerBytes

GB = 10**9


def a_result(**fields: Any) -> CaseResult:  # noqa: ANN401 any field of the result
    """Return a measured run of 100 bytes on a card of 120, predicted as 100 on every layer."""
    values: dict[str, Any] = {
        "id": "row",
        "source": "someone/bench",
        "method": "full",
        "kind": Kind.MEASURED,
        "layer": Layer.ALLOCATED,
        "length_is": LengthIs.EXACT,
        "tier": "A",
        "revision": "only",
        "measured_bytes": 100,
        "measured_device_bytes": None,
        "predicted": on_all_layers(100),
        "usable_bytes": 120,
        **fields,
    }
    error = error_on(values["layer"], values["measured_bytes"], values["predicted"])
    return CaseResult(error_fraction=error, **values)


def on_all_layers(size: int) -> LayerBytes:
    """Return one figure for every layer."""
    return LayerBytes(
        allocated_bytes=size, required_bytes=size, reserved_bytes=size, device_bytes=size
    )


def a_trace(**fields: Any) -> OracleResult:  # noqa: ANN401 any field of the result
    """Return a trace of 1000 bytes whose estimate is exact."""
    values: dict[str, Any] = {
        "id": "trace",
        "family": "llama",
        "peak_bytes": 1000,
        "estimated_peak_bytes": 1000,
        "peak_phase": "loss",
        "estimated_peak_phase": "loss",
        "saved_bytes_per_block": 200,
        "estimated_saved_bytes_per_block": 200,
        **fields,
    }
    error = relative_error(values["estimated_peak_bytes"], values["peak_bytes"])
    return OracleResult(error_fraction=error, **values)


def a_case(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
    """Return a row of a file of measured cases: GPT-2 on one A100."""
    return {
        "id": "gpt2-full",
        "source": "someone/bench@results.csv (rev 1)",
        "job": {
            "model": {"name": "gpt2"},
            "method": "full",
            "precision": "fp32",
            "micro_batch_size": 1,
            "sequence_length": 128,
            "hardware": {"accelerator": "a100-sxm4-80gb"},
        },
        "measured": {"kind": "measured", "metric": "allocated", "peak_bytes": 2 * GB},
        "sequence_length_is": "exact",
        "tier": "A",
        **fields,
    }


def lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as a file of JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)
