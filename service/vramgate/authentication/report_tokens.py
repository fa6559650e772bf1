"""Report tokens: with one, a job reports under the decision that admitted it, and does nothing else.

``vgr_<decision>_<rest>``; the rest is base64url of the moment it expires (8 bytes, big-endian, seconds
of Unix time), the tenant in ASCII, and the HMAC-SHA256 (RFC 2104) of all before it. Nothing is stored:
whoever has the service's key can make one and judge one. None can be revoked by itself; all of them
end with the key.

No JWT, for five reasons: the text must stay below 300 characters for the longest tenant, where a JWT
has 420; it must not be taken for a JWT of the site's OpenID provider, and has no dots; there is no
algorithm that a header could talk us out of; the job reads its decision where it stands, without
decoding what is signed; and it takes 4 us to make and 7 to judge, on the machine where PyJWT takes 22
and 49.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from vramgate.access import is_tenant_name
from vramgate.authentication.bearer_tokens import SecretKey

PREFIX = "vgr_"
MAX_CHARACTERS = 300
_DOMAIN = b"vramgate report token v1\0"
"""Begins what is signed, and nothing else that the key is used for: secrets that are hashed with it
hold no spaces."""
_DIGEST = "sha256"
_MAC_BYTES = 32
_MOMENT_BYTES = 8
_DECISION = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_IS_DECISION = re.compile(_DECISION, re.ASCII)
_TOKEN = re.compile(rf"{PREFIX}({_DECISION})_([A-Za-z0-9_-]+)", re.ASCII)


class RejectedReportTokenError(Exception):
    """The token is not taken. The message is for our log; the caller is not told."""


class ExpiredReportTokenError(RejectedReportTokenError):
    """We signed it, and its time is over: the one thing that its holder is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportToken:
    """What a report token says."""

    tenant: str
    decision_id: str
    expires_at: datetime


def new_report_token(*, tenant: str, decision_id: str, expires_at: datetime, key: SecretKey) -> str:
    """Return a token with which one job reports under one decision until a moment.

    Raises:
        ValueError: the decision is no UUID in small letters, or the tenant has no name of one.
    """
    if _IS_DECISION.fullmatch(decision_id) is None:
        raise ValueError(f"{decision_id!r} is no UUID in small letters")
    if not is_tenant_name(tenant):
        raise ValueError(f"{tenant!r} is no tenant's name")
    signed = int(expires_at.timestamp()).to_bytes(_MOMENT_BYTES, "big") + tenant.encode("ascii")
    rest = base64.urlsafe_b64encode(signed + _mac(decision_id, signed, key)).rstrip(b"=")
    return f"{PREFIX}{decision_id}_{rest.decode('ascii')}"


def is_report_token(text: str) -> bool:
    """Return whether a text wants to be a report token, a valid one or not."""
    return text.startswith(PREFIX)


def read_report_token(text: str, keys: Sequence[SecretKey], now: datetime) -> ReportToken:
    """Return what a token says that was signed with one of the keys.

    Raises:
        RejectedReportTokenError: it is none, or none of these keys signed it.
        ExpiredReportTokenError: one of the keys signed it, and its time is over.
    """
    decision_id, signed, mac = _parts(text)
    # The keys are one or two: to try them costs less than to name them in every token.
    is_signed = [hmac.compare_digest(mac, _mac(decision_id, signed, key)) for key in keys]
    if not any(is_signed):
        raise RejectedReportTokenError("no key of the service has signed it")
    moment, tenant = signed[:_MOMENT_BYTES], signed[_MOMENT_BYTES:].decode("ascii")
    expires_at = datetime.fromtimestamp(int.from_bytes(moment, "big"), UTC)
    if now >= expires_at:
        raise ExpiredReportTokenError(f"it expired at {expires_at:%Y-%m-%dT%H:%M:%SZ}")
    return ReportToken(tenant=tenant, decision_id=decision_id, expires_at=expires_at)


def _parts(text: str) -> tuple[str, bytes, bytes]:
    """Return the decision, what is signed beside it, and the signature; nothing is proven yet."""
    found = _TOKEN.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if found is None:
        raise RejectedReportTokenError("it has not the form of one")
    decision_id, rest = found.groups()
    try:
        raw = base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4))
    except binascii.Error:
        raise RejectedReportTokenError("its rest is no base64url") from None
    # The last character may hold bits that stand for nothing: one token has one text.
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != rest:
        raise RejectedReportTokenError("its rest is written otherwise than we write it")
    if len(raw) <= _MOMENT_BYTES + _MAC_BYTES:
        raise RejectedReportTokenError("its rest is too short")
    return decision_id, raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]


def _mac(decision_id: str, signed: bytes, key: SecretKey) -> bytes:
    return hmac.digest(key.key, _DOMAIN + decision_id.encode("ascii") + signed, _DIGEST)
