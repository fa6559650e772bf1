"""Asked: an endpoint that decides about jobs, and what was asked of it."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx

from tests.bench.connections import ANSWER_SECONDS
from tests.bench.load import BodyOf, Timed, post_at_rate, post_for
from tests.bench.processes import service
from tests.services import a_token, bearer
from vramgate.access import Scope
from vramgate.persistence.engine import Database


class Asked:
    """An endpoint under load; no two questions of a kind have one number."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._url = f"{url}/v1/admit"
        self._base_url = url
        self._headers = headers or {}
        self._asked: Counter[BodyOf] = Counter()

    def seconds_a_question(
        self, body_of: BodyOf, *, connections: int, round_seconds: float
    ) -> float:
        """Return what a question takes where so many are under way."""
        done = post_for(
            self._url,
            body_of,
            connections=connections,
            seconds=round_seconds,
            first=self._asked[body_of],
            headers=self._headers,
        )
        self._asked[body_of] += done.requests
        return 1 / done.per_second

    def at_rate(self, body_of: BodyOf, *, per_second: float, seconds: float) -> Sequence[Timed]:
        """Return the answers to questions that come at a rate."""
        answers = post_at_rate(
            self._url,
            body_of,
            per_second=per_second,
            seconds=seconds,
            first=self._asked[body_of],
            headers=self._headers,
        )
        self._asked[body_of] += len(answers)
        return answers

    def client(self) -> httpx.Client:
        """Return a client for whatever else there is to ask, to be closed by who asked for it."""
        return httpx.Client(
            base_url=self._base_url, headers=dict(self._headers), timeout=ANSWER_SECONDS
        )


@contextmanager
def admitting(database: str, settings: Mapping[str, str] | None = None) -> Iterator[Asked]:
    """Run the service as others reach it: nobody is answered without a token."""
    headers = asyncio.run(_token(database))
    with tempfile.TemporaryDirectory(prefix="vg") as folder:
        own = {
            "VRAMGATE_LOOPBACK_WITHOUT_TOKEN": "false",
            "VRAMGATE_JOURNAL_FOLDER": str(Path(folder) / "journal"),
        }
        with service(database, {**own, **(settings or {})}) as url:
            yield Asked(url, headers)


async def _token(database_url: str) -> dict[str, str]:
    database = Database(database_url)
    try:
        issued = await a_token(database, Scope.ADMIT, Scope.READ, lifetime=timedelta(days=1))
    finally:
        await database.close()
    return bearer(issued)
