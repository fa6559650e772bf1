"""Settings from the environment: read once at the start and passed down."""

import difflib
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

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


def _default_hub_cache() -> Path:
    return _user_folder("XDG_CACHE_HOME", ".cache") / "hub"


class Settings(BaseSettings):
    """Every setting; the environment variable of ``port`` is ``VRAMGATE_PORT``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=MAX_PORT)] = 8000
    """0 takes a free one."""
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes that answer. More than one needs a database that several processes may write."""

    database_url: SecretStr = Field(default_factory=_default_database_url)
    """Where reports, decisions and calibrations are kept. Nothing is stored by this version: the
    address is checked, the file is not made."""

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
        SettingsError: it would listen beyond this machine without asking who calls, or several
            processes would write one SQLite file.
    """
    if not is_loopback(settings.host):
        raise SettingsError(
            f"VRAMGATE_HOST is {settings.host}, which other machines can reach, but no tokens are "
            "configured and this version has none to configure. Set VRAMGATE_HOST=127.0.0.1 (the "
            f"default) and reach it from elsewhere through `ssh -L {settings.port}:127.0.0.1:"
            f"{settings.port} THIS_MACHINE`."
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


def misspelt_variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that look like ours but set nothing, each with the nearest real name.

    >>> misspelt_variables({"VRAMGATE_PROT": "9000", "VRAMGATE_HOST": "127.0.0.1"})
    {'VRAMGATE_PROT': 'VRAMGATE_PORT'}
    """
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    strangers = [n for n in environment if n.startswith(PREFIX) and n.upper() not in known]
    return {
        name: next(iter(difflib.get_close_matches(name, sorted(known), n=1)), None)
        for name in sorted(strangers)
    }
