"""Measures the peak GPU memory of a training job from inside it and posts it to the service.

It ships alone into training images: it imports nothing of the rest of vramgate, never raises into
training and never makes a step wait. ``README.md`` beside this file says how to use it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from vramgate.reporter.parameters import (
    DtypeCount,
    ParameterCount,
    count_parameters,
    print_parameters,
)
from vramgate.reporter.session import PeakReporter, report_peaks

if TYPE_CHECKING:
    LightningVramgateCallback: Any
    VramgateCallback: Any

__all__ = [
    "DtypeCount",
    "LightningVramgateCallback",
    "ParameterCount",
    "PeakReporter",
    "VramgateCallback",
    "count_parameters",
    "print_parameters",
    "report_peaks",
]

# Made when first asked for: their base classes are transformers' and Lightning's.
_MADE_ON_DEMAND = {
    "VramgateCallback": "vramgate.reporter.callbacks.transformers",
    "LightningVramgateCallback": "vramgate.reporter.callbacks.lightning",
}


def __getattr__(name: str) -> object:
    module = _MADE_ON_DEMAND.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = importlib.import_module(module).callback_class()
    globals()[name] = made
    return made
