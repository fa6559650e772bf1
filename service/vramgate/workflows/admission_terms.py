"""What a policy says for one question."""

from datetime import datetime

from vramgate.admission.policy import AdmissionPolicy, Asked, Terms
from vramgate.wire.admissions import AdmitRequest
from vramgate.workflows.read_question import Subject


def terms_of(
    policy: AdmissionPolicy, request: AdmitRequest, subject: Subject, now: datetime
) -> Terms:
    """Return the terms for a question; where its launch says the queue or the model, that counts."""
    asked = Asked(
        cluster=request.cluster,
        queue=subject.place.queue,
        channel=request.channel,
        submitter=request.submitter,
        external_id=request.external_id,
        model=None if subject.description is None else subject.description.model.name,
    )
    return policy.terms(asked, now)
