"""``vramgate token``: the tokens that callers show."""

import json as json_text
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vramgate.access import Scope
from vramgate.errors import DomainError, shortened

if TYPE_CHECKING:
    from vramgate.persistence.callers import StoredToken
    from vramgate.persistence.engine import Database

token = typer.Typer(
    name="token",
    help="Make, list and revoke the tokens that callers show.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

MAX_DAYS = 3650
_NEVER = "never"
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LIFETIME = re.compile(r"([1-9][0-9]{0,7})([mhdw])", re.ASCII)


class InvalidLifetimeError(DomainError):
    """The text is no length of time a token may live."""

    code = "invalid_lifetime"


@token.command()
def create(
    *,
    tenant: Annotated[str, typer.Option(help="Whose rows its holder writes and reads.")],
    name: Annotated[str, typer.Option(help="Who or what holds it; several may have one name.")],
    scope: Annotated[
        list[Scope], typer.Option(help="What its holder may do; give the option once a scope.")
    ],
    expires_in: Annotated[
        str, typer.Option(help="As 12h, 90d or 26w; `never` for one that does not expire.")
    ] = "90d",
    json: Annotated[bool, typer.Option("--json", help="Print the token with all its data.")] = (
        False
    ),
) -> None:
    """Make a token and print it, this once: only a hash of it is stored."""
    from vramgate.authentication.secret_keys import SecretKeys
    from vramgate.authentication.tokens import IssuedToken, create_token
    from vramgate.cli.environment import (
        on_the_database,
        settings_from_environment,
        user_of_this_command,
    )

    lifetime = parse_lifetime(expires_in)
    keys = SecretKeys(settings_from_environment().secret_keys_file).current()

    async def act(database: "Database") -> IssuedToken:
        return await create_token(
            database,
            tenant=tenant,
            name=name,
            scopes=set(scope),
            lifetime=lifetime,
            keys=keys,
            actor=user_of_this_command(),
            now=datetime.now(UTC),
        )

    issued = on_the_database(act)
    text = issued.bearer.text()
    if json:
        typer.echo(json_text.dumps({"token": text, **_shown(issued.stored)}, indent=2))
        return
    # The token alone on standard output, so that `TOKEN=$(vramgate token create ...)` works.
    typer.echo(text)
    until = issued.stored.expires_at
    typer.echo(
        f"Token {issued.stored.token_id} of {tenant} "
        f"{'never expires' if until is None else f'expires {until:%Y-%m-%d %H:%M} UTC'}. "
        "It is not shown again.",
        err=True,
    )


@token.command("list")
def list_tokens(
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print all that is known of them.")] = False,
) -> None:
    """List tokens by tenant and name; their secrets are known to their holders alone."""
    from vramgate.cli.environment import on_the_database
    from vramgate.persistence.callers import StoredToken, tokens_of

    async def act(database: "Database") -> list[StoredToken]:
        async with database.reading() as connection:
            return await tokens_of(connection, tenant=tenant)

    found = on_the_database(act)
    if json:
        typer.echo(json_text.dumps([_shown(one) for one in found], indent=2))
    elif found:
        _print_table(found)
    else:
        typer.echo("There are no tokens.", err=True)


@token.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `token list` shows it.")],
) -> None:
    """Revoke a token: within 5 seconds no replica takes it any more."""
    from vramgate.authentication.bearer_tokens import parse_bearer_token
    from vramgate.authentication.tokens import revoke_token
    from vramgate.cli.environment import on_the_database, user_of_this_command
    from vramgate.persistence.callers import StoredToken

    # Whoever found a token that leaked has it whole.
    whole = parse_bearer_token(token_id)
    known = token_id if whole is None else whole.token_id

    async def act(database: "Database") -> StoredToken:
        return await revoke_token(
            database, known, actor=user_of_this_command(), now=datetime.now(UTC)
        )

    stored = on_the_database(act)
    typer.echo(f"Token {stored.token_id} ({stored.name} of {stored.tenant}) is revoked.")


def parse_lifetime(text: str) -> timedelta | None:
    """Return how long a token lives; None for ever.

    Raises:
        InvalidLifetimeError: the text is no length of time, or longer than ten years.

    >>> parse_lifetime("90d").days, parse_lifetime("never")
    (90, None)
    """
    if text == _NEVER:
        return None
    found = _LIFETIME.fullmatch(text)
    lifetime = None if found is None else timedelta(**{_UNITS[found[2]]: int(found[1])})
    if lifetime is None or lifetime > timedelta(days=MAX_DAYS):
        raise InvalidLifetimeError(
            f"--expires-in {shortened(text, 40)!r} is no length of time a token may live.",
            hint="Give minutes, hours, days or weeks as 30m, 12h, 90d or 26w, or `never`.",
        )
    return lifetime


def _shown(stored: "StoredToken") -> dict[str, Any]:
    from vramgate.authentication.bearer_tokens import key_of_hash

    moments = {
        "created_at": stored.created_at,
        "expires_at": stored.expires_at,
        "revoked_at": stored.revoked_at,
    }
    return {
        "token_id": stored.token_id,
        "tenant": stored.tenant,
        "name": stored.name,
        "scopes": list(stored.scopes),
        "state": _state(stored),
        **{name: None if at is None else at.isoformat() for name, at in moments.items()},
        # Which of VRAMGATE_SECRET_KEYS_FILE it is hashed with, to know when an old one can go.
        "key_id": key_of_hash(stored.secret_hash),
    }


def _state(stored: "StoredToken") -> str:
    if stored.revoked_at is not None:
        return "revoked"
    return "active" if stored.is_valid(datetime.now(UTC)) else "expired"


def _print_table(found: Sequence["StoredToken"]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from vramgate.cli.bill import PIPE_WIDTH

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("id", "tenant", "name", "scopes", "state", "expires"):
        table.add_column(header, overflow="fold", no_wrap=header == "id")
    for one in found:
        until = "never" if one.expires_at is None else f"{one.expires_at:%Y-%m-%d}"
        cells = (one.token_id, one.tenant, one.name, " ".join(one.scopes), _state(one), until)
        table.add_row(*map(Text, cells))
    console.print(table)
