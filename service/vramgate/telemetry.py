"""Log lines and request ids.

One event a line, for people (``console``) or for machines (``json``); the libraries' own log lines
go the same way. Values under a name that speaks of a secret are masked.
"""

import logging
import re
import secrets
import sys
from typing import Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

REQUEST_ID_HEADER = "X-Request-Id"

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_SECRET_NAME = re.compile(r"token|secret|password|authorization|api_?key|credential", re.IGNORECASE)


def request_id_of(given: str | None) -> str:
    """Return the caller's request id where it is safe to log and to send back, else a new one.

    >>> request_id_of("slurm-4711")
    'slurm-4711'
    >>> len(request_id_of("two words"))
    32
    """
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return secrets.token_hex(16)


def mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the value of every field whose name speaks of a secret."""
    for name in event:
        if _SECRET_NAME.search(name):
            event[name] = "***"
    return event


def configure_logging(*, level: str, log_format: Literal["console", "json"]) -> None:
    """Send our events and the standard library's to standard error in one format."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask_secrets,
    ]
    renderer: list[Processor] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[
            # First: an event that nobody will read costs nothing more.
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # Asked for explicitly: these libraries tell of every request they make.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger whose events carry the request id of the request being answered."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound
