"""The one rule for verdict and decision, worked through by hand, and its laws."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.admission.decision import Mode, Verdict, decision_of
from vramgate.admission.evidence import Evidence, Gap, verdict_of
from vramgate.admission.known import OpenField
from vramgate.admission.policy import (
    AdmissionPolicy,
    Asked,
    Exemption,
    Scope,
    Terms,
    UnknownModels,
)
from vramgate.admission.ruling import Wish, ruling_of

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
OPEN = OpenField(field="micro_batch_size", source="transformers default", reason="", hint="")
PROBABILITIES = st.floats(min_value=0, max_value=1, allow_nan=False)
ORDER = (Verdict.ALLOW, Verdict.WARN, Verdict.DENY)


def evidence(probability: float | None, **more: object) -> Evidence:
    return Evidence(oom_probability=probability, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("probability", "verdict"),
    [
        (0.0, Verdict.ALLOW),
        (0.01, Verdict.ALLOW),
        (0.010001, Verdict.WARN),
        (0.499, Verdict.WARN),
        (0.5, Verdict.DENY),
        (1.0, Verdict.DENY),
        (None, Verdict.WARN),
    ],
)
def test_the_default_terms_allow_to_one_percent_and_deny_from_a_half(
    probability: float | None, verdict: Verdict
) -> None:
    assert verdict_of(evidence(probability), Terms()) is verdict


def test_nothing_is_denied_while_a_critical_field_is_open() -> None:
    assert verdict_of(evidence(1.0, open_fields=(OPEN,)), Terms()) is Verdict.WARN


def test_an_open_field_does_not_keep_a_job_from_being_allowed() -> None:
    assert verdict_of(evidence(0.001, open_fields=(OPEN,)), Terms()) is Verdict.ALLOW


@pytest.mark.parametrize(
    "gap", [gap for gap in Gap if gap not in {Gap.UNKNOWN_MODEL, Gap.OUT_OF_TIME}]
)
def test_a_gap_in_the_evidence_warns(gap: Gap) -> None:
    assert verdict_of(evidence(None, gap=gap), Terms()) is Verdict.WARN


@pytest.mark.parametrize("choice", list(UnknownModels))
def test_the_policy_says_what_unknown_models_do(choice: UnknownModels) -> None:
    terms = Terms(unknown_models=choice)
    assert verdict_of(evidence(None, gap=Gap.UNKNOWN_MODEL), terms).value == choice.value


def test_what_there_was_no_time_for_is_unchecked() -> None:
    assert verdict_of(evidence(None, gap=Gap.OUT_OF_TIME), Terms()) is Verdict.UNCHECKED


# verdict × mode → decision, the table of DESIGN section 6.
DECISIONS = {
    Mode.OFF: "allow allow allow allow",
    Mode.SHADOW: "allow allow allow allow",
    Mode.WARN: "allow warn warn unchecked",
    Mode.ENFORCE: "allow warn deny unchecked",
}


@pytest.mark.parametrize("mode", list(Mode))
def test_the_decision_is_the_verdict_after_the_mode(mode: Mode) -> None:
    verdicts = (Verdict.ALLOW, Verdict.WARN, Verdict.DENY, Verdict.UNCHECKED)
    assert " ".join(decision_of(one, mode).value for one in verdicts) == DECISIONS[mode]


@given(probability=PROBABILITIES, risks=st.tuples(PROBABILITIES, PROBABILITIES))
def test_less_risk_never_makes_a_verdict_milder(
    probability: float, risks: tuple[float, float]
) -> None:
    low, high = sorted(risks)
    strict = verdict_of(evidence(probability), Terms(risk=low))
    loose = verdict_of(evidence(probability), Terms(risk=high))
    assert ORDER.index(strict) >= ORDER.index(loose)


@given(probabilities=st.tuples(PROBABILITIES, PROBABILITIES), is_open=st.booleans())
def test_a_likelier_out_of_memory_never_makes_a_verdict_milder(
    probabilities: tuple[float, float], is_open: bool
) -> None:
    low, high = sorted(probabilities)
    fields = (OPEN,) if is_open else ()
    mild = verdict_of(evidence(low, open_fields=fields), Terms())
    harsh = verdict_of(evidence(high, open_fields=fields), Terms())
    assert ORDER.index(harsh) >= ORDER.index(mild)


def test_a_mode_that_is_not_granted_changes_nothing_and_is_told() -> None:
    terms = Terms(mode=Mode.ENFORCE, caller_may_choose=frozenset({Mode.WARN}))
    ruling = ruling_of(evidence(1.0), terms, Wish(mode=Mode.OFF))
    assert (ruling.mode, ruling.decision) == (Mode.ENFORCE, Verdict.DENY)
    assert [one.code for one in ruling.notes] == ["mode_not_granted"]


def test_a_mode_that_is_granted_holds() -> None:
    terms = Terms(mode=Mode.WARN, caller_may_choose=frozenset({Mode.ENFORCE}))
    ruling = ruling_of(evidence(1.0), terms, Wish(mode=Mode.ENFORCE))
    assert (ruling.mode, ruling.decision, ruling.notes) == (Mode.ENFORCE, Verdict.DENY, ())


def test_asking_for_the_mode_that_holds_needs_no_grant() -> None:
    ruling = ruling_of(evidence(1.0), Terms(mode=Mode.ENFORCE), Wish(mode=Mode.ENFORCE))
    assert ruling.notes == ()


def test_an_exemption_lets_through_and_leaves_the_verdict() -> None:
    exemption = Exemption(
        name="demo",
        scope=Scope(submitter="alice"),
        until=NOW + timedelta(days=1),
        reason="demo day",
    )
    policy = AdmissionPolicy(mode=Mode.ENFORCE, exemptions=(exemption,))
    terms = policy.terms(Asked(submitter="alice"), NOW)
    ruling = ruling_of(evidence(1.0), terms, Wish())
    assert (ruling.verdict, ruling.decision, ruling.reason_code) == (
        Verdict.DENY,
        Verdict.ALLOW,
        "exempted",
    )
    later = policy.terms(Asked(submitter="alice"), NOW + timedelta(days=1))
    assert ruling_of(evidence(1.0), later, Wish()).decision is Verdict.DENY


def test_only_who_may_breaks_the_glass() -> None:
    policy = AdmissionPolicy(mode=Mode.ENFORCE, break_glass_submitters=("oncall-*",))
    wish = Wish(break_glass="incident 17")
    allowed = ruling_of(evidence(1.0), policy.terms(Asked(submitter="oncall-1"), NOW), wish)
    refused = ruling_of(evidence(1.0), policy.terms(Asked(submitter="alice"), NOW), wish)
    assert (allowed.decision, allowed.reason_code, allowed.broke_glass) == (
        Verdict.ALLOW,
        "break_glass",
        True,
    )
    assert (refused.decision, refused.broke_glass) == (Verdict.DENY, False)
    assert [one.code for one in refused.notes] == ["break_glass_not_granted"]
