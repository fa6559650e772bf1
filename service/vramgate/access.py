"""Who asks: Caller, Scope and Tenant, as plain values."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:/+-]{0,127}", re.ASCII)


class Scope(StrEnum):
    """What a caller may do."""

    ESTIMATE = "estimate"  # also catalog, parse and diagnose
    RECOMMEND = "recommend"
    ADMIT = "admit"
    ADMIT_ANY_TENANT = "admit:any_tenant"
    REPORT = "report"
    READ = "read"
    CALIBRATE = "calibrate"
    ADMIN = "admin"


def scopes_in(words: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes among the words; what others call a scope is none here.

    >>> sorted(scopes_in(["openid", "read", "report"]))
    [<Scope.READ: 'read'>, <Scope.REPORT: 'report'>]
    """
    known = {scope.value: scope for scope in Scope}
    return frozenset(known[word] for word in words if word in known)


def is_tenant_name(text: str) -> bool:
    """Return whether a tenant may be called this: as namespaces, accounts and addresses are.

    >>> is_tenant_name("team-a"), is_tenant_name("Team A"), is_tenant_name("")
    (True, False, False)
    """
    return _TENANT.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Whose jobs, reports and policies these are; nothing of one tenant is shown to another."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who asks, on behalf of a tenant, with what they may do."""

    name: str
    tenant: Tenant
    scopes: frozenset[Scope]
    decision_id: str | None = None
    """The one decision that it may report under, and do nothing else; None for everybody else."""

    def may(self, scope: Scope) -> bool:
        """Return whether this caller holds the scope; ``admin`` holds every one within its tenant.

        >>> LOCAL_CALLER.may(Scope.CALIBRATE)
        True
        """
        within = Scope.ADMIN in self.scopes and scope is not Scope.ADMIT_ANY_TENANT
        return scope in self.scopes or within


LOCAL_CALLER = Caller(
    name="local",
    tenant=Tenant(name="default"),
    scopes=frozenset({Scope.ADMIN, Scope.ADMIT_ANY_TENANT}),
)
"""Whoever reaches the loopback address of a service that has no tokens."""
