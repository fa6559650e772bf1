"""The factory calibration: what the public measurements teach, made from the bundled rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vramgate.accuracy.cases import Kind, Layer, LengthIs, MeasuredCase
from vramgate.accuracy.measured import repository
from vramgate.calibration import evidence
from vramgate.calibration.calibrate import calibrate
from vramgate.calibration.documents import calibration_document
from vramgate.calibration.evidence import Configuration, Run
from vramgate.calibration.labels import labels_of
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.estimate import memory_terms
from vramgate.costmodel.job import Hardware
from vramgate.errors import DomainError
from vramgate.jobs.resolve import resolve
from vramgate.wire.job import JobIn
from vramgate.wire.validation import validated

_LAYERS = {
    Layer.ALLOCATED: evidence.Layer.ALLOCATED,
    Layer.RESERVED: evidence.Layer.RESERVED,
    Layer.DEVICE: evidence.Layer.DEVICE,
    # As everywhere here: reserved, where nobody says.
    Layer.UNSTATED: evidence.Layer.RESERVED,
}
TENANT = "public"
"""Sources differ in what they ran, and none of them in how its meters read."""


def factory_document(
    cases: Sequence[MeasuredCase], catalogs: Catalogs, *, progress: Callable[[float], None]
) -> dict[str, Any]:
    """Return the document of the calibration that public rows make."""
    runs = [run for _, run in runs_of(cases, catalogs)]
    return calibration_document(calibrate(runs, version="", progress=progress))


def runs_of(
    cases: Sequence[MeasuredCase], catalogs: Catalogs
) -> Iterator[tuple[MeasuredCase, Run]]:
    """Yield each case that can be estimated as a run.

    Rows of one source and model are a group: they share what is wrong about either.
    """
    for case in cases:
        try:
            description = validated(JobIn, case.job).to_domain()
            resolved = resolve(
                description, models=catalogs.models, accelerators=catalogs.accelerators
            )
            terms = memory_terms(resolved.job)
        except DomainError:
            continue
        configuration = Configuration(
            key=case.id,
            labels=labels_of(resolved.job, resolved.model_name),
            terms=terms,
            group=f"{repository(case.source)} {resolved.model_name}",
        )
        yield case, _run(case, configuration, _usable(resolved.job.hardware))


def _run(case: MeasuredCase, configuration: Configuration, usable: int | None) -> Run:
    measured = {}
    is_exact = case.length_is is LengthIs.EXACT
    if is_exact and case.peak_bytes is not None:
        measured[_LAYERS[case.layer]] = case.peak_bytes
    if is_exact and case.device_bytes is not None:
        measured[evidence.Layer.DEVICE] = case.device_bytes
    ran_out = case.kind is Kind.OOM
    return Run(
        configuration=configuration,
        tenant=TENANT,
        measured=measured,
        required_above=usable if ran_out else None,
        # At the length that is only a bound, less may have been enough than was there.
        required_within=usable if is_exact and not ran_out else None,
    )


def _usable(hardware: Hardware) -> int | None:
    if hardware.device is None:
        return None
    return max(0, hardware.device.usable_bytes - hardware.occupied_bytes)
