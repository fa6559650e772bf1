"""``vramgate serve``: the HTTP service."""

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from vramgate.errors import DomainError

if TYPE_CHECKING:
    from vramgate.settings import Settings

GRACEFUL_SECONDS = 10


class CannotStartError(DomainError):
    """The settings do not allow the service to start."""

    code = "cannot_start"


def serve(
    host: Annotated[str | None, typer.Option(help="Overrides VRAMGATE_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Overrides VRAMGATE_PORT; 0 takes a free one.")
    ] = None,
) -> None:
    """Serve the HTTP interface; the settings are VRAMGATE_* variables."""
    import uvicorn

    from vramgate.app import create_app, spare_the_collector
    from vramgate.persistence.engine import database_url
    from vramgate.persistence.journal_folder import folder_for, prepare_folder
    from vramgate.settings import PREFIX, misspelt_variables
    from vramgate.telemetry import configure_logging, logger
    from vramgate.workflows.storage import check_storage

    given = {"host": host, "port": port}
    overrides = {name: value for name, value in given.items() if value is not None}
    settings = _settings(overrides)
    configure_logging(level=settings.log_level, log_format=settings.log_format)
    for name, near in misspelt_variables(os.environ).items():
        logger("vramgate").warning("unknown setting ignored", variable=name, did_you_mean=near)
    in_workers = settings.workers > 1
    if in_workers:
        # Worker processes read their settings from the environment.
        os.environ.update({f"{PREFIX}{name.upper()}": str(overrides[name]) for name in overrides})
    # Made here in either case: what does not allow a start is told once, before there are workers.
    app = create_app(settings)
    address = settings.database_url.get_secret_value()
    asyncio.run(check_storage(address))
    prepare_folder(folder_for(settings.journal_folder, database_url(address)))
    spare_the_collector()
    # Raised once more by uvicorn when everything is answered: to stop when asked to is no failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    uvicorn.run(
        "vramgate.app:create_app_from_environment" if in_workers else app,
        factory=in_workers,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        log_config=None,
        access_log=False,
        # Of others, a forwarding header is a reason to refuse, not to believe.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
        server_header=False,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )


def _settings(overrides: dict[str, str | int]) -> "Settings":
    """Return the checked settings.

    Raises:
        InvalidSettingsError: one has the wrong type.
        CannotStartError: they do not allow the service to start.
    """
    from vramgate.cli.environment import settings_from_environment
    from vramgate.settings import SettingsError, check_settings

    settings = settings_from_environment(**overrides)
    try:
        check_settings(settings)
    except SettingsError as error:
        raise CannotStartError(str(error)) from error
    return settings
