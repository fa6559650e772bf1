"""The answers to "are you alive" and "can you work"."""

from enum import StrEnum

from pydantic import BaseModel


class CheckName(StrEnum):
    """What is looked at."""

    SERVICE = "service"
    CATALOG = "catalog"
    DATABASE = "database"
    JOURNAL = "journal"


class Health(BaseModel):
    """A word for people; machines look at the status code."""

    status: str


class ReadinessCheck(BaseModel):
    """One thing that must hold before the service can answer."""

    name: CheckName
    passed: bool
    detail: str


class Readiness(BaseModel):
    """Whether the service can answer; ``checks`` is there with ``?verbose``."""

    status: str
    checks: list[ReadinessCheck] | None = None
