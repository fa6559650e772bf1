"""The parts of the README that are computed: ``python -m tests.readme`` writes them anew."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.accuracy.bundled import bundled_calibrated, bundled_report
from tests.costmodel.worked_numbers import NUMBERS, answers
from vramgate.access import LOCAL_CALLER
from vramgate.accuracy.calibrated_tables import calibrated_tables
from vramgate.accuracy.markdown import as_markdown
from vramgate.accuracy.tables import TextTable, accuracy_tables
from vramgate.admission.policy import AdmissionPolicy, Asked
from vramgate.admission.ruling import Wish
from vramgate.calibration.residuals import residuals_of
from vramgate.calibration.versions import UNCALIBRATED
from vramgate.wire.admissions import AdmitRequest
from vramgate.wire.estimates import EstimateRequest
from vramgate.wire.launches import ParseRequest
from vramgate.wire.validation import validated
from vramgate.workflows.admission_answers import admission_answer
from vramgate.workflows.admit_job import admit_job
from vramgate.workflows.estimate_job import answer_request
from vramgate.workflows.load_catalogs import load_catalogs
from vramgate.workflows.read_launch import parse
from vramgate.workflows.read_question import read_subject
from vramgate.workflows.read_report import ReportReader

README = Path(__file__).parents[1] / "README.md"


def accuracy_section() -> str:
    """Return what ``vramgate accuracy --markdown`` prints."""
    return as_markdown(accuracy_tables(bundled_report()))


def calibrated_section() -> str:
    """Return what ``vramgate accuracy --calibrated --markdown`` adds to it."""
    return as_markdown(calibrated_tables(bundled_calibrated()))


def numbers_section() -> str:
    """Return the numbers people know, the service's answers, and the jobs they were asked with."""
    rows = tuple(
        (f"{place}", number.said, number.shown(number.answer(answer)), number.why)
        for place, (number, answer) in enumerate(zip(NUMBERS, answers(), strict=True), start=1)
    )
    table = TextTable(
        title="As answers of the service",
        headers=("", "what people say", "the service’s answer", "why"),
        rows=rows,
        prose_columns=4,
    )
    jobs = "\n".join(
        f"{place:2}  {json.dumps(number.job)}" for place, number in enumerate(NUMBERS, start=1)
    )
    return (
        f"{as_markdown([table])}\n<details><summary>The jobs, for <code>vramgate estimate</code> or "
        f"<code>POST /v1/estimates</code></summary>\n\n```\n{jobs}\n```\n\n</details>\n"
    )


SHOWN = ("peak", "bill", "capacity", "fits", "headroom_bytes", "oom_probability")
"""Parts of the answer that the README shows."""


def _bodies() -> list[dict[str, Any]]:
    """Return the bodies of the README's own requests, in order."""
    text = README.read_text(encoding="utf-8")
    return [json.loads(body) for body in re.findall(r"-d '(\{.*?\n\})'", text, re.DOTALL)]


def answer_section() -> str:
    """Return the service's answer to the README's request for an estimate."""
    answer = answer_request(validated(EstimateRequest, _bodies()[0]), load_catalogs())
    shown = answer.model_dump(mode="json", by_alias=True, include=set(SHOWN))
    shown["bill"] = [
        {key: line[key] for key in ("component", "bytes", "formula")} for line in shown["bill"]
    ]
    text = json.dumps({key: shown[key] for key in SHOWN}, indent=2, ensure_ascii=False)
    return (
        f"```json\n{text[:-2]},\n  …\n}}\n```\n\n"
        "Also in the answer: the model's parameters, the `timeline` with what is alive at each phase's highest moment, "
        "`host_bytes`, the job with every field filled, `assumptions` with whose each default is, and `warnings`.\n"
    )


PLACES = (
    "micro_batch_size",
    "sequence_length",
    "sharding.zero_stage",
    "hardware.devices",
    "hardware.accelerator",
    "precision.weights",
    "optimizer.name",
)
"""Fields of a launch's answer that the README shows."""


def launch_section() -> str:
    """Return what the service reads of the README's launch."""
    answer = parse(validated(ParseRequest, _bodies()[1]), load_catalogs(), {})
    assert not answer.problems
    assert not answer.unknown
    shown = answer.model_dump(mode="json", by_alias=True)
    places = ",\n".join(
        f"    {json.dumps(field)}: {json.dumps(shown['provenance'][field])}" for field in PLACES
    )
    return (
        f'```json\n{{\n  "framework": "{answer.framework}",\n  "job": {{ … }},\n  "provenance": {{\n'
        f"{places},\n    …\n  }},\n"
        '  "unknown": [], "problems": [], "missing_files": [], "assumptions": [ … ], "warnings": [ … ]\n}\n```\n'
    )


ANSWERED = (
    "decision_id", "recorded", "verdict", "decision", "mode", "reason_code", "message", "oom_probability",
)  # fmt: skip
"""Members of an admission's answer that the README shows whole."""


def admission_section() -> str:
    """Return the service's answer to the README's admission, but for the id and the token it would get."""
    request = validated(AdmitRequest, _bodies()[2])
    policy = AdmissionPolicy()
    done = admit_job(
        read_subject(request, {}),
        policy.terms(Asked(), datetime(2026, 11, 29, tzinfo=UTC)),
        Wish(),
        capacity=policy.capacity,
        catalogs=load_catalogs(),
    )
    answer = admission_answer(done, calibration=UNCALIBRATED, inputs_digest=request.inputs_digest)
    shown = answer.model_dump(mode="json")
    shown |= {"decision_id": "0bffd87d-5855-824d-9fe9-8576637f0315", "recorded": True}
    lines = [f"  {json.dumps(name)}: {json.dumps(shown[name])}" for name in ANSWERED]
    suggestions = ",\n".join(f"    {_suggestion(one)}" for one in shown["suggestions"])
    return (
        "```json\n{\n" + ",\n".join(lines) + ',\n  "suggestions": [\n' + suggestions + "\n  ],\n"
        '  "peak": { … }, "capacity": { … }, "reasons": [ … ], "unknown": [], "assumptions": [ … ], …,\n'
        '  "policy_version": "default", "report_token": "vgr_…", "expires_at": "2026-12-06T22:15:09+00:00"\n}\n```\n'
    )


def _suggestion(one: Mapping[str, Any]) -> str:
    members = {"text": one["text"], "slowdown": one["slowdown"], "cost": one["cost"]}
    inner = json.dumps(members, ensure_ascii=False)[1:-1]
    required = one["peak"]["required_bytes"]
    return f'{{"change": [ … ], {inner}, "peak": {{"required_bytes": {required}, … }}, … }}'


def report_section() -> str:
    """Return the service's answer to the README's report, but for the id it would get."""
    (item,) = _bodies()[3]["reports"]
    report = ReportReader(load_catalogs()).read(item, LOCAL_CALLER)
    residuals = residuals_of(report.measured, report.estimated)
    assert not report.doubts
    answer = {
        "items": [
            {
                "report_id": "01a22825-b462-71e1-8954-37b0e0ec2334",
                "status": "accepted",
                "reasons": [],
                "residuals": {layer: asdict(one) for layer, one in residuals.items()},
            }
        ]
    }
    return f"```json\n{json.dumps(answer, indent=2)}\n```\n"


SECTIONS: Mapping[str, Callable[[], str]] = {
    "answer": answer_section,
    "launch": launch_section,
    "admission": admission_section,
    "report": report_section,
    "accuracy": accuracy_section,
    "calibrated": calibrated_section,
    "numbers": numbers_section,
}
"""What stands between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``."""


def section(name: str, text: str) -> str:
    """Return what a README holds under a name."""
    found = _markers(name).search(text)
    assert found is not None, f"the README has no section {name}"
    return found["held"].strip("\n") + "\n"


def _with_section(name: str, text: str, held: str) -> str:
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    return _markers(name).sub(lambda _: f"{begin}\n\n{held.strip()}\n\n{end}", text)


def _markers(name: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- {name}:begin -->(?P<held>.*?)<!-- {name}:end -->", re.DOTALL)


def main() -> None:
    """Write every computed section of the README anew."""
    text = README.read_text(encoding="utf-8")
    for name, made in SECTIONS.items():
        text = _with_section(name, text, made())
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
