"""create_app: the only place where the parts are put together."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.middleware import Middleware

from vramgate import __version__
from vramgate.api.middleware import BodyLimit, HeadAsGet, LoopbackOnly, RequestContext
from vramgate.api.problems import add_problem_handlers
from vramgate.api.routes import catalog, estimates, health, problem_pages
from vramgate.hub import HubLookup
from vramgate.settings import Settings, check_settings
from vramgate.telemetry import configure_logging, logger
from vramgate.workflows.load_catalogs import load_catalogs

HEAVY_REQUESTS = 2
"""Batches worked on at once in a process; others wait their turn."""

_DESCRIPTION = """\
Will a training job fit into GPU memory, and if not, what would? Every quantity is in bytes.
Errors are problem documents (RFC 9457): `errors` points to the fields, `type` to a page.
"""


def create_app(settings: Settings) -> FastAPI:
    """Return the service, put together and ready to serve.

    Raises:
        SettingsError: the settings do not allow it to start.
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
            Middleware(LoopbackOnly),
            Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
        ],
    )
    app.state.settings = settings
    app.state.catalogs = load_catalogs(settings.site_catalog)
    app.state.hub = None
    app.state.is_serving = False
    app.state.heavy_work = CapacityLimiter(HEAVY_REQUESTS)
    app.include_router(estimates.router)
    app.include_router(catalog.router)
    app.include_router(health.router)
    app.include_router(problem_pages.router)
    add_problem_handlers(app)
    return app


def create_app_from_environment() -> FastAPI:
    """Return the service as the environment sets it; what worker processes start."""
    settings = Settings()
    configure_logging(level=settings.log_level, log_format=settings.log_format)
    return create_app(settings)


def openapi_text() -> str:
    """Return the OpenAPI document as the file in ``openapi/`` holds it."""
    # Whatever the environment says: the document is the same everywhere.
    document = create_app(Settings.model_construct()).openapi()
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    for clash in app.state.catalogs.clashes:
        logger("vramgate.catalog").warning(clash.message)
    async with AsyncExitStack() as stack:
        if app.state.settings.hub_lookup:
            app.state.hub = await stack.enter_async_context(_hub(app.state.settings))
        app.state.is_serving = True
        yield
        app.state.is_serving = False


def _hub(settings: Settings) -> HubLookup:
    token = settings.hub_token
    return HubLookup(
        base_url=settings.hub_url,
        cache=settings.hub_cache,
        token=None if token is None else token.get_secret_value(),
        timeout_seconds=settings.hub_timeout_seconds,
    )
