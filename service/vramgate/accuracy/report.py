"""The accuracy report: traces, measured runs and peers together, as values and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from vramgate.accuracy.cases import Cases
from vramgate.accuracy.figures import Share
from vramgate.accuracy.measured import MeasuredFigures, MeasuredReport, measured_report
from vramgate.accuracy.oracle import OracleReport, oracle_report
from vramgate.accuracy.peers import PeersReport, peers_report
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.coefficients import MODEL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedReport:
    """The same rows three times: by the model alone, and by fits that left them out."""

    uncalibrated: MeasuredFigures
    out_of_fold: MeasuredFigures
    """Five folds; rows of one source and model are left out together."""
    out_of_source: MeasuredFigures
    """Five folds; all rows of a source are left out together."""
    covered: Share
    """Of allocated peaks: at most the bound that is exceeded with a probability of 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyReport:
    """What was asked for is None where there are no rows of its kind."""

    model_version: str
    calibration: str
    source: str | None
    """The text that rows were chosen by."""
    oracle: OracleReport | None
    measured: MeasuredReport | None
    peers: PeersReport | None
    calibrated: CalibratedReport | None = None


def accuracy_report(
    cases: Cases, catalogs: Catalogs, *, source: str | None = None
) -> AccuracyReport:
    """Return how near estimates without calibration come to the cases."""
    measured = measured_report(cases.measured, catalogs) if cases.measured else None
    return AccuracyReport(
        model_version=MODEL_VERSION,
        calibration="none",
        source=source,
        oracle=oracle_report(cases.oracle, catalogs) if cases.oracle else None,
        measured=measured,
        peers=peers_report(measured.cases, cases.peers) if measured and cases.peers else None,
    )


def from_source(cases: Cases, text: str) -> Cases:
    """Return the measured cases whose source, and the traces whose family, contains a text."""
    return replace(
        cases,
        measured=tuple(one for one in cases.measured if _contains(text, (one.source,))),
        oracle=tuple(one for one in cases.oracle if _contains(text, (one.family,))),
    )


def without_oracle(cases: Cases) -> Cases:
    """Return the cases less the traces."""
    return replace(cases, oracle=())


def as_json(report: AccuracyReport) -> str:
    """Return the whole report: bytes as integers, everything called fraction as a float or null."""
    return json.dumps(asdict(report), indent=2, ensure_ascii=False)


def _contains(text: str, fields: Sequence[str]) -> bool:
    return any(text.casefold() in field.casefold() for field in fields)
