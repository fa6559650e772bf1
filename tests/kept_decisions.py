"""Decisions as they are kept, and put into a database as the service puts them there."""

import hashlib
import itertools
import json
import uuid
from datetime import UTC, datetime
from typing import Any

from tests.factories import a_job
from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.record import KeptDecision
from vramgate.persistence.decisions import write_decisions
from vramgate.persistence.engine import Database

TENANT = "team-a"
_NUMBERS = itertools.count(1)


def a_decision(
    *,
    subject: dict[str, Any] | None = None,
    answer: dict[str, Any] | None = None,
    **overrides: Any,  # noqa: ANN401 whatever a decision holds
) -> KeptDecision:
    """Return a decision of its own about ``a_job``, which fits; documents are given as objects."""
    asked = _canonical(subject or a_subject())
    answered = _canonical(answer or an_answer())
    given = {
        "decision_id": str(uuid.UUID(int=next(_NUMBERS))),
        "tenant": TENANT,
        "decided_at": datetime.now(UTC),
        "caller": "scheduler",
        "cluster": "hpc-1",
        "queue": "gpu",
        "channel": Channel.SLURM,
        "submitter": "ada",
        "external_id": None,
        "mode": Mode.SHADOW,
        "verdict": Verdict.ALLOW,
        "decision": Verdict.ALLOW,
        "reason_code": "fits",
        "oom_probability": 0.001,
        "required_bytes": 24_000_000_000,
        "usable_bytes": 84_000_000_000,
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "a100-sxm4-80gb",
        "policy_version": "default",
        "calibration_version": "factory-1",
        "model_version": "1",
        "inputs_digest": _digest(asked),
        "subject_digest": _digest(asked),
        "subject": asked,
        "answer_digest": _digest(answered),
        "answer": answered,
    }
    return KeptDecision(**{**given, **overrides})


def a_subject() -> dict[str, Any]:
    """Return what was asked about, as the document that is kept."""
    return {
        "job": a_job(),
        "launch": None,
        "gap": None,
        "devices": None,
        "place": {"queue": "gpu", "node_labels": {}},
        "wish": {"mode": None, "break_glass": None},
    }


def an_answer(**overrides: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
    """Return what was answered, as the document that is kept."""
    return {
        "message": "It fits: 22.4 GiB of 78.2 GiB.",
        "reasons": [{"code": "fits", "message": "It fits.", "evidence": {}}],
        "peak": {"required_bytes": 24_000_000_000},
        "capacity": {"usable_bytes": 84_000_000_000},
        "suggestions": [],
        "devices": None,
        "assumptions": [],
        "warnings": [],
        "unknown": [],
        **overrides,
    }


async def keep_decisions(database: Database, *given: KeptDecision) -> list[bool]:
    """Write the decisions in one transaction; return of each whether it was new."""
    async with database.writing() as connection:
        return await write_decisions(connection, given)


def _canonical(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
