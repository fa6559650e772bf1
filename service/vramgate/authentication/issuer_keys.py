"""The public keys of an OpenID provider: fetched, kept, and fetched again as they rotate."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from vramgate.errors import DomainError
from vramgate.settings import is_safe_address
from vramgate.telemetry import logger

FRESH_SECONDS = 300.0
"""A key that the issuer withdrew is not taken for longer."""
PAUSE_SECONDS = 10.0
"""Between two fetches at least, however many tokens name keys that nobody knows."""
KEPT_SECONDS = 24 * 3600.0
"""How long keys are taken while their issuer cannot be asked."""
MAX_DOCUMENT_BYTES = 2**20
MAX_KEYS = 100

_log = logger("vramgate.oidc")

Jwk = Mapping[str, Any]


class IssuerUnavailableError(DomainError):
    """The issuer's keys could not be fetched, and none are kept: its tokens cannot be judged."""

    code = "issuer_unavailable"


class _UnusableAnswerError(Exception):
    """The issuer answered something that holds no keys; the message says what."""


class IssuerKeys:
    """The keys that one issuer signs with now."""

    def __init__(
        self,
        *,
        issuer: str,
        jwks_url: str | None,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the addresses; nothing is asked before the first token."""
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._client = httpx.AsyncClient(timeout=timeout_seconds, follow_redirects=False)
        self._lock = asyncio.Lock()
        self._keys: Sequence[Jwk] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._refresh: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop fetching and close the connections."""
        if self._refresh is not None:
            self._refresh.cancel()
        await self._client.aclose()

    async def candidates(self, kid: str | None) -> Sequence[Jwk]:
        """Return the keys that may have signed a token whose header names ``kid``, or no key.

        Raises:
            IssuerUnavailableError: no keys are known and none can be fetched.
        """
        found = self._usable(kid)
        if found:
            if self._is_older_than(FRESH_SECONDS):
                # Nobody waits for it: what is kept stays good until the issuer says otherwise.
                self._fetch_beside()
            return found
        await self._fetch_once()
        if self._is_older_than(KEPT_SECONDS):
            raise IssuerUnavailableError(
                "The issuer of the token cannot be asked for its keys.",
                hint="Try again in a few seconds.",
            )
        return self._usable(kid)

    def _usable(self, kid: str | None) -> Sequence[Jwk]:
        if self._is_older_than(KEPT_SECONDS):
            return ()
        if kid is None:
            return self._keys
        return [key for key in self._keys if key.get("kid") == kid]

    def _is_older_than(self, seconds: float) -> bool:
        return self._fetched_at is None or self._clock() - self._fetched_at > seconds

    def _may_try(self) -> bool:
        return self._tried_at is None or self._clock() - self._tried_at >= PAUSE_SECONDS

    def _fetch_beside(self) -> None:
        if self._may_try() and (self._refresh is None or self._refresh.done()):
            self._refresh = asyncio.create_task(self._fetch_once())

    async def _fetch_once(self) -> None:
        """Fetch the keys, unless that was tried a moment ago; a failure leaves them as they are."""
        async with self._lock:
            if not self._may_try():
                return
            self._tried_at = self._clock()
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    self._keys = await self._fetch()
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, _UnusableAnswerError) as error:
                reason = str(error) or type(error).__name__
                _log.warning("issuer's keys not fetched", issuer=self._issuer, reason=reason)
            else:
                self._fetched_at = self._clock()

    async def _fetch(self) -> Sequence[Jwk]:
        document = await self._get(self._jwks_url or await self._discovered())
        keys = document.get("keys")
        if not isinstance(keys, list):
            raise _UnusableAnswerError("the document of the keys has no list `keys`")
        return [key for key in keys[:MAX_KEYS] if isinstance(key, dict)]

    async def _discovered(self) -> str:
        """Return where the keys are (OpenID Connect Discovery 1.0, 4)."""
        document = await self._get(
            f"{self._issuer.removesuffix('/')}/.well-known/openid-configuration"
        )
        if document.get("issuer") != self._issuer:
            raise _UnusableAnswerError("the discovery document is another issuer's")
        address = document.get("jwks_uri")
        if not isinstance(address, str) or not is_safe_address(address):
            raise _UnusableAnswerError("the discovery document has no https address in `jwks_uri`")
        return address

    async def _get(self, url: str) -> dict[str, Any]:
        body = bytearray()
        place = urlsplit(url).netloc
        async with self._client.stream("GET", url, headers={"accept": "application/json"}) as got:
            if got.status_code != httpx.codes.OK:
                raise _UnusableAnswerError(f"{place} answered {got.status_code}")
            async for part in got.aiter_bytes():
                body += part
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise _UnusableAnswerError(f"{place} answered more than a megabyte")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise _UnusableAnswerError(f"{place} answered no JSON object")
        return document
