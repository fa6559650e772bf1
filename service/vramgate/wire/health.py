"""The answers to "are you alive" and "can you work"."""

from pydantic import BaseModel


class Health(BaseModel):
    """A word for people; machines look at the status code."""

    status: str


class ReadinessCheck(BaseModel):
    """One thing that must hold before the service can answer."""

    name: str
    passed: bool
    detail: str


class Readiness(BaseModel):
    """Whether the service can answer; ``checks`` is there with ``?verbose``."""

    status: str
    checks: list[ReadinessCheck] | None = None
