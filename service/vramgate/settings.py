"""Settings from the environment: read once at the start and passed down."""

import difflib
import ipaddress
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, IPvAnyNetwork, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from vramgate.reporter.settings import VARIABLES as REPORTER_VARIABLES

PREFIX = "VRAMGATE_"
MAX_BODY_BYTES = 4 * 2**20
MAX_PORT = 65_535


def _user_folder(variable: str, fallback: str) -> Path:
    """Return our folder under an XDG base directory, without making it."""
    base = os.environ.get(variable, "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / fallback
    return root / "vramgate"


def _default_database_url() -> SecretStr:
    folder = _user_folder("XDG_STATE_HOME", ".local/state")
    return SecretStr(f"sqlite:///{folder / 'vramgate.db'}")


def _default_journal_folder() -> Path:
    return _user_folder("XDG_STATE_HOME", ".local/state") / "journal"


def _default_hub_cache() -> Path:
    return _user_folder("XDG_CACHE_HOME", ".cache") / "hub"


def _split(value: object) -> object:
    """Return the parts of a text with commas, as an environment variable holds a list."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


SigningAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""How an issuer may sign (RFC 7518, 3.1; RFC 8037): with a private key that only it has."""


class Settings(BaseSettings):
    """Every setting; the environment variable of ``port`` is ``VRAMGATE_PORT``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=MAX_PORT)] = 8000
    """0 takes a free one."""
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes that answer. More than one needs a database that several processes may write."""

    database_url: SecretStr = Field(default_factory=_default_database_url)
    """Where reports, tokens and the audit trail are kept: ``sqlite:////folder/vramgate.db``, made
    at the start where it is missing, or ``postgresql://user:password@host/name``."""

    journal_folder: Path = Field(default_factory=_default_journal_folder)
    """Where decisions are kept while the database is away, on a disk of this machine; made at the
    start where it is missing. Each database has a folder of its own in it."""
    journal_max_bytes: Annotated[int, Field(ge=2**20, le=64 * 2**30)] = 256 * 2**20
    """Beyond it decisions are answered all the same, and their records are lost and counted."""

    loopback_without_token: bool = True
    """Answer requests of this machine's own programs without a token. With ``false`` every request
    needs one, and the service may listen where other machines reach it."""
    trusted_proxies: Annotated[tuple[IPvAnyNetwork, ...], NoDecode, BeforeValidator(_split)] = ()
    """Addresses and networks, with commas between, whose X-Forwarded-For and -Proto are believed."""
    secret_keys_file: Path | None = None
    """One or two lines ``id:base64``: keys that tokens are hashed with; the first makes new ones."""

    oidc_issuer: str | None = None
    """Take JWTs of this OpenID provider as tokens: its ``iss``, an https address."""
    oidc_audience: str | None = None
    """What the ``aud`` of such a JWT must name: this service."""
    oidc_jwks_url: str | None = None
    """Where the issuer's keys are, if its discovery document is not to be asked."""
    oidc_tenant_claim: str = "tenant"
    """The claim that names the tenant; dots lead into objects, as in ``organization.name``."""
    oidc_scope_claim: str = "scope"
    """The claim that holds the scopes: a list, or a text with spaces."""
    oidc_algorithms: Annotated[
        tuple[SigningAlgorithm, ...], NoDecode, BeforeValidator(_split), Field(min_length=1)
    ] = ("RS256", "PS256", "ES256", "EdDSA")
    oidc_timeout_seconds: Annotated[float, Field(gt=0, le=30)] = 3.0

    site_catalog: Path | None = None
    """A JSON file with the site's own models and accelerators, read at the start."""

    hub_lookup: bool = False
    """Ask the Hugging Face Hub for the ``config.json`` of a model the catalog does not know."""
    hub_url: str = "https://huggingface.co"
    hub_token: SecretStr | None = None
    hub_cache: Path = Field(default_factory=_default_hub_cache)
    hub_timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0

    max_body_bytes: Annotated[int, Field(ge=1024, le=64 * 2**20)] = MAX_BODY_BYTES
    max_json_depth: Annotated[int, Field(ge=8, le=200)] = 64

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"


class SettingsError(Exception):
    """The settings do not allow the service to start; the message says which and what to do."""


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine can reach the host.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    name = host.removeprefix("[").removesuffix("]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def check_settings(settings: Settings) -> None:
    """Refuse to start where the service would be open to others, or unsafe for its data.

    Raises:
        SettingsError: it would listen beyond this machine without asking who calls, take tokens of
            an issuer without knowing enough, or several processes would write one SQLite file.
    """
    if not is_loopback(settings.host) and settings.loopback_without_token:
        raise SettingsError(
            f"VRAMGATE_HOST is {settings.host}, which other machines can reach, but callers need no "
            "token. Set VRAMGATE_LOOPBACK_WITHOUT_TOKEN=false, so that every request needs one, and "
            "make one with `vramgate token create --tenant NAME --name NAME --scope report`, or "
            "name an issuer in VRAMGATE_OIDC_ISSUER and VRAMGATE_OIDC_AUDIENCE. Or set "
            "VRAMGATE_HOST=127.0.0.1 (the default) and reach it from elsewhere through "
            f"`ssh -L {settings.port}:127.0.0.1:{settings.port} THIS_MACHINE`."
        )
    if settings.workers > 1 and settings.database_url.get_secret_value().startswith("sqlite"):
        raise SettingsError(
            f"VRAMGATE_WORKERS is {settings.workers}, but VRAMGATE_DATABASE_URL is SQLite, which "
            "one process may write. Set VRAMGATE_WORKERS=1, or give a PostgreSQL database."
        )
    if settings.site_catalog is not None and not settings.site_catalog.is_file():
        raise SettingsError(
            f"VRAMGATE_SITE_CATALOG is {settings.site_catalog}, which is not a file."
        )
    _check_issuer(settings)


def _check_issuer(settings: Settings) -> None:
    if settings.oidc_issuer is None:
        for name in ("oidc_audience", "oidc_jwks_url"):
            if getattr(settings, name) is not None:
                raise SettingsError(
                    f"{PREFIX}{name.upper()} is set, but VRAMGATE_OIDC_ISSUER is not: name the "
                    "issuer whose tokens are to be taken."
                )
        return
    if not settings.oidc_audience:
        raise SettingsError(
            "VRAMGATE_OIDC_ISSUER is set, but VRAMGATE_OIDC_AUDIENCE is not: without it, tokens "
            "that the issuer gave for other services would be taken. Set what `aud` must name."
        )
    for name in ("oidc_issuer", "oidc_jwks_url"):
        address = getattr(settings, name)
        if address is not None and not is_safe_address(address):
            raise SettingsError(
                f"{PREFIX}{name.upper()} is {address}, over which keys could be swapped on the "
                "way: give an https:// address."
            )


def is_safe_address(address: str) -> bool:
    """Return whether nobody between can change what the address answers.

    >>> is_safe_address("https://idp.example"), is_safe_address("http://idp.example")
    (True, False)
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    )


def misspelt_variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that look like ours but set nothing, each with the nearest real name.

    >>> misspelt_variables({"VRAMGATE_PROT": "9000", "VRAMGATE_HOST": "127.0.0.1"})
    {'VRAMGATE_PROT': 'VRAMGATE_PORT'}
    """
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | REPORTER_VARIABLES
    strangers = [n for n in environment if n.startswith(PREFIX) and n.upper() not in known]
    return {
        name: next(iter(difflib.get_close_matches(name, sorted(known), n=1)), None)
        for name in sorted(strangers)
    }
