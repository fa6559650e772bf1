"""A report put together in the reporter's own thread: the driver asked, the versions read."""

from dataclasses import replace
from typing import Any

from vramgate.reporter.driver import driver_figure, driver_version
from vramgate.reporter.measure import Peaks, TorchMemory
from vramgate.reporter.notices import say_once
from vramgate.reporter.report import Measurement, Run, as_report
from vramgate.reporter.versions import package_versions, toolkit_versions

SCOPE_LABEL = "vramgate.device_used"
"""Whether ``device_used_bytes`` is this process's share or everybody's on the card."""


def composed(
    run: Run, measurement: Measurement, memory: TorchMemory | None
) -> dict[str, Any] | None:
    """Return the report of a moment of a run.

    None where a run that lived has no figure: the service takes none without, and host memory must
    never pass for a card's.
    """
    measurement, labels = _with_driver(measurement, memory)
    is_alive = measurement.outcome in {"running", "completed"}
    if is_alive and not measurement.peaks.as_report():
        say_once(
            "nothing measured", "vramgate: no accelerator was used; there is no peak to report"
        )
        return None
    software = {**package_versions(), **toolkit_versions()}
    if measurement.device is not None and (driver := driver_version()):
        software["driver"] = driver
    return as_report(replace(run, labels={**labels, **run.labels}), measurement, software)


def _with_driver(
    measurement: Measurement, memory: TorchMemory | None
) -> tuple[Measurement, dict[str, str]]:
    device = measurement.device
    if device is None or memory is None:
        return measurement, {}
    before = memory.reserved_now()
    figure = driver_figure(device, memory)
    if figure is None:
        return measurement, {}
    # Context is what the driver sees and the allocator does not hold, where neither moved meanwhile.
    context = None
    if figure.is_own and before is not None and before == memory.reserved_now():
        context = max(figure.used_bytes - before, 0) or None
    seen = Peaks(device_used_bytes=figure.used_bytes, context_bytes=context)
    peaks = measurement.peaks.raised_by(seen)
    scope = "process" if figure.is_own else "device"
    return replace(measurement, peaks=peaks), {SCOPE_LABEL: scope}
