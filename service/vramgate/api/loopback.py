"""Which requests are this machine's own, so that they may go without a token.

The address of the client alone does not tell: a page in a browser here can ask 127.0.0.1 for its
author (DNS rebinding, forged forms), and a proxy here can pass on what came from anywhere.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from vramgate.settings import is_loopback

FORWARDING_HEADERS = frozenset(
    (
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    )
)
"""What proxies add (RFC 7239; RFC 9110, 7.6.3; and by habit)."""


def stranger_reason(scope: Scope) -> str | None:
    """Return why the request is not one of this machine's own, or None."""
    client = scope.get("client")
    if client is None or not is_loopback(client[0]):
        return "the request came from another one"
    headers = Headers(scope=scope)
    host = headers.get("host", "")
    if not is_loopback(_without_port(host)):
        return f"the Host header says {host[:80]!r}"
    forwarded = FORWARDING_HEADERS.intersection(name for name, _ in scope["headers"])
    if forwarded:
        name = min(forwarded).decode().title()
        return f"the header {name} says that a proxy passed the request on"
    return _foreign_page(headers)


def _foreign_page(headers: Headers) -> str | None:
    """Return what says that a page from elsewhere made a browser ask, or None."""
    origin = headers.get("origin")
    if origin is not None and not is_loopback(_host_of(origin)):
        return f"the Origin header says {origin[:80]!r}"
    if headers.get("sec-fetch-site") == "cross-site":
        return "a page from elsewhere asked, as the header Sec-Fetch-Site says"
    return None


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]
