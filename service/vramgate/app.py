"""create_app: the only place where the parts are put together."""

import gc
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.middleware import Middleware

from vramgate import __version__
from vramgate.api.auth import Authentication, TokenlessCallers
from vramgate.api.middleware import BodyLimit, HeadAsGet, RequestContext
from vramgate.api.problems import add_problem_handlers
from vramgate.api.routes import (
    admission_lists,
    admissions,
    audit,
    catalog,
    estimates,
    health,
    launches,
    policies,
    problem_pages,
    replays,
    report_lists,
    reports,
    site_catalog,
)
from vramgate.api.routes.admissions import Gate
from vramgate.authentication.authenticator import authenticator_of
from vramgate.authentication.secret_keys import SecretKeys
from vramgate.authentication.signing_keys import SigningKeys
from vramgate.hub import HubLookup
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.persistence.journal import Journal
from vramgate.persistence.journal_folder import folder_for
from vramgate.settings import Settings, check_settings
from vramgate.telemetry import configure_logging, logger
from vramgate.workflows.admissions import Admissions
from vramgate.workflows.decided_jobs import DecidedJobs
from vramgate.workflows.load_catalogs import load_catalogs
from vramgate.workflows.record_decisions import DecisionIntake
from vramgate.workflows.record_reports import ReportIntake
from vramgate.workflows.storage import Upkeep, bring_up_to_date
from vramgate.workflows.tenant_catalogs import TenantCatalogs
from vramgate.workflows.tenant_policies import TenantPolicies

HEAVY_REQUESTS = 2
"""Batches worked on at once in a process; others wait their turn."""

NEW_OBJECTS = 50_000
"""Objects between two looks for garbage that refers to itself: some hundred requests' worth."""

_DESCRIPTION = """\
Will a training job fit into GPU memory, and if not, what would? Every quantity is in bytes.
Errors are problem documents (RFC 9457): `errors` points to the fields, `type` to a page.
"""


def create_app(settings: Settings) -> FastAPI:
    """Return the service, put together and ready to serve.

    Raises:
        SettingsError: the settings do not allow it to start.
        SecretKeysError: the file of the secret keys cannot be used.
    """
    check_settings(settings)
    app = FastAPI(
        title="vramgate",
        version=__version__,
        summary="GPU memory of LLM training jobs: the peak, its bill, and whether it fits.",
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
        # The first of these meets the request first.
        middleware=[
            Middleware(RequestContext),
            Middleware(HeadAsGet),
            Middleware(Authentication, tokenless=_tokenless_callers(settings)),
            Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
        ],
    )
    app.state.settings = settings
    app.state.tenant_catalogs = TenantCatalogs(load_catalogs(settings.site_catalog))
    app.state.tenant_policies = TenantPolicies()
    app.state.hub = None
    app.state.authenticator = None
    app.state.secret_keys = SecretKeys(settings.secret_keys_file)
    app.state.signing_keys = SigningKeys(app.state.secret_keys)
    app.state.is_serving = False
    app.state.admission_gate = Gate()
    app.state.heavy_work = CapacityLimiter(HEAVY_REQUESTS)
    # Paths are tried in this order: those asked most come first.
    app.include_router(admissions.router)
    app.include_router(reports.router)
    app.include_router(estimates.router)
    app.include_router(launches.router)
    app.include_router(catalog.router)
    app.include_router(site_catalog.router)
    app.include_router(admission_lists.router)
    app.include_router(replays.router)
    app.include_router(report_lists.router)
    app.include_router(policies.router)
    app.include_router(audit.router)
    app.include_router(health.router)
    app.include_router(problem_pages.router)
    add_problem_handlers(app)
    return app


def create_app_from_environment() -> FastAPI:
    """Return the service as the environment sets it; what worker processes start."""
    settings = Settings()
    configure_logging(level=settings.log_level, log_format=settings.log_format)
    app = create_app(settings)
    spare_the_collector()
    return app


def spare_the_collector() -> None:
    """Let Python's garbage collector leave alone what stays, and come seldom for the rest.

    For a process that serves: out of the box the collector looks through the catalogs again and again,
    and takes a third of the time of a small request (`make bench`, reports singly).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def openapi_text() -> str:
    """Return the OpenAPI document as the file in ``openapi/`` holds it."""
    # Whatever the environment says: the document is the same everywhere.
    document = create_app(Settings.model_construct()).openapi()
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    for clash in app.state.tenant_catalogs.site.clashes:
        logger("vramgate.catalog").warning(clash.message)
    async with AsyncExitStack() as stack:
        await _open_storage(app, stack)
        if app.state.settings.hub_lookup:
            app.state.hub = await stack.enter_async_context(_hub(app.state.settings))
        app.state.is_serving = True
        yield
        app.state.is_serving = False


def _tokenless_callers(settings: Settings) -> TokenlessCallers:
    if settings.loopback_without_token:
        return TokenlessCallers.THIS_MACHINE
    return TokenlessCallers.NOBODY


async def _open_storage(app: FastAPI, stack: AsyncExitStack) -> None:
    database = Database(app.state.settings.database_url.get_secret_value())
    stack.push_async_callback(database.close)
    try:
        await bring_up_to_date(database)
    except DatabaseUnavailableError:
        # Estimates need no database; `/readyz` says what is missing.
        logger("vramgate.storage").warning("the database does not answer yet")
    app.state.database = database
    signing_keys: SigningKeys = app.state.signing_keys
    await stack.enter_async_context(signing_keys.reading(database))
    authenticator = authenticator_of(
        app.state.settings, database, app.state.secret_keys, signing_keys
    )
    stack.push_async_callback(authenticator.close)
    app.state.authenticator = authenticator
    await stack.enter_async_context(app.state.tenant_catalogs.reading(database))
    await stack.enter_async_context(app.state.tenant_policies.reading(database))
    app.state.decided_jobs = DecidedJobs(database)
    app.state.report_intake = await stack.enter_async_context(ReportIntake(database))
    await _open_admissions(app, database, stack)
    await stack.enter_async_context(Upkeep(database))


async def _open_admissions(app: FastAPI, database: Database, stack: AsyncExitStack) -> None:
    settings: Settings = app.state.settings
    folder = folder_for(settings.journal_folder, database.url)
    journal = Journal(folder, most_bytes=settings.journal_max_bytes)
    intake = await stack.enter_async_context(DecisionIntake(database, journal))
    app.state.decision_intake = intake
    app.state.admissions = Admissions(
        database=database,
        catalogs=app.state.tenant_catalogs,
        policies=app.state.tenant_policies,
        intake=intake,
        signing_keys=app.state.signing_keys,
    )


def _hub(settings: Settings) -> HubLookup:
    token = settings.hub_token
    return HubLookup(
        base_url=settings.hub_url,
        cache=settings.hub_cache,
        token=None if token is None else token.get_secret_value(),
        timeout_seconds=settings.hub_timeout_seconds,
    )
