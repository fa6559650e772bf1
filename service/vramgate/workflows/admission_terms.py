"""What a policy says for one question."""

from datetime import datetime

from vramgate.admission.policy import AdmissionPolicy, Asked, Terms
from vramgate.catalog.models import ModelCatalog
from vramgate.errors import DomainError
from vramgate.wire.admissions import AdmitRequest
from vramgate.workflows.read_question import Subject


def terms_of(
    policy: AdmissionPolicy,
    request: AdmitRequest,
    subject: Subject,
    models: ModelCatalog,
    now: datetime,
) -> Terms:
    """Return the terms for a question; where its launch says the queue or the model, that counts."""
    asked = Asked(
        cluster=request.cluster,
        queue=subject.place.queue,
        channel=request.channel,
        submitter=request.submitter,
        external_id=request.external_id,
        model=model_asked(policy, subject, models),
    )
    return policy.terms(asked, now)


def model_asked(policy: AdmissionPolicy, subject: Subject, models: ModelCatalog) -> str | None:
    """Return the catalog's name of the model, whatever it was called; an unknown one as it was said.

    Without a part of the policy that asks for it, the name as it was said will do.
    """
    name = None if subject.description is None else subject.description.model.name
    if name is None or not policy.depends_on_model:
        return name
    try:
        return models.resolve(name).entry.name
    except DomainError:
        return name
