"""Who asks: Caller, Scope and Tenant, as plain values."""

from dataclasses import dataclass
from enum import StrEnum


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

    def may(self, scope: Scope) -> bool:
        """Return whether this caller holds the scope; ``admin`` holds every one.

        >>> LOCAL_CALLER.may(Scope.CALIBRATE)
        True
        """
        return scope in self.scopes or Scope.ADMIN in self.scopes


LOCAL_CALLER = Caller(name="local", tenant=Tenant(name="default"), scopes=frozenset({Scope.ADMIN}))
"""Whoever reaches the loopback address of a service that has no tokens."""
