"""The Hugging Face Hub as a second source of configs, for names the catalog does not know.

Off unless a site switches it on, and never asked while a scheduler waits for an admission: a
look-up may take as long as its timeout. What was fetched is kept on disk, so that the hub is asked
once per name and expiry, and what it said once stays available when it is away.
"""

import asyncio
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from vramgate.errors import DomainError, UnknownNameError

MAX_CONFIG_BYTES = 2**20
"""The largest published config.json is 1.0 MB (ImageNet-21k label tables); a checkpoint is not."""
MAX_REDIRECTS = 5
_REPOSITORY = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,199}", re.ASCII)
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_NOT_THERE = frozenset({"RepoNotFound", "RevisionNotFound", "EntryNotFound"})
_WAY_OUT = "Give model.config (the model's config.json) instead."


class HubError(DomainError):
    """The hub could not be asked, or its answer cannot be used."""

    code = "hub_unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """A model's ``config.json`` as the hub has it, or had it when it was last asked."""

    name: str
    config: Mapping[str, Any]
    commit: str | None
    """The commit of the repository it came from, where the hub says it."""
    etag: str | None
    fetched_at: float
    """Seconds since the epoch of the last answer of the hub that confirmed it."""
    stale: bool = False
    """Older than the expiry: the hub did not answer, and this is what it said before."""


class HubLookup:
    """Asks one hub for configs, through a cache on disk. Use it as an async context manager."""

    def __init__(
        self,
        *,
        base_url: str,
        cache: Path,
        token: str | None = None,
        timeout_seconds: float = 5.0,
        expiry_seconds: float = 7 * 86_400.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Take the hub's address and the folder of the cache; nothing is asked or made yet.

        The token is sent to ``base_url`` alone and appears in no message.

        Raises:
            HubError: the token would travel unencrypted to another machine.
        """
        self._base = httpx.URL(base_url.rstrip("/") + "/")
        if token and self._base.scheme != "https" and self._base.host not in _LOOPBACK:
            raise HubError(
                f"the hub's token would travel unencrypted to {self._base.host}",
                hint="Give VRAMGATE_HUB_URL as https://, or no VRAMGATE_HUB_TOKEN.",
            )
        self._cache = cache
        self._timeout_seconds = timeout_seconds
        self._expiry_seconds = expiry_seconds
        self._now = now
        self._client = httpx.AsyncClient(
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=timeout_seconds,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        """Return itself; connections are opened as they are needed."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def model_config(self, name: str, *, revision: str = "main") -> HubConfig:
        """Return the config of a repository, from the cache while it is fresh.

        Raises:
            UnknownNameError: the hub has no such repository, or it holds no config.
            HubError: the hub did not answer in time or not usably, and the cache has nothing.
        """
        if _REPOSITORY.fullmatch(name) is None or _REVISION.fullmatch(revision) is None:
            raise UnknownNameError(
                f"{name[:120]!r} at {revision[:120]!r} is no repository of a hub",
                hint=f"Write it as organisation/name. {_WAY_OUT}",
                asked=name,
                suggestions=(),
            )
        path = self._cache_path(name, revision)
        kept = await asyncio.to_thread(_read_kept, path, name)
        if kept is not None and self._now() - kept.fetched_at < self._expiry_seconds:
            return kept
        try:
            async with asyncio.timeout(self._timeout_seconds):
                fetched = await self._fetch(name, revision, kept)
        except (httpx.HTTPError, TimeoutError, HubError) as error:
            if kept is None:
                raise _unavailable(name, error) from None
            return _as_stale(kept)
        await asyncio.to_thread(_keep, path, fetched)
        return fetched

    async def _fetch(self, name: str, revision: str, kept: HubConfig | None) -> HubConfig:
        url = self._base.join(f"{name}/resolve/{quote(revision, safe='')}/config.json")
        headers = {"if-none-match": kept.etag} if kept is not None and kept.etag else {}
        commit: str | None = None
        for _ in range(MAX_REDIRECTS + 1):
            async with self._client.stream("GET", url, headers=headers) as answer:
                commit = answer.headers.get("x-repo-commit", commit)
                if answer.has_redirect_location:
                    url = self._next(url, answer.headers["location"])
                    continue
                if answer.status_code == httpx.codes.NOT_MODIFIED and kept is not None:
                    return _confirmed(kept, commit, self._now())
                _check_status(name, answer)
                return HubConfig(
                    name=name,
                    config=_config(name, await _body(name, answer)),
                    commit=commit,
                    etag=answer.headers.get("etag"),
                    fetched_at=self._now(),
                )
        raise HubError(f"the hub redirects {name} in circles", hint=_WAY_OUT)

    def _next(self, url: httpx.URL, location: str) -> httpx.URL:
        """Return where a redirect leads, on the same hub only: the token must go nowhere else."""
        target = url.join(location)
        ours = (self._base.scheme, self._base.host, self._base.port)
        if (target.scheme, target.host, target.port) != ours:
            raise HubError(f"the hub redirects to another host, {target.host}", hint=_WAY_OUT)
        return target

    def _cache_path(self, name: str, revision: str) -> Path:
        key = f"{self._base} {name.casefold()} {revision}"
        return self._cache / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _check_status(name: str, answer: httpx.Response) -> None:
    """Raise where the hub did not send a file.

    Its own code tells what exists: it answers 401 for what needs a token and for what is not
    there. Source: huggingface_hub, hf_raise_for_status.
    """
    status, code = answer.status_code, answer.headers.get("x-error-code")
    if status == httpx.codes.OK:
        return
    if status == httpx.codes.NOT_FOUND or code in _NOT_THERE:
        raise UnknownNameError(
            f"the hub has no config.json for {name}",
            hint=f"Check the spelling. {_WAY_OUT}",
            asked=name,
            suggestions=(),
        )
    if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
        raise HubError(
            f"the hub does not show {name}: it is gated, private or does not exist",
            hint=f"Accept its terms and set VRAMGATE_HUB_TOKEN. {_WAY_OUT}",
        )
    raise HubError(f"the hub answered {status} for {name}", hint=f"Try again. {_WAY_OUT}")


async def _body(name: str, answer: httpx.Response) -> bytes:
    body = bytearray()
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > MAX_CONFIG_BYTES:
            raise HubError(
                f"the config.json of {name} is larger than {MAX_CONFIG_BYTES} bytes", hint=_WAY_OUT
            )
    return bytes(body)


def _config(name: str, body: bytes) -> dict[str, Any]:
    try:
        config = json.loads(body)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise HubError(f"the config.json of {name} is no JSON object", hint=_WAY_OUT)
    return config


def _unavailable(name: str, error: Exception) -> HubError:
    if isinstance(error, HubError):
        return error
    kind = "in time" if isinstance(error, TimeoutError | httpx.TimeoutException) else "at all"
    return HubError(f"the hub did not answer {kind} for {name}", hint=f"Try again. {_WAY_OUT}")


def _confirmed(kept: HubConfig, commit: str | None, now: float) -> HubConfig:
    return HubConfig(
        name=kept.name,
        config=kept.config,
        commit=commit or kept.commit,
        etag=kept.etag,
        fetched_at=now,
    )


def _as_stale(kept: HubConfig) -> HubConfig:
    return HubConfig(
        name=kept.name,
        config=kept.config,
        commit=kept.commit,
        etag=kept.etag,
        fetched_at=kept.fetched_at,
        stale=True,
    )


def _read_kept(path: Path, name: str) -> HubConfig | None:
    """Return what the cache holds; None for nothing, and for a file that is not ours or is torn."""
    try:
        row = json.loads(path.read_bytes())
        return HubConfig(
            name=name,
            config=dict(row["config"]),
            commit=row["commit"],
            etag=row["etag"],
            fetched_at=float(row["fetched_at"]),
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _keep(path: Path, fetched: HubConfig) -> None:
    """Write a config to the cache so that readers see the old file or the new one, never half.

    A cache that cannot be written is no failure of the look-up: the hub is asked again next time.
    """
    row = {
        "name": fetched.name,
        "config": fetched.config,
        "commit": fetched.commit,
        "etag": fetched.etag,
        "fetched_at": fetched.fetched_at,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(row, file)
            Path(written).replace(path)
        except BaseException:
            Path(written).unlink(missing_ok=True)
            raise
    except OSError:
        return
