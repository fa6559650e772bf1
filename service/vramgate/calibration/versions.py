"""Which calibration answers: the active one, none, or a version by name."""

import importlib.resources
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from vramgate.calibration.calibration import Calibration
from vramgate.calibration.documents import read_calibration
from vramgate.errors import FieldError, UnknownNameError
from vramgate.json_text import canonical, digest_of

ACTIVE = "active"
NONE = "none"
FACTORY_FILE = "factory.json"
_NAMING_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationStamp:
    """What an answer rests on: the version, the segment its job fell into, the reports behind it."""

    version: str
    segment: str
    reports: int


UNCALIBRATED = CalibrationStamp(version=NONE, segment="", reports=0)


@cache
def factory_calibration() -> Calibration:
    """Return the calibration that ships with the package, fitted on public measurements."""
    text = (
        importlib.resources.files("vramgate.calibration").joinpath(FACTORY_FILE).read_text("utf-8")
    )
    document = json.loads(text)
    return read_calibration(document, version=factory_version(document))


def factory_version(document: object) -> str:
    """Return the name of a factory calibration: the same data and method, the same name.

    >>> factory_version({})
    'factory-44136fa355b3'
    """
    return f"factory-{digest_of(canonical(document))[:_NAMING_DIGITS]}"


def factory_text(document: object) -> str:
    """Return the document as the file that ships: one effect, one margin a line."""
    if not isinstance(document, dict):
        raise TypeError("a calibration's document is an object")
    parts = [f"{json.dumps(name)}: {_lines(value)}" for name, value in document.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(value: object) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(one) for one in value) + "\n]"


def find_calibration(version: str) -> Calibration | None:
    """Return the calibration that a request names; None for none.

    Raises:
        UnknownNameError: there is no such version.
    """
    if version in {ACTIVE, NONE}:
        # None is active: the factory calibration is a candidate that is asked for by its name.
        return None
    factory = factory_calibration()
    if version == factory.version:
        return factory
    raise _unknown(version, (ACTIVE, NONE, factory.version))


def _unknown(version: str, known: Sequence[str]) -> UnknownNameError:
    asked = ", ".join(f'"{one}"' for one in known)
    return UnknownNameError(
        f"there is no calibration {version!r}",
        hint=f"Ask for one of {asked}.",
        fields=[
            FieldError(
                pointer="/calibration",
                code="unknown_name",
                detail=f"is no calibration; ask for one of {asked}",
                value=version,
            )
        ],
        suggestions=tuple(known),
    )
