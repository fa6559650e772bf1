"""From the text of a token to the caller it stands for."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from vramgate.access import Caller, Scope, Tenant, scopes_in
from vramgate.authentication.bearer_tokens import (
    BearerToken,
    hash_of_secret,
    is_hash_of,
    is_made_with_first,
    parse_bearer_token,
)
from vramgate.authentication.issuer_keys import IssuerKeys
from vramgate.authentication.oidc import OidcRules, RejectedTokenError, caller_of_jwt
from vramgate.authentication.report_tokens import (
    ExpiredReportTokenError,
    RejectedReportTokenError,
    is_report_token,
    read_report_token,
)
from vramgate.authentication.secret_keys import SecretKeys
from vramgate.authentication.signing_keys import SigningKeys
from vramgate.authentication.token_lookup import KNOWN_WAIT_SECONDS, TokenLookup
from vramgate.errors import DomainError
from vramgate.persistence import callers
from vramgate.persistence.callers import StoredToken
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.settings import Settings
from vramgate.telemetry import logger

_log = logger("vramgate.authentication")


class InvalidTokenError(DomainError):
    """The token that was shown is not taken; which part of it is wrong is told to nobody."""

    code = "unauthenticated"

    def __init__(
        self,
        message: str = "The token is not valid.",
        *,
        hint: str = "It may have expired or been revoked; `vramgate token create` makes another.",
    ) -> None:
        super().__init__(message, hint=hint)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Authenticator:
    """Judges tokens: ours by the database or our signature, JWTs by the keys of their issuer."""

    def __init__(
        self,
        *,
        database: Database,
        lookup: TokenLookup,
        secret_keys: SecretKeys,
        signing_keys: SigningKeys,
        rules: OidcRules | None,
        issuer_keys: IssuerKeys | None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        """Take the parts; ``rules`` and ``issuer_keys`` where JWTs are taken."""
        self._database = database
        self._lookup = lookup
        self._secret_keys = secret_keys
        self._signing_keys = signing_keys
        self._rules = rules
        self._issuer_keys = issuer_keys
        self._now = now
        self._hashing: dict[str, asyncio.Task[None]] = {}

    async def caller_of(self, text: str) -> Caller:
        """Return who shows this token.

        Raises:
            InvalidTokenError: the token is not valid.
            TooManyAttemptsError: it is unknown, and so were too many before it.
            DatabaseUnavailableError: it must be looked up, or our key be read, and the database does
                not answer.
            IssuerUnavailableError: its issuer's keys are not known and cannot be fetched.
        """
        bearer = parse_bearer_token(text)
        if bearer is not None:
            return await self._caller_of_ours(bearer)
        if is_report_token(text):
            return self._caller_of_report_token(text)
        if self._rules is None or self._issuer_keys is None:
            raise InvalidTokenError
        try:
            return await caller_of_jwt(text, self._rules, self._issuer_keys)
        except RejectedTokenError as rejected:
            _log.info("refused", kind="jwt", reason=str(rejected))
            raise InvalidTokenError from None

    async def close(self) -> None:
        """Close the connections to the issuer; the database is its opener's to close."""
        if self._issuer_keys is not None:
            await self._issuer_keys.close()
        # Cut off, they would leave their connections open.
        if self._hashing:
            await asyncio.wait(self._hashing.values(), timeout=KNOWN_WAIT_SECONDS)

    def _caller_of_report_token(self, text: str) -> Caller:
        """Return the job that reports; nothing is looked up, the signature says it all."""
        keys = self._signing_keys.current()
        if not keys:
            raise DatabaseUnavailableError(
                "The service does not know its signing key yet: the database does not answer.",
                hint="Send the same again in a moment.",
            )
        try:
            token = read_report_token(text, keys, self._now())
        except ExpiredReportTokenError as expired:
            _log.info("refused", kind="report token", reason=str(expired))
            raise InvalidTokenError(
                "The report token has expired.",
                hint="Send the report with a token of `vramgate token create` that has the scope "
                "`report`, and name the decision as `decision_id`.",
            ) from None
        except RejectedReportTokenError as rejected:
            _log.info("refused", kind="report token", reason=str(rejected))
            raise InvalidTokenError from None
        return Caller(
            name=f"decision {token.decision_id}",
            tenant=Tenant(name=token.tenant),
            scopes=frozenset({Scope.REPORT}),
            decision_id=token.decision_id,
        )

    async def _caller_of_ours(self, bearer: BearerToken) -> Caller:
        keys = self._secret_keys.current()
        stored = await self._lookup.token_of_id(bearer.token_id)
        if stored is None or not is_hash_of(stored.secret_hash, bearer.secret, keys):
            _log.info("refused", kind="token", reason="unknown, or another secret")
            raise InvalidTokenError
        if not stored.is_valid(self._now()):
            _log.info("refused", kind="token", id=stored.token_id, reason="expired or revoked")
            raise InvalidTokenError
        if not is_made_with_first(stored.secret_hash, keys):
            await self._begin_hashing(stored, hash_of_secret(bearer.secret, keys))
        return Caller(
            name=stored.name,
            tenant=Tenant(name=stored.tenant),
            scopes=scopes_in(stored.scopes),
        )

    async def _begin_hashing(self, stored: StoredToken, new: str) -> None:
        """Let the hash under the first key be stored; a database that hangs holds nobody up."""
        if stored.token_id in self._hashing:
            return
        task = asyncio.create_task(self._hash_again(stored, new), name="token hash")
        self._hashing[stored.token_id] = task
        task.add_done_callback(lambda _: self._hashing.pop(stored.token_id, None))
        await asyncio.wait({task}, timeout=KNOWN_WAIT_SECONDS)

    async def _hash_again(self, stored: StoredToken, new: str) -> None:
        """Store the hash under the first key; a database that is away does not stop the caller."""
        try:
            async with self._database.writing() as connection:
                await callers.replace_hash(
                    connection, stored.token_id, old=stored.secret_hash, new=new
                )
        except DatabaseUnavailableError:
            _log.warning("hash under the first key not stored", id=stored.token_id)
        self._lookup.forget(stored.token_id)


def authenticator_of(
    settings: Settings, database: Database, secret_keys: SecretKeys, signing_keys: SigningKeys
) -> Authenticator:
    """Return the authenticator that the settings describe."""
    rules = issuer_keys = None
    if settings.oidc_issuer is not None:
        rules = OidcRules(
            issuer=settings.oidc_issuer,
            audience=settings.oidc_audience or "",
            algorithms=settings.oidc_algorithms,
            tenant_claim=settings.oidc_tenant_claim,
            scope_claim=settings.oidc_scope_claim,
        )
        issuer_keys = IssuerKeys(
            issuer=settings.oidc_issuer,
            jwks_url=settings.oidc_jwks_url,
            timeout_seconds=settings.oidc_timeout_seconds,
        )
    return Authenticator(
        database=database,
        lookup=TokenLookup(database),
        secret_keys=secret_keys,
        signing_keys=signing_keys,
        rules=rules,
        issuer_keys=issuer_keys,
    )
