"""``vramgate migrate``: the database brought to the schema this version works with."""

from typing import Annotated

import typer

from vramgate.errors import DomainError


class UnclearMigrationError(DomainError):
    """The options exclude each other."""

    code = "unclear_migration"


def migrate(
    *,
    to: Annotated[
        str, typer.Option(help="A revision; an older one drops what newer ones hold.")
    ] = "head",
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the statements of the whole chain; run none.")
    ] = False,
) -> None:
    """Bring the database at VRAMGATE_DATABASE_URL to a revision, the newest one by default.

    Run it before a new version of the service starts; running ones go on meanwhile. Of several at
    once one does the work. Where another session holds a lock for longer than a few seconds,
    nothing is changed.
    """
    from vramgate.cli.environment import settings_from_environment
    from vramgate.persistence.migrate import migrate as bring_to
    from vramgate.persistence.migrate import migration_sql

    url = settings_from_environment().database_url.get_secret_value()
    if sql:
        if to != "head":
            raise UnclearMigrationError("--sql prints the whole chain; it goes without --to.")
        typer.echo(migration_sql(url), nl=False)
        return
    done = bring_to(url, to=to)
    before, after = done.before or "no schema", done.after or "no schema"
    if done.is_ahead:
        typer.echo(f"{after}, of a newer version that this one works with; nothing to do")
    else:
        typer.echo(f"{before} → {after}" if before != after else f"{after}, nothing to do")
