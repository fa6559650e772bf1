"""Which calibration answers: so far only the absence of one."""

from dataclasses import dataclass

from vramgate.errors import FieldError, UnknownNameError

ACTIVE = "active"
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationStamp:
    """What an answer rests on: the version, the segment its job fell into, the reports behind it."""

    version: str
    segment: str
    reports: int


UNCALIBRATED = CalibrationStamp(version=NONE, segment="", reports=0)


def find_calibration(version: str) -> CalibrationStamp:
    """Return the calibration that a request names.

    Raises:
        UnknownNameError: there is no such version.
    """
    if version in {ACTIVE, NONE}:
        return UNCALIBRATED
    raise UnknownNameError(
        f"there is no calibration {version!r}",
        hint='Ask for "active" or "none".',
        fields=[
            FieldError(
                pointer="/calibration",
                code="unknown_name",
                detail='is no calibration; ask for "active" or "none"',
                value=version,
            )
        ],
        suggestions=(ACTIVE, NONE),
    )
