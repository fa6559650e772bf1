"""A calibration as the JSON document it is kept as, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from vramgate.calibration.calibration import Calibration, Effect, Remark, SegmentMargin
from vramgate.calibration.distribution import Tabled
from vramgate.calibration.effects import EffectKey, Level
from vramgate.calibration.labels import Label
from vramgate.costmodel.terms import Term


def calibration_document(calibration: Calibration) -> dict[str, Any]:
    """Return the document of a calibration; its version is not in it, as it is made from the document."""
    return {
        "model_version": calibration.model_version,
        "runs": calibration.runs,
        "frameworks": sorted(calibration.frameworks),
        "remarks": [{"code": one.code, "message": one.message} for one in calibration.remarks],
        "effects": [_effect_document(one) for one in calibration.effects],
        "margins": [_margin_document(one) for one in calibration.margins],
    }


def read_calibration(document: Mapping[str, Any], *, version: str) -> Calibration:
    """Return the calibration that a document is.

    Raises:
        KeyError, ValueError: it is none that this version wrote.
    """
    return Calibration(
        version=version,
        model_version=document["model_version"],
        runs=document["runs"],
        frameworks=frozenset(document["frameworks"]),
        remarks=tuple(Remark(**one) for one in document["remarks"]),
        effects=tuple(_effect(one) for one in document["effects"]),
        margins=tuple(_margin(one) for one in document["margins"]),
    )


def _effect_document(effect: Effect) -> dict[str, Any]:
    return {
        "term": effect.key.term.value,
        "of": _pairs(effect.key.level, effect.key.values),
        "log": effect.log,
        "spread": effect.spread,
        "runs": effect.runs,
    }


def _effect(document: Mapping[str, Any]) -> Effect:
    key = EffectKey(Term(document["term"]), *_split(document["of"]))
    return Effect(key=key, log=document["log"], spread=document["spread"], runs=document["runs"])


def _margin_document(margin: SegmentMargin) -> dict[str, Any]:
    return {
        "of": _pairs(margin.level, margin.values),
        "reports": margin.reports,
        "set_aside": margin.set_aside,
        "points": list(margin.distribution.points),
        "exceedances": list(margin.distribution.exceedances),
    }


def _margin(document: Mapping[str, Any]) -> SegmentMargin:
    level, values = _split(document["of"])
    return SegmentMargin(
        level=level,
        values=values,
        reports=document["reports"],
        set_aside=document["set_aside"],
        distribution=Tabled(
            points=tuple(document["points"]), exceedances=tuple(document["exceedances"])
        ),
    )


def _pairs(level: Level, values: Sequence[str]) -> list[list[str]]:
    return [[label.value, value] for label, value in zip(level, values, strict=True)]


def _split(pairs: Sequence[Sequence[str]]) -> tuple[Level, tuple[str, ...]]:
    return tuple(Label(label) for label, _ in pairs), tuple(value for _, value in pairs)
