"""Admissions: questions in, decisions out, each kept; on the way nothing is read from the database.

Few jobs are asked about many times: what a job comes to under a policy is remembered, and the work
left for each question is an id, a signature and a row.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from anyio import to_thread
from cachetools import LRUCache

from vramgate.access import Caller, Scope
from vramgate.admission.policy import DEFAULT_POLICY, AdmissionPolicy, CapacityMap, Terms
from vramgate.admission.record import KeptDecision
from vramgate.admission.ruling import Wish
from vramgate.authentication.report_tokens import new_report_token
from vramgate.authentication.signing_keys import SigningKeys
from vramgate.catalog.site import Catalogs
from vramgate.errors import DomainError, FieldError
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.wire.admissions import AdmitRequest
from vramgate.workflows.admission_terms import terms_of
from vramgate.workflows.admit_job import admit_job
from vramgate.workflows.launch_files import files_named
from vramgate.workflows.read_question import Subject, read_subject, unread_launch
from vramgate.workflows.record_decisions import DecisionIntake, Kept
from vramgate.workflows.tenant_catalogs import TenantCatalogs
from vramgate.workflows.tenant_policies import TenantPolicies
from vramgate.workflows.turns import Turns
from vramgate.workflows.worked_answers import (
    WorkedAnswer,
    kept_decision,
    unchecked_answer,
    worked_answer,
)

REMEMBERED_CHARACTERS = 2**26
"""Of questions, and as many of answers under policies; in memory both take some three times as much."""
USUAL_CHARACTERS = 2**14
"""What one counts at least: there are never more than 4 096 of them."""
RECORD_SECONDS = 0.25
"""How long an answer waits for its commit; a commit takes some milliseconds, many at once some tens."""
LONG_TEXT = 2**16
"""Characters of a launch from which on it is read in a thread."""
SUGGESTION_SHARE = 0.5
"""Of the time that is left when the verdict is known, what the search for changes may take."""


class OtherTenantError(DomainError):
    """The question is about another tenant than the token's."""

    code = "forbidden"


@dataclass(frozen=True, slots=True)
class Deadline:
    """When the caller stops listening, on the monotonic clock."""

    at: float

    @property
    def seconds(self) -> float:
        """What is left, at least nothing."""
        return max(0.0, self.at - time.monotonic())

    def has(self, seconds: float) -> bool:
        """Return whether so much is left."""
        return self.seconds > seconds


class _Search:
    """The search for changes that would fit, as long as there is time for it."""

    def __init__(self, *, until: float) -> None:
        self._until = until
        self.was_cut = False

    def may_go_on(self) -> bool:
        """Return whether there is time for another estimate."""
        self.was_cut = self.was_cut or time.monotonic() >= self._until
        return not self.was_cut


@dataclass(frozen=True, slots=True)
class _Question:
    """A question with all that its answer follows from."""

    request: AdmitRequest
    subject: Subject
    terms: Terms
    capacity: CapacityMap
    catalogs: Catalogs

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it apart from questions that have another answer."""
        return self.request.inputs_digest, self.terms, id(self.catalogs), id(self.subject)


class Admissions:
    """Answers questions; what it needs is given to it open, and stays its giver's to close."""

    def __init__(
        self,
        *,
        database: Database,
        catalogs: TenantCatalogs,
        policies: TenantPolicies,
        intake: DecisionIntake,
        signing_keys: SigningKeys,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Remember nothing yet."""
        self._database = database
        self._catalogs = catalogs
        self._policies = policies
        self._intake = intake
        self._signing_keys = signing_keys
        self._now = now
        self._subjects: LRUCache[tuple[str, str], Subject] = LRUCache(
            REMEMBERED_CHARACTERS, lambda one: max(USUAL_CHARACTERS, one.characters)
        )
        self._worked: LRUCache[tuple[object, ...], WorkedAnswer] = LRUCache(
            REMEMBERED_CHARACTERS, lambda one: max(USUAL_CHARACTERS, one.characters)
        )
        self._turns = Turns()

    async def answer(self, request: AdmitRequest, caller: Caller, deadline: Deadline) -> str:
        """Return the answer as JSON, once the decision is committed or on disk.

        Raises:
            OtherTenantError: the tenant is not the caller's.
            ValidationFailedError: the job has another shape.
        """
        tenant = _tenant(request, caller)
        now = self._now()
        policy, worked = await self._in_time(request, tenant, now, deadline)
        decision = kept_decision(request, caller.name, tenant, now, worked)
        if request.dry_run:
            return worked.text_for(decision.decision_id, recorded=False, token=None, ends=None)
        within = min(RECORD_SECONDS, deadline.seconds)
        kept = await self._intake.keep(decision, within_seconds=within)
        if kept is Kept.LOST:
            worked = worked.unrecorded()
        ends = now + timedelta(seconds=policy.report_token_seconds)
        return worked.text_for(
            decision.decision_id,
            recorded=kept is Kept.STORED,
            # Of what is kept nowhere there is nothing to report under.
            token=None if kept is Kept.LOST else self._token(decision, ends),
            ends=ends,
        )

    async def _in_time(
        self, request: AdmitRequest, tenant: str, now: datetime, deadline: Deadline
    ) -> tuple[AdmissionPolicy, WorkedAnswer]:
        """Return what the job comes to, or that there was no time for it."""
        # A job of another shape is refused whatever the time; reading one takes no waiting.
        subject = self._read(tenant, request, {}) if request.launch is None else None
        policy = self._policies.known(tenant) or DEFAULT_POLICY
        catalogs = self._catalogs.site
        try:
            async with asyncio.timeout(deadline.seconds):
                policy = await self._policies.of(tenant)
                if self._policies.known(tenant) is None:
                    # Not even that there is none is known; the built-in one might be too mild.
                    raise DatabaseUnavailableError("the tenant's policy cannot be read now")
                catalogs = (await self._catalogs.of(tenant)).catalogs
                if subject is None:
                    subject = await self._launched(request, tenant)
                terms = terms_of(policy, request, subject, catalogs.models, now)
                question = _Question(request, subject, terms, policy.capacity, catalogs)
                return policy, await self._worked_out(question, deadline)
        except TimeoutError:
            why = "Not checked: there was no time left."
        except DatabaseUnavailableError as error:
            why = f"Not checked: {error.message.rstrip('.')}."
        subject = subject or unread_launch(request)
        terms = terms_of(policy, request, subject, catalogs.models, now)
        return policy, unchecked_answer(request, subject, terms, why)

    async def _worked_out(self, question: _Question, deadline: Deadline) -> WorkedAnswer:
        known = self._worked.get(question.key)
        if known is not None:
            return known
        async with self._turns.one(within_seconds=deadline.seconds):
            return self._worked.get(question.key) or self._work(question, deadline)

    def _work(self, question: _Question, deadline: Deadline) -> WorkedAnswer:
        request = question.request
        search = _Search(until=deadline.at - deadline.seconds * (1 - SUGGESTION_SHARE))
        done = admit_job(
            question.subject,
            question.terms,
            Wish(mode=request.mode, break_glass=request.break_glass),
            capacity=question.capacity,
            catalogs=question.catalogs,
            may_go_on=search.may_go_on,
        )
        worked = worked_answer(request, done, question.catalogs)
        if not search.was_cut and worked.characters <= REMEMBERED_CHARACTERS:
            self._worked[question.key] = worked
        return worked

    def _read(self, tenant: str, request: AdmitRequest, stored: Mapping[str, str]) -> Subject:
        subject = self._subjects.get((tenant, request.inputs_digest))
        return subject or self._remember(tenant, request, read_subject(request, stored))

    def _remember(self, tenant: str, request: AdmitRequest, subject: Subject) -> Subject:
        if subject.characters <= REMEMBERED_CHARACTERS:
            self._subjects[tenant, request.inputs_digest] = subject
        return subject

    async def _launched(self, request: AdmitRequest, tenant: str) -> Subject:
        known = self._subjects.get((tenant, request.inputs_digest))
        if known is not None or request.launch is None:
            return known or self._read(tenant, request, {})
        named = {"launch": request.launch.model_dump(include={"files"})}
        stored = await files_named(self._database, tenant, named)
        if request.characters + sum(map(len, stored.values())) <= LONG_TEXT:
            return self._read(tenant, request, stored)
        # What is remembered is changed by this thread alone.
        subject = await to_thread.run_sync(partial(read_subject, request, stored))
        return self._remember(tenant, request, subject)

    def _token(self, decision: KeptDecision, ends: datetime) -> str | None:
        keys = self._signing_keys.current()
        if not keys:
            return None
        return new_report_token(
            tenant=decision.tenant,
            decision_id=decision.decision_id,
            expires_at=ends,
            key=keys[0],
        )


def _tenant(request: AdmitRequest, caller: Caller) -> str:
    asked = request.tenant
    if asked is None or asked == caller.tenant.name or caller.may(Scope.ADMIT_ANY_TENANT):
        return asked or caller.tenant.name
    raise OtherTenantError(
        f"/tenant is {asked!r}, but the token is of {caller.tenant.name!r}.",
        hint="Leave tenant out, or ask with a token that has the scope admit:any_tenant.",
        fields=[
            FieldError(
                pointer="/tenant",
                code="forbidden",
                detail="is not the token's, and the token lacks the scope admit:any_tenant",
                value=asked,
            )
        ],
        scope=Scope.ADMIT_ANY_TENANT.value,
    )
