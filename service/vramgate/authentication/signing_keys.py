"""The keys that report tokens are signed with: the site's own, else one that the database keeps."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from vramgate.authentication.bearer_tokens import SecretKey
from vramgate.authentication.secret_keys import MIN_KEY_BYTES, SecretKeys
from vramgate.errors import DomainError
from vramgate.persistence.engine import Database
from vramgate.persistence.signing_keys import StoredKey, agree_on_key, signing_key
from vramgate.telemetry import logger

START_SECONDS = 1.0
"""How long the service's start waits for the key; a read takes some milliseconds."""
RETRY_SECONDS = 2.0
END_SECONDS = 1.0
"""How long the service's end waits for a read, which would leave its connection open if cut off."""

_log = logger("vramgate.signing_keys")


class SigningKeys:
    """The keys in use, in memory: nothing is read for a request."""

    def __init__(self, secret_keys: SecretKeys) -> None:
        """Know the site's own keys, where it has a file of them, and no other yet."""
        self._secret_keys = secret_keys
        self._own: tuple[SecretKey, ...] = ()
        self._stop = asyncio.Event()

    def current(self) -> tuple[SecretKey, ...]:
        """Return the keys, the one that signs first; none while the database never answered."""
        return self._secret_keys.current() or self._own

    @asynccontextmanager
    async def reading(self, database: Database) -> AsyncIterator[None]:
        """Get the database's key where the site gives none; while it is away, try until the end."""
        if self.current():
            yield
            return
        self._stop.clear()
        task = asyncio.create_task(self._read_until_known(database), name="signing key")
        await asyncio.wait({task}, timeout=START_SECONDS)
        try:
            yield
        finally:
            self._stop.set()
            await asyncio.wait({task}, timeout=END_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _read_until_known(self, database: Database) -> None:
        while not (self._own or self._stop.is_set()):
            try:
                kept = await _kept_key(database)
            except Exception as error:  # noqa: BLE001 whatever the database does, tried again
                if isinstance(error, DomainError):
                    _log.warning("no signing key yet", reason=error.message)
                else:
                    _log.exception("no signing key yet")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), RETRY_SECONDS)
            else:
                self._own = (SecretKey(key_id=kept.key_id, key=kept.key),)


async def _kept_key(database: Database) -> StoredKey:
    """Return the database's key, made now where there is none."""
    async with database.reading() as connection:
        kept = await signing_key(connection)
    if kept is None:
        async with database.writing() as connection:
            kept = await agree_on_key(connection, secrets.token_bytes(MIN_KEY_BYTES))
    return kept
