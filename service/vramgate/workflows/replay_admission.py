"""A kept decision made again: the same question, at the moment it was asked, with what is known now.

Under its own versions it comes out the same: that is what "explained, on record" rests on. Under
another policy it says what that one would have done. Nothing is stored.
"""

import json
from collections.abc import Mapping
from typing import Any

from vramgate.admission.documents import read_document
from vramgate.admission.policy import AdmissionPolicy, Asked
from vramgate.admission.stored import StoredDecision, decision_not_found
from vramgate.calibration.versions import UNCALIBRATED
from vramgate.catalog.site import Catalogs
from vramgate.persistence.decisions import find_decision
from vramgate.persistence.engine import Database
from vramgate.wire.admissions import AdmissionAnswer
from vramgate.wire.replays import ACTIVE, DecidedAnswer, ReplayAnswer
from vramgate.workflows.admission_answers import admission_answer
from vramgate.workflows.admission_terms import model_asked
from vramgate.workflows.admit_job import admit_job
from vramgate.workflows.read_question import kept_subject, kept_wish
from vramgate.workflows.show_policy import active_state, find_state

_WORDS = frozenset({"message", "policy_version", "calibration_version", "model_version"})
"""What may differ where the decision is the same."""


async def replay_admission(
    database: Database,
    catalogs: Catalogs,
    *,
    tenant: str,
    decision_id: str,
    policy_version: str | None,
) -> ReplayAnswer:
    """Return a decision of the tenant's as it was, and as it comes out now.

    Raises:
        DecisionNotFoundError: the tenant has no such decision.
        UnknownPolicyError: the tenant has no such version of its policy.
        ValidationFailedError: the job is none that this version takes.
    """
    async with database.reading() as connection:
        found = await find_decision(connection, tenant=tenant, decision_id=decision_id)
    if found is None:
        raise decision_not_found(decision_id)
    wanted = policy_version or found.policy_version
    if wanted == ACTIVE:
        state = await active_state(database, tenant)
    else:
        state = await find_state(database, tenant, wanted)
    policy = read_document(state.policy, version=state.version).policy
    now = _decided(_again(found, policy, catalogs))
    then = _as_it_was(found)
    differences = [
        name for name in DecidedAnswer.model_fields if getattr(then, name) != getattr(now, name)
    ]
    return ReplayAnswer(
        decision_id=decision_id,
        same=_WORDS.issuperset(differences),
        differences=differences,
        then=then,
        now=now,
    )


def _again(found: StoredDecision, policy: AdmissionPolicy, catalogs: Catalogs) -> AdmissionAnswer:
    document: Mapping[str, Any] = json.loads(found.subject)
    subject = kept_subject(document)
    name = model_asked(policy, subject, catalogs.models)
    done = admit_job(
        subject,
        # As of the moment it was asked: what a policy said only for a while, it said then.
        policy.terms(_asked(found, name), found.decided_at),
        kept_wish(document),
        capacity=policy.capacity,
        catalogs=catalogs,
    )
    return admission_answer(done, calibration=UNCALIBRATED, inputs_digest=found.inputs_digest)


def _asked(found: StoredDecision, model: str | None) -> Asked:
    return Asked(
        cluster=found.cluster,
        queue=found.queue,
        channel=found.channel,
        submitter=found.submitter,
        external_id=found.external_id,
        model=model,
    )


def _decided(answer: AdmissionAnswer) -> DecidedAnswer:
    peak, evidence = answer.peak, answer.reasons[0].evidence
    return DecidedAnswer(
        verdict=answer.verdict,
        decision=answer.decision,
        mode=answer.mode,
        reason_code=answer.reason_code,
        message=answer.message,
        oom_probability=answer.oom_probability,
        required_bytes=None if peak is None else peak.required_bytes,
        usable_bytes=evidence.get("usable_bytes"),
        policy_version=answer.policy_version,
        calibration_version=answer.calibration_version,
        model_version=answer.model_version,
    )


def _as_it_was(found: StoredDecision) -> DecidedAnswer:
    return DecidedAnswer(
        verdict=found.verdict,
        decision=found.decision,
        mode=found.mode,
        reason_code=found.reason_code,
        message=json.loads(found.answer)["message"],
        oom_probability=found.oom_probability,
        required_bytes=found.required_bytes,
        usable_bytes=found.usable_bytes,
        policy_version=found.policy_version,
        calibration_version=found.calibration_version,
        model_version=found.model_version,
    )
