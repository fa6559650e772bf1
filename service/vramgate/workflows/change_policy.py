"""Versions of a tenant's policy: drafted, activated, retired.

A version is named after its document: ``p-`` and the beginning of its digest, and a number where that
name is taken, be it because the document was drafted anew after its version had been retired. What a
version was used for stays explicable: one that was active is kept for two years at least.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count

from vramgate.admission.documents import policy_document, version_named_by
from vramgate.admission.policy import AdmissionPolicy
from vramgate.errors import DomainError
from vramgate.json_text import canonical, digest_of
from vramgate.persistence import audit
from vramgate.persistence import policies as rows
from vramgate.persistence.engine import Database
from vramgate.persistence.policies import (
    PolicyHoldings,
    PolicyStatus,
    SpentPolicy,
    StoredPolicy,
)
from vramgate.workflows.change_catalog import PreconditionFailedError, PreconditionRequiredError
from vramgate.workflows.show_policy import PolicyState, active_of, state_of, tag_of

MOST_VERSIONS = 1_000
"""Of a tenant; the oldest of those that may go (``spent_versions``) make room."""
MOST_CHARACTERS = 64 * 2**20
"""Of a tenant's documents together."""
KEPT_FOR = timedelta(days=730)
"""How long a version that was active stays at least after it was retired."""


class PoliciesFullError(DomainError):
    """The tenant has as many versions as one may have, and none of them may go."""

    code = "policies_full"


class NotADraftError(DomainError):
    """Only a draft can be retired so."""

    code = "not_a_draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A version as it is kept, and whether there was none of the document before."""

    state: PolicyState
    is_new: bool


async def create_policy(
    database: Database, policy: AdmissionPolicy, *, tenant: str, actor: str, note: str
) -> Drafted:
    """Keep a policy as a draft; one that is a draft or active already stays the version it is.

    Raises:
        PoliciesFullError: the tenant has too many versions.
    """
    draft = _draft_of(policy, actor=actor, note=note)
    async with database.writing() as connection:
        await rows.begin_change(connection, tenant)
        version = await rows.find_in_use(connection, tenant, draft.digest)
        is_new = version is None
        if version is None:
            held = await rows.holdings_of(connection, tenant)
            spent = await rows.spent_versions(
                connection, tenant, before=draft.created_at - KEPT_FOR
            )
            for gone in _making_room(held, spent, len(draft.document)):
                await rows.remove_policy(connection, tenant, gone)
            taken = await rows.versions_like(connection, tenant, draft.version)
            version = _free_name(draft.version, taken)
            await rows.add_policy(connection, tenant, replace(draft, version=version))
            await audit.append(
                connection,
                tenant=tenant,
                actor=actor,
                action="policy.create",
                subject=version,
                detail={"digest": draft.digest, "note": note},
            )
        pair = await rows.find_policy(connection, tenant, version)
    return Drafted(state=state_of(version, pair), is_new=is_new)


async def activate_policy(
    database: Database, *, tenant: str, actor: str, version: str, match: frozenset[str] | None
) -> PolicyState:
    """Take a version into use in the place of the one that is; ``default`` is the built-in one.

    ``match`` holds the tags that the request names: of the version, or of the active one.

    Raises:
        UnknownPolicyError: the tenant has no such version.
        PreconditionRequiredError: nothing was said of what is active now.
        PreconditionFailedError: something else is active now.
    """
    async with database.writing() as connection:
        await rows.begin_change(connection, tenant)
        pair = await rows.find_policy(connection, tenant, version)
        before = state_of(version, pair)
        _check_match(match, before, active_of(pair))
        if before.status is PolicyStatus.ACTIVE:
            return before
        now = datetime.now(UTC)
        if pair.active is not None:
            await rows.retire_policy(connection, tenant, pair.active.version, at=now)
        if pair.meant is not None:
            await rows.activate_policy(connection, tenant, version, by=actor, at=now)
        await audit.append(
            connection,
            tenant=tenant,
            actor=actor,
            action="policy.activate",
            subject=version,
            detail={"before": before.active_version, "after": version},
        )
        pair = await rows.find_policy(connection, tenant, version)
    return state_of(version, pair)


async def retire_policy(
    database: Database, *, tenant: str, actor: str, version: str, match: frozenset[str] | None
) -> PolicyState:
    """Take back a draft, which then makes room for others when the tenant has too many.

    Raises:
        UnknownPolicyError: the tenant has no such version.
        PreconditionRequiredError: nothing was said of which state of it is meant.
        PreconditionFailedError: it is in another state.
        NotADraftError: it is active, or retired already.
    """
    async with database.writing() as connection:
        await rows.begin_change(connection, tenant)
        pair = await rows.find_policy(connection, tenant, version)
        before = state_of(version, pair)
        _check_match(match, before)
        _check_draft(before)
        await rows.retire_policy(connection, tenant, version, at=datetime.now(UTC))
        await audit.append(
            connection, tenant=tenant, actor=actor, action="policy.retire", subject=version
        )
        pair = await rows.find_policy(connection, tenant, version)
    return state_of(version, pair)


def _draft_of(policy: AdmissionPolicy, *, actor: str, note: str) -> StoredPolicy:
    """Return the draft of a policy, under the name it has unless that is taken."""
    document = canonical(policy_document(policy))
    digest = digest_of(document)
    return StoredPolicy(
        version=version_named_by(digest),
        status=PolicyStatus.DRAFT,
        note=note,
        document=document,
        digest=digest,
        created_at=datetime.now(UTC),
        created_by=actor,
    )


def _free_name(stem: str, taken: Collection[str]) -> str:
    """Return the first name of a document's that is free.

    >>> _free_name("p-0a", []), _free_name("p-0a", ["p-0a", "p-0a-2"])
    ('p-0a', 'p-0a-3')
    """
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def _making_room(held: PolicyHoldings, spent: Sequence[SpentPolicy], characters: int) -> list[str]:
    """Return the versions that go for one more.

    Raises:
        PoliciesFullError: there is no room without those that must stay.
    """
    versions, total, gone = held.versions + 1, held.characters + characters, list[str]()
    for one in spent:
        if versions <= MOST_VERSIONS and total <= MOST_CHARACTERS:
            break
        versions, total = versions - 1, total - one.characters
        gone.append(one.version)
    if versions > MOST_VERSIONS or total > MOST_CHARACTERS:
        raise PoliciesFullError(
            f"A tenant may have {MOST_VERSIONS:,} policy versions of {MOST_CHARACTERS:,} characters "
            f"together; there are {held.versions:,} of {held.characters:,}.",
            hint="Retire drafts that nobody needs: retired ones that were never active make room, "
            f"and so do those that were left {KEPT_FOR.days} days ago.",
        )
    return gone


def _check_match(match: frozenset[str] | None, *states: PolicyState) -> None:
    version = states[0].version
    if match is None:
        raise PreconditionRequiredError(
            f"Say which state of {version} you mean; {states[0].active_version} is active now.",
            hint="Get it, or /v1/policies/active, and send its ETag as If-Match.",
        )
    if "*" not in match and match.isdisjoint(map(tag_of, states)):
        raise PreconditionFailedError(
            f"If-Match names another state than the present one: {version} is "
            f"{states[0].status}, and {states[0].active_version} is active.",
            hint="Get it again, see whether you still want this, and send its present ETag.",
        )


def _check_draft(state: PolicyState) -> None:
    if state.status is PolicyStatus.DRAFT:
        return
    is_active = state.status is PolicyStatus.ACTIVE
    raise NotADraftError(
        f"{state.version} is {state.status}; only drafts are taken back.",
        hint="Activate another version, or `default`, to take it out of use." if is_active else "",
        active_version=state.active_version,
    )
