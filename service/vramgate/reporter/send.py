"""One request to the service, bounded in time and in what is read; the only place with httpx."""

import gzip
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from vramgate.reporter.notices import say_once
from vramgate.reporter.settings import Destination, is_loopback

CONNECT_SECONDS = 1.0
TOTAL_SECONDS = 3.0
_COMPRESS_ABOVE_BYTES = 4096
_MOST_ANSWER_BYTES = 4 * 2**20
_LONGEST_WAIT_SECONDS = 600.0
_BODY_AT_FAULT = frozenset({400, 413, 415, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the service said to a batch."""

    items: tuple[Mapping[str, Any], ...] | None = None
    """One for each report, in order; None where no item was answered."""
    problem: Mapping[str, Any] | None = None
    """Why the whole request was refused for what it holds: sending it again cannot help."""
    trouble: str = ""
    """Why it is to be tried again later, in words without secrets."""
    retry_after_seconds: float = 0.0


@dataclass(slots=True)
class Sender:
    """Posts batches to one service; not to be shared between processes or threads."""

    destination: Destination
    _client: httpx.Client | None = field(default=None, init=False)

    def post(self, reports: Sequence[Mapping[str, Any]]) -> Answer:
        """Send a batch and return the answer; every failure of the network is an answer too."""
        deadline = time.monotonic() + TOTAL_SECONDS
        content, headers = _body(reports)
        try:
            with self._connected().stream(
                "POST", f"{self.destination.url}/v1/reports", content=content, headers=headers
            ) as response:
                return _understood(response, _read(response, deadline), len(reports))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            # A broken connection is not used again.
            self.close()
            return Answer(trouble=f"no answer ({type(error).__name__})")

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> httpx.Client:
        if self._client is None:
            self._client = _client(self.destination)
        return self._client


def _client(destination: Destination) -> httpx.Client:
    headers = {"user-agent": "vramgate-reporter", "accept": "application/json"}
    parts = urlsplit(destination.url)
    is_encrypted = parts.scheme == "https"
    if destination.token:
        headers["authorization"] = f"Bearer {destination.token}"
        if not is_encrypted and not is_loopback(parts.hostname or ""):
            say_once("unencrypted", "vramgate: the token travels unencrypted to %s", parts.hostname)
    # Reading the certificates takes tens of milliseconds: only where they are needed.
    verify: ssl.SSLContext | bool = is_encrypted
    if is_encrypted and destination.ca_file:
        verify = ssl.create_default_context(cafile=destination.ca_file)
    return httpx.Client(
        headers=headers,
        timeout=httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS),
        trust_env=destination.uses_proxy,
        follow_redirects=False,
        verify=verify,
    )


def _body(reports: Sequence[Mapping[str, Any]]) -> tuple[bytes, dict[str, str]]:
    content = json.dumps({"reports": list(reports)}, allow_nan=False).encode()
    headers = {"content-type": "application/json"}
    if len(content) > _COMPRESS_ABOVE_BYTES:
        content = gzip.compress(content, compresslevel=6)
        headers["content-encoding"] = "gzip"
    return content, headers


def _read(response: httpx.Response, deadline: float) -> bytes:
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > _MOST_ANSWER_BYTES:
            raise httpx.DecodingError("the answer is too long")
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer takes too long")
    return bytes(body)


def _understood(response: httpx.Response, body: bytes, count: int) -> Answer:
    status = response.status_code
    told = _object(body)
    items = told.get("items")
    is_answered = (
        status in {httpx.codes.ACCEPTED, httpx.codes.UNPROCESSABLE_ENTITY}
        and isinstance(items, list)
        and len(items) == count
        and all(isinstance(item, dict) for item in items)
    )
    if is_answered:
        return Answer(items=tuple(told["items"]))
    if status in _BODY_AT_FAULT:
        return Answer(problem=told or {"status": status})
    return Answer(trouble=_trouble(status), retry_after_seconds=_retry_after(response))


def _trouble(status: int) -> str:
    if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
        return f"not allowed ({status}): is VRAMGATE_TOKEN a valid token with the scope report?"
    if status == httpx.codes.ACCEPTED:
        return "an answer that is not the service's"
    return f"status {status}"


def _object(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _retry_after(response: httpx.Response) -> float:
    value = response.headers.get("retry-after", "")
    seconds = float(value) if value.isascii() and value.isdigit() else 0.0
    return min(seconds, _LONGEST_WAIT_SECONDS)
