"""Files checked one by one, each with an answer or the reason why there is none."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from vramgate.admission.policy import AdmissionPolicy
from vramgate.catalog.site import Catalogs
from vramgate.cli.checks.lines import line_in, line_of
from vramgate.cli.checks.outcome import CheckedFile, Outcome, outcome_of
from vramgate.cli.checks.question import Said, question_in, with_files
from vramgate.cli.launch_sources import read_text
from vramgate.errors import DomainError
from vramgate.workflows.check_job import CheckedJob, Overrides, check_job


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """How files are checked, the same for all of them."""

    said: Said
    policy: AdmissionPolicy
    overrides: Overrides
    catalogs: Catalogs
    warn_counts_as: Outcome
    has_time: Callable[[], bool]

    def file(self, path: Path) -> CheckedFile:
        """Return what becomes of a file; whatever it holds, there is an outcome."""
        begun = time.monotonic()
        try:
            return self._answered(path, read_text(path), begun)
        except DomainError as failure:
            return CheckedFile(
                path=path,
                outcome=Outcome.INVALID,
                counts_as=Outcome.INVALID,
                code=failure.code,
                message=failure.message,
                failure=failure,
                line=line_in(failure),
                seconds=time.monotonic() - begun,
            )

    def _answered(self, path: Path, text: str, begun: float) -> CheckedFile:
        request = question_in(text, path, self.said)
        if self.has_time():
            request = with_files(request, path)
        job = check_job(
            request,
            self.policy,
            self.catalogs,
            overrides=self.overrides,
            now=datetime.now(UTC),
            has_time=self.has_time,
        )
        outcome = outcome_of(job.answer.verdict, job.admission.finding.evidence.gap)
        return CheckedFile(
            path=path,
            outcome=outcome,
            counts_as=self.warn_counts_as if outcome is Outcome.WARN else outcome,
            code=_evidence_code(job),
            message=job.answer.message,
            answer=job.answer,
            line=line_of(request, job.admission),
            seconds=time.monotonic() - begun,
        )


def _evidence_code(job: CheckedJob) -> str:
    """Return the code of what the evidence says, whatever the policy made of it."""
    return job.answer.reasons[0].code
