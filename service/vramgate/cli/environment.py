"""What commands that work on the service's database take from the environment."""

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from vramgate.errors import DomainError

if TYPE_CHECKING:
    from vramgate.persistence.engine import Database
    from vramgate.settings import Settings

_Result = TypeVar("_Result")


class InvalidSettingsError(DomainError):
    """A setting of the environment, or one of the command line, is of the wrong kind."""

    code = "cannot_start"


def settings_from_environment(**overrides: object) -> "Settings":
    """Return the settings of the VRAMGATE_* variables, some of them overridden.

    Raises:
        InvalidSettingsError: one has the wrong type.
    """
    from pydantic import ValidationError

    from vramgate.settings import PREFIX, Settings

    try:
        return Settings.model_validate(overrides)
    except ValidationError as error:
        reasons = [
            f"{PREFIX}{str(one['loc'][0]).upper()} is {one['input']!r}: {one['msg']}."
            for one in error.errors()
        ]
        raise InvalidSettingsError("\n".join(reasons)) from error


def user_of_this_command() -> str:
    """Return how the audit trail names whoever runs a command.

    >>> user_of_this_command().startswith("command line: ")
    True
    """
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        name = "unknown"
    return f"command line: {name}"


def on_the_database(act: Callable[["Database"], Awaitable[_Result]]) -> _Result:
    """Run on the service's database, brought up to date as the service does it at its start.

    Raises:
        SchemaOutdatedError: PostgreSQL lacks something this version needs.
        DatabaseUnavailableError: the database does not answer.
    """
    from vramgate.persistence.engine import Database, DatabaseUnavailableError
    from vramgate.workflows.storage import bring_up_to_date

    url = settings_from_environment().database_url.get_secret_value()

    async def run() -> _Result:
        database = Database(url)
        try:
            await bring_up_to_date(database)
            return await act(database)
        except DatabaseUnavailableError as error:
            # As it was given, without its password.
            given = database.url.set(drivername=database.url.get_backend_name())
            raise DatabaseUnavailableError(
                f"{given.render_as_string()} does not answer; nothing was acknowledged.",
                hint="Start the database, or correct VRAMGATE_DATABASE_URL; then say the same again.",
            ) from error
        finally:
            await database.close()

    return asyncio.run(run())
