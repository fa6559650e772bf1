"""A question answered where it is asked: as over HTTP, and nothing is kept of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from vramgate.admission.decision import Mode
from vramgate.admission.policy import AdmissionPolicy, Terms
from vramgate.admission.ruling import Wish
from vramgate.calibration.versions import UNCALIBRATED
from vramgate.catalog.site import Catalogs
from vramgate.reporter.redaction import masked_everywhere
from vramgate.wire.admissions import AdmissionAnswer, AdmitRequest
from vramgate.workflows.admission_answers import admission_answer
from vramgate.workflows.admission_terms import terms_of
from vramgate.workflows.admit_job import Admission, admit_job, always
from vramgate.workflows.launch_secrets import hidden, secrets_in
from vramgate.workflows.read_question import read_subject, unread_launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What whoever checks says instead of the policy; None leaves it to the policy."""

    risk: float | None = None
    deny_probability: float | None = None
    mode: Mode | None = None

    def over(self, terms: Terms) -> Terms:
        """Return the terms with what is said here.

        >>> Overrides(risk=0.1).over(Terms()).risk
        0.1
        """
        deny = self.deny_probability
        return replace(
            terms,
            risk=terms.risk if self.risk is None else self.risk,
            deny_probability=terms.deny_probability if deny is None else deny,
            mode=terms.mode if self.mode is None else self.mode,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedJob:
    """The answer to a question, and what it was made from."""

    answer: AdmissionAnswer
    admission: Admission


def check_job(
    request: AdmitRequest,
    policy: AdmissionPolicy,
    catalogs: Catalogs,
    *,
    overrides: Overrides,
    now: datetime,
    has_time: Callable[[], bool] = always,
) -> CheckedJob:
    """Return the answer to a question, with nothing secret in it.

    Raises:
        ValidationFailedError: the job has another shape, or a file is named by its digest alone.
    """
    subject = read_subject(request, {}) if has_time() else unread_launch(request)
    admission = admit_job(
        subject,
        overrides.over(terms_of(policy, request, subject, catalogs.models, now)),
        Wish(
            mode=request.mode if overrides.mode is None else None, break_glass=request.break_glass
        ),
        capacity=policy.capacity,
        catalogs=catalogs,
        may_go_on=has_time,
    )
    answer = admission_answer(
        admission, calibration=UNCALIBRATED, inputs_digest=request.inputs_digest
    )
    shown = hidden(masked_everywhere(answer.model_dump(mode="json")), secrets_in(request))
    return CheckedJob(answer=AdmissionAnswer.model_validate(shown), admission=admission)
