"""The report on the bundled rows, made once a test run."""

from functools import cache

from vramgate.accuracy.calibrated import calibrated_report
from vramgate.accuracy.cases import bundled_cases
from vramgate.accuracy.report import AccuracyReport, CalibratedReport, accuracy_report
from vramgate.workflows.load_catalogs import load_catalogs


@cache
def bundled_report() -> AccuracyReport:
    """Return what ``vramgate accuracy`` reports."""
    return accuracy_report(bundled_cases(), load_catalogs())


@cache
def bundled_calibrated() -> CalibratedReport:
    """Return what ``vramgate accuracy --calibrated`` adds to it."""
    return calibrated_report(bundled_cases().measured, load_catalogs())
