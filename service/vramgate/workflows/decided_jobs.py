"""The jobs that decisions were about, for the reports that name a decision instead of a job.

A decision never changes: what was read of it once is kept in memory.
"""

import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vramgate.access import Caller
from vramgate.errors import DomainError, FieldError
from vramgate.json_text import canonical, digest_of, pointer
from vramgate.persistence.decision_subjects import subjects_of
from vramgate.persistence.engine import Database

MOST_DECISIONS = 10_000
MOST_CHARACTERS = 16 * 2**20
"""Of all jobs together; one with a model's configuration in it may have megabytes."""
LONGEST_ID = 200
"""What is longer is no decision's id, and is refused when the report is read."""


class UnknownDecisionError(DomainError):
    """There is no such decision of this tenant."""

    code = "unknown_decision"


class OtherDecisionError(DomainError):
    """The report is under another decision than the token it came with."""

    code = "other_decision"


class DecisionNotStoredYetError(DomainError):
    """We signed a token for the decision, and its row has not come yet."""

    code = "decision_not_stored_yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a report says it is of, in a form that has a digest."""

    text: str
    """Canonical JSON."""
    digest: str
    is_job: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedJob:
    """What a decision was about."""

    decision_id: str
    job: Mapping[str, Any] | None
    """None where no job could be read of what was asked."""
    is_of_launch: bool
    """Whether the job was read from a launch."""
    subject: Subject
    """The job, or the decision itself where it has none."""


class DecidedJobs:
    """Finds the jobs of decisions in one database."""

    def __init__(self, database: Database) -> None:
        """Remember nothing yet."""
        self._database = database
        self._known: OrderedDict[tuple[str, str], DecidedJob] = OrderedDict()
        self._characters = 0

    async def of_reports(self, items: Iterable[object], caller: Caller) -> Mapping[str, DecidedJob]:
        """Return the decided jobs that the items of a request refer to, by decision.

        A caller with a report token has one decision, whatever the items name.

        Raises:
            DecisionNotStoredYetError: the token's decision waits in a replica's journal.
            DatabaseUnavailableError: the database must be asked, and does not answer.
        """
        own = caller.decision_id
        if own is None:
            return await self.of(caller.tenant.name, _named_in(items))
        found = await self.of(caller.tenant.name, {own})
        if own not in found:
            raise DecisionNotStoredYetError(
                f"Decision {own} is not stored yet; nothing was taken.",
                hint="It is stored once the database has answered the replica that made it. Send "
                "the same again then.",
            )
        return found

    async def of(self, tenant: str, decision_ids: Collection[str]) -> dict[str, DecidedJob]:
        """Return what a tenant's decisions were about; unknown ones are left out.

        Raises:
            DatabaseUnavailableError: the database must be asked, and does not answer.
        """
        found = {}
        for one in decision_ids:
            known = self._known.get((tenant, one))
            if known is not None:
                self._known.move_to_end((tenant, one))
                found[one] = known
        missing = set(decision_ids) - found.keys()
        if missing:
            async with self._database.reading() as connection:
                documents = await subjects_of(connection, tenant=tenant, decision_ids=missing)
            for decision_id, document in documents.items():
                found[decision_id] = _decided(decision_id, document)
                self._keep(tenant, found[decision_id])
        return found

    def _keep(self, tenant: str, decided: DecidedJob) -> None:
        self._characters += len(decided.subject.text)
        replaced = self._known.pop((tenant, decided.decision_id), None)
        self._known[tenant, decided.decision_id] = decided
        if replaced is not None:
            self._characters -= len(replaced.subject.text)
        while len(self._known) > MOST_DECISIONS or self._characters > MOST_CHARACTERS:
            _, oldest = self._known.popitem(last=False)
            self._characters -= len(oldest.subject.text)


def unknown_decision(decision_id: str) -> UnknownDecisionError:
    """Return the failure of a report whose decision the tenant does not have."""
    detail = "there is no such decision; send the job"
    return UnknownDecisionError(
        f"/decision_id: {detail}.", fields=[_at_decision("unknown_decision", detail, decision_id)]
    )


def other_decision(decision_id: str, allowed: str) -> OtherDecisionError:
    """Return the failure of a report that is not of its token's decision."""
    detail = f"the token is for decision {allowed}"
    return OtherDecisionError(
        f"/decision_id: {detail}.",
        hint="Leave decision_id out, or send the report with the token of its own admission.",
        fields=[_at_decision("other_decision", detail, decision_id)],
    )


def _at_decision(code: str, detail: str, value: str) -> FieldError:
    return FieldError(pointer=pointer("decision_id"), code=code, detail=detail, value=value)


def _named_in(items: Iterable[object]) -> set[str]:
    """Return the decisions that items name, before anything of these is checked."""
    named = (one.get("decision_id") for one in items if isinstance(one, Mapping))
    return {one for one in named if isinstance(one, str) and 0 < len(one) <= LONGEST_ID}


def subject_of(value: object, *, is_job: bool) -> Subject:
    """Return a job, or something else of JSON, as what a report is of."""
    text = canonical(value)
    return Subject(text=text, digest=digest_of(text), is_job=is_job)


def _decided(decision_id: str, document: str) -> DecidedJob:
    asked = json.loads(document)
    job = asked.get("job")
    is_job = job is not None
    return DecidedJob(
        decision_id=decision_id,
        job=job,
        is_of_launch=asked.get("launch") is not None,
        subject=subject_of(job if is_job else {"decision_id": decision_id}, is_job=is_job),
    )
