"""Laws of verdicts, over the catalog's models and cards and the frameworks' defaults."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.strategies import jobs
from vramgate.admission.decision import Mode, Verdict
from vramgate.admission.policy import CapacityMap, Terms
from vramgate.admission.ruling import Wish
from vramgate.calibration.versions import UNCALIBRATED
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.jobs.frameworks.registry import framework_names
from vramgate.reporter.redaction import without_secret_names
from vramgate.units import GIB
from vramgate.wire.admissions import AdmissionAnswer, AdmitRequest
from vramgate.wire.job import JobOut
from vramgate.wire.validation import validated
from vramgate.workflows.admission_answers import admission_answer
from vramgate.workflows.admit_job import Admission, admit_job
from vramgate.workflows.load_catalogs import load_catalogs
from vramgate.workflows.read_question import kept_subject, read_subject

Json = dict[str, Any]

CATALOGS = load_catalogs()
ENFORCE = Terms(mode=Mode.ENFORCE)
HARSHER = (Verdict.ALLOW, Verdict.WARN, Verdict.DENY)
CLEARLY_LESS = 0.9
"""Of a card's memory. Contexts and native formats differ from card to card, by less than a tenth."""
REPLICA = """
import json, sys
from tests.workflows.test_admission_laws import verdicts_of
json.dump(verdicts_of(json.load(sys.stdin)), sys.stdout)
"""
slow = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def whole_jobs() -> st.SearchStrategy[Json]:
    """Return jobs whose critical fields are all said, of sizes around those of real cards."""
    named = [entry.name for entry in builtin_models().entries if entry.config is not None]
    return st.fixed_dictionaries(
        {
            "model": st.sampled_from([{"name": name} for name in named]),
            "method": st.sampled_from(["full", "lora", "qlora", "freeze"]),
            "precision": st.sampled_from(["fp32", "bf16-mixed", "bf16-true", "fp16-mixed"]),
            "optimizer": st.sampled_from(["adamw", "sgd", "adafactor"]),
            "micro_batch_size": st.sampled_from([1, 2, 4, 8, 32]),
            "sequence_length": st.sampled_from([128, 512, 2048, 8192]),
            "activation_checkpointing": st.sampled_from(["none", "full"]),
            "software": st.sampled_from([{"framework": name} for name in framework_names()]),
        }
    )


def any_jobs() -> st.SearchStrategy[Json]:
    return st.one_of(whole_jobs(), jobs())


def cards() -> st.SearchStrategy[str]:
    return st.sampled_from([card.name for card in builtin_accelerators().entries])


def admitted(terms: Terms = ENFORCE, **question: Any) -> Admission:  # noqa: ANN401 a request's own fields
    request = validated(AdmitRequest, question)
    return admit_job(
        read_subject(request, {}),
        terms,
        Wish(mode=request.mode),
        capacity=CapacityMap(),
        catalogs=CATALOGS,
    )


def answered(admission: Admission) -> AdmissionAnswer:
    return admission_answer(admission, calibration=UNCALIBRATED, inputs_digest="")


def verdicts_of(questions: Sequence[Json]) -> list[Json]:
    """Return the answers that this process has for questions."""
    return [answered(admitted(**one)).model_dump(mode="json") for one in questions]


def on_card(job: Json, card: str, **more: Any) -> Json:  # noqa: ANN401 JSON
    return {**job, "hardware": {**job.get("hardware", {}), "accelerator": card, **more}}


@given(job=any_jobs(), pair=st.tuples(cards(), cards()))
@slow
def test_a_smaller_card_never_turns_deny_into_allow(job: Json, pair: tuple[str, str]) -> None:
    job = {**job, "hardware": {"devices": job.get("hardware", {}).get("devices", 1)}}
    found = [admitted(job=on_card(job, card)) for card in pair]
    sized = [(one.finding.check.usable_bytes or 0, one) for one in found if one.finding.check]
    assume(len(sized) == len(found))
    (small, on_small), (large, on_large) = sorted(sized, key=lambda one: one[0])
    assume(small < CLEARLY_LESS * large)
    if on_large.ruling.verdict is Verdict.DENY:
        assert on_small.ruling.verdict is not Verdict.ALLOW


@given(job=any_jobs(), card=cards(), sizes=st.tuples(*[st.integers(1, 160)] * 2))
@slow
def test_less_memory_on_one_card_never_makes_a_verdict_milder(
    job: Json, card: str, sizes: tuple[int, int]
) -> None:
    small, large = (
        admitted(job=on_card(job, card, device_memory_bytes=size * GIB, occupied_bytes=0))
        for size in sorted(sizes)
    )
    assume(small.finding.evidence.gap is None and large.finding.evidence.gap is None)
    assert HARSHER.index(small.ruling.verdict) >= HARSHER.index(large.ruling.verdict)


@given(
    job=any_jobs(),
    card=cards(),
    risks=st.tuples(*[st.sampled_from([0.0001, 0.001, 0.01, 0.05, 0.2, 0.49])] * 2),
)
@slow
def test_less_risk_never_makes_a_verdict_milder(
    job: Json, card: str, risks: tuple[float, float]
) -> None:
    strict, loose = (
        admitted(replace(ENFORCE, risk=risk), job=on_card(job, card)) for risk in sorted(risks)
    )
    assert HARSHER.index(strict.ruling.verdict) >= HARSHER.index(loose.ruling.verdict)


@given(job=any_jobs(), card=cards(), risk=st.sampled_from([0.001, 0.01, 0.2]))
@slow
def test_every_suggestion_asked_about_is_allowed(job: Json, card: str, risk: float) -> None:
    terms = replace(ENFORCE, risk=risk)
    for one in admitted(terms, job=on_card(job, card)).suggestions:
        changed = JobOut.from_domain(one.description).model_dump(mode="json")
        again = admitted(terms, job=changed)
        assert again.ruling.verdict is Verdict.ALLOW, one.text
        assert again.finding.memory is not None
        assert again.finding.memory.peak.required_bytes == one.memory.peak.required_bytes


@given(job=any_jobs(), card=cards())
@slow
def test_the_job_as_it_was_understood_gets_the_same_verdict(job: Json, card: str) -> None:
    """But for what was open: nothing is left open in it."""
    first = admitted(job=on_card(job, card))
    resolved = first.finding.resolved
    assume(resolved is not None)
    assert resolved is not None
    again = admitted(job=JobOut.from_domain(resolved.description).model_dump(mode="json"))
    assert again.finding.check == first.finding.check
    if not first.finding.evidence.open_fields:
        assert again.ruling == first.ruling


@given(job=any_jobs(), card=cards())
@slow
@example(job={"model": {"name": "gpt2"}, "micro_batch_size": 8}, card="t4")
def test_what_is_kept_gives_the_same_verdict_again(job: Json, card: str) -> None:
    first = admitted(job=on_card(job, card))
    kept = json.loads(json.dumps(first.subject.document))
    again = admit_job(
        kept_subject(kept), ENFORCE, Wish(), capacity=CapacityMap(), catalogs=load_catalogs()
    )
    assert answered(again) == answered(first)


@given(job=any_jobs(), card=cards())
@slow
def test_the_order_of_a_questions_fields_changes_nothing(job: Json, card: str) -> None:
    question: Json = {"job": on_card(job, card), "queue": "a", "submitter": "b"}
    turned = json.loads(json.dumps(question), object_pairs_hook=lambda pairs: dict(pairs[::-1]))
    one, other = (validated(AdmitRequest, each) for each in (question, turned))
    assert one.inputs_digest == other.inputs_digest
    assert answered(admitted(**question)) == answered(admitted(**turned))


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_gives_the_same_answers(seed: str) -> None:
    """Sets and hashes come in another order there; the answers may not."""
    names = [entry.name for entry in builtin_models().entries if entry.config is not None]
    offered = [card.name for card in builtin_accelerators().entries]
    questions = [
        {
            "job": {
                "model": {"name": name},
                "method": method,
                "micro_batch_size": 8,
                "fused_kernels": ["rope", "swiglu", "rms_norm"],
                "software": {"framework": framework_names()[number % len(framework_names())]},
                "hardware": {"accelerator": offered[number % len(offered)]},
            }
        }
        for number, name in enumerate(names[::20])
        for method in ("full", {"kind": "lora", "target_modules": ["q_proj", "v_proj"]})
    ]
    there = subprocess.run(  # noqa: S603 our own
        [sys.executable, "-c", REPLICA],
        input=json.dumps(questions),
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(there.stdout) == json.loads(json.dumps(verdicts_of(questions)))


def test_what_is_left_out_of_a_config_as_secret_is_no_part_of_a_real_one() -> None:
    configs = [dict(entry.config) for entry in builtin_models().entries if entry.config is not None]
    assert len(configs) > 100
    for config in configs:
        assert without_secret_names(config) == json.loads(json.dumps(config))
