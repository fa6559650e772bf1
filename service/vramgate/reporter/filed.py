"""Reports from a file: for an epilog, and for whatever measures without this package."""

import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vramgate.reporter import disclosure
from vramgate.reporter.redaction import without_secret_names
from vramgate.reporter.report import fit_to_leave
from vramgate.reporter.settings import Destination
from vramgate.reporter.spool import Spool

MOST_REPORTS = 1000
_OUTCOMES = frozenset({"running", "completed", "oom", "killed"})


class UnusableReportError(ValueError):
    """The file holds no reports; the message says what is wrong, without quoting it."""


@dataclass(slots=True, kw_only=True)
class Handled:
    """What became of the reports."""

    sent: int = 0
    waiting: int = 0
    rejected: int = 0
    trouble: str = ""
    problem: object = None
    paths: list[Path] = field(default_factory=list)


def reports_of(value: object, decision_id: str | None = None) -> list[dict[str, Any]]:
    """Return the reports of a file's JSON: one report, or ``{"reports": […]}``, without secrets.

    Those that name no decision are of ``decision_id``, where the token is for that one alone.

    Raises:
        UnusableReportError: it holds neither.
    """
    listed = value.get("reports") if isinstance(value, Mapping) and "reports" in value else [value]
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_REPORTS:
        raise UnusableReportError(f"reports is no list of 1 to {MOST_REPORTS} reports")
    return [_usable(report, index, decision_id) for index, report in enumerate(listed)]


def _usable(report: object, index: int, decision_id: str | None) -> dict[str, Any]:
    if not isinstance(report, Mapping):
        raise UnusableReportError(f"report {index} is no object")
    if decision_id is not None and "decision_id" not in report:
        report = {**report, "decision_id": decision_id}
    run_id = report.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        raise UnusableReportError(f"report {index} has no run_id")
    if report.get("outcome") not in _OUTCOMES:
        raise UnusableReportError(f"report {index} has no outcome of {sorted(_OUTCOMES)}")
    if "job" in report and "launch" in report:
        raise UnusableReportError(f"report {index} has both a job and a launch")
    if not any(name in report for name in ("job", "launch", "decision_id")):
        raise UnusableReportError(f"report {index} has none of job, launch and decision_id")
    kept = dict(report)
    if isinstance(kept.get("launch"), Mapping):
        kept["launch"] = disclosure.given_launch(kept["launch"])
    if isinstance(kept.get("job"), Mapping):
        kept["job"] = without_secret_names(disclosure.as_json(kept["job"]))
    return fit_to_leave(kept)


def deliver(
    reports: list[dict[str, Any]], spool: Spool, to: Destination | None, *, within_seconds: float
) -> Handled:
    """Write reports to the spool and send what waits there, never longer than said.

    Raises:
        OSError: the spool cannot be written.
    """
    handled = Handled(trouble="" if to else "VRAMGATE_URL names no service")
    handled.paths = [spool.put(report, to.url if to else None) for report in reports]
    if to is not None:
        sending = threading.Thread(target=_send, args=(spool, to, handled), daemon=True)
        sending.start()
        sending.join(within_seconds)
        if sending.is_alive():
            handled.trouble = f"no answer within {within_seconds:g} s"
    handled.waiting = sum(path.exists() for path in handled.paths)
    return handled


def _send(spool: Spool, to: Destination, handled: Handled) -> None:
    # httpx takes a tenth of a second to load, and only here is it needed.
    from vramgate.reporter.drain import drain, send_file  # noqa: PLC0415
    from vramgate.reporter.send import Sender  # noqa: PLC0415

    with closing(Sender(to)) as sender:
        for path in handled.paths:
            own = send_file(spool, sender, to.url, path)
            _add(handled, own.sent, own.rejected, own.trouble, own.problem)
            if own.trouble:
                return
        rest = drain(spool, sender, to.url, decision_id=to.decision_id)
        _add(handled, rest.sent, rest.rejected, rest.trouble, rest.problem)


def _add(handled: Handled, sent: int, rejected: int, trouble: str, problem: object) -> None:
    handled.sent += sent
    handled.rejected += rejected
    handled.trouble = trouble or handled.trouble
    handled.problem = problem or handled.problem
