"""Versions of a tenant's policy as they are shown, and the tags that say which state was seen."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from anyio import to_thread

from vramgate.admission.documents import policy_document, read_document
from vramgate.admission.faults import unknown_accelerators
from vramgate.admission.lint import Finding, finding_of, findings_in
from vramgate.admission.policy import DEFAULT_POLICY, DEFAULT_VERSION, AdmissionPolicy
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.errors import DomainError, shortened
from vramgate.json_text import digest_of
from vramgate.persistence import policies as rows
from vramgate.persistence.engine import Database
from vramgate.persistence.policies import PolicyPair, PolicyPlace, PolicyStatus, StoredPolicy

_TAG_DIGITS = 32
_BUILT_IN_NOTE = "What holds where no version is active."


class UnknownPolicyError(DomainError):
    """The tenant has no version of this name."""

    code = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """One version, and which one is active; the built-in policy is a version as well."""

    version: str
    status: PolicyStatus
    note: str
    policy: Mapping[str, Any]
    """The document; empty in lists."""
    created_at: datetime | None
    created_by: str | None
    activated_at: datetime | None
    activated_by: str | None
    retired_at: datetime | None
    active_version: str
    active_since: datetime | None = field(default=None)
    """With ``active_version`` in the tag: what was activated, left and activated again is another state."""


async def find_state(database: Database, tenant: str, version: str) -> PolicyState:
    """Return a version of the tenant's.

    Raises:
        UnknownPolicyError: there is none of this name.
    """
    async with database.reading() as connection:
        pair = await rows.find_policy(connection, tenant, version)
    return state_of(version, pair)


async def active_state(database: Database, tenant: str) -> PolicyState:
    """Return the version that holds now."""
    async with database.reading() as connection:
        pair = await rows.find_policy(connection, tenant, DEFAULT_VERSION)
    return active_of(pair)


async def list_states(
    database: Database, tenant: str, *, after: PolicyPlace | None, limit: int
) -> list[PolicyState]:
    """Return versions, newest first, without their documents."""
    async with database.reading() as connection:
        found = await rows.list_policies(connection, tenant, after=after, limit=limit)
    active = found.active_version or DEFAULT_VERSION
    return [_stored_state(one, active_version=active) for one in found.items]


def state_of(version: str, pair: PolicyPair) -> PolicyState:
    """Return the state of the version that was asked for.

    Raises:
        UnknownPolicyError: there is none of this name.
    """
    if pair.meant is not None:
        if pair.active is None:
            return _stored_state(pair.meant, active_version=DEFAULT_VERSION)
        return _stored_state(
            pair.meant,
            active_version=pair.active.version,
            active_since=pair.active.activated_at,
        )
    if version == DEFAULT_VERSION:
        return _built_in_state(pair.active)
    raise UnknownPolicyError(
        f"There is no policy version {shortened(version, 80)!r}.",
        hint="GET /v1/policies, or `vramgate policy list`, lists them.",
    )


def active_of(pair: PolicyPair) -> PolicyState:
    """Return the state of the version that holds, whichever was asked for."""
    if pair.active is None:
        return _built_in_state(None)
    return state_of(pair.active.version, PolicyPair(meant=pair.active, active=pair.active))


def tag_of(state: PolicyState) -> str:
    """Return what tags a state: another as soon as it, or which version is active, changes."""
    seen = (state.version, state.status, state.active_version, state.active_since)
    return digest_of(" ".join(map(str, seen)))[:_TAG_DIGITS]


async def warnings_about(
    state: PolicyState, accelerators: AcceleratorCatalog, now: datetime | None = None
) -> list[Finding]:
    """Return what is probably not meant by a version, and cards it names that are not known now."""
    policy = read_document(state.policy, version=state.version).policy
    return await lint(policy, accelerators, now)


async def lint(
    policy: AdmissionPolicy, accelerators: AcceleratorCatalog, now: datetime | None = None
) -> list[Finding]:
    """Return what is probably not meant by a policy, and cards it names that are not known now."""
    moment = now or datetime.now(UTC)

    def look() -> list[Finding]:
        unknown = map(finding_of, unknown_accelerators(policy, accelerators))
        return [*findings_in(policy, moment), *unknown]

    # A tenth of a second where rules and cards are many.
    return await to_thread.run_sync(look)


def _stored_state(
    stored: StoredPolicy, *, active_version: str, active_since: datetime | None = None
) -> PolicyState:
    return PolicyState(
        version=stored.version,
        status=stored.status,
        note=stored.note,
        policy=json.loads(stored.document) if stored.document else {},
        created_at=stored.created_at,
        created_by=stored.created_by,
        activated_at=stored.activated_at,
        activated_by=stored.activated_by,
        retired_at=stored.retired_at,
        active_version=active_version,
        active_since=active_since,
    )


def _built_in_state(active: StoredPolicy | None) -> PolicyState:
    return PolicyState(
        version=DEFAULT_VERSION,
        status=PolicyStatus.ACTIVE if active is None else PolicyStatus.RETIRED,
        note=_BUILT_IN_NOTE,
        policy=policy_document(DEFAULT_POLICY),
        created_at=None,
        created_by=None,
        activated_at=None,
        activated_by=None,
        retired_at=None,
        active_version=DEFAULT_VERSION if active is None else active.version,
        active_since=None if active is None else active.activated_at,
    )
