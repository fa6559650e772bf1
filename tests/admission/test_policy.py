"""What a policy says for a question: rules in order, moments of expiry, patterns, break-glass."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.admission.decision import Channel, Mode, Verdict, decision_of
from vramgate.admission.patterns import includes, matches, may_meet
from vramgate.admission.policy import (
    DEFAULT_POLICY,
    AdmissionPolicy,
    Asked,
    Exemption,
    PolicyRule,
    Scope,
    UnknownModels,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEXTS = st.text("ab*?[x", max_size=6)
PATTERNS = st.text("ab*?", min_size=1, max_size=6)


def _policy(*rules: PolicyRule, **fields: Any) -> AdmissionPolicy:  # noqa: ANN401 whatever a policy holds
    return AdmissionPolicy(version="p-1", rules=rules, **fields)


def _scope(name: str, pattern: str) -> Scope:
    fields: dict[str, Any] = {name: pattern}
    return Scope(**fields)


def test_the_default_warns_at_one_percent_and_lets_nobody_choose() -> None:
    terms = DEFAULT_POLICY.terms(Asked(queue="prod", submitter="alice"), NOW)
    assert (terms.policy_version, terms.mode, terms.risk) == ("default", Mode.WARN, 0.01)
    assert (terms.deny_probability, terms.unknown_models) == (0.5, UnknownModels.WARN)
    assert (terms.caller_may_choose, terms.exemption, terms.may_break_glass) == (
        frozenset(),
        None,
        False,
    )


def test_the_first_rule_that_covers_a_question_counts_and_alone() -> None:
    policy = _policy(
        PolicyRule(name="a", scope=Scope(queue="prod-*"), mode=Mode.ENFORCE),
        PolicyRule(name="b", scope=Scope(cluster="east"), risk=0.2, mode=Mode.OFF),
        risk=0.05,
    )
    both = policy.terms(Asked(queue="prod-x", cluster="east"), NOW)
    # The second rule's risk is not mixed in.
    assert (both.rule, both.mode, both.risk) == ("a", Mode.ENFORCE, 0.05)
    assert policy.terms(Asked(queue="x", cluster="east"), NOW).rule == "b"
    neither = policy.terms(Asked(queue="x", cluster="west"), NOW)
    assert (neither.rule, neither.mode, neither.risk) == (None, Mode.WARN, 0.05)


def test_an_empty_choice_of_a_rule_takes_the_policy_s_choice_away() -> None:
    policy = _policy(
        PolicyRule(name="a", scope=Scope(), caller_may_choose=frozenset()),
        caller_may_choose=frozenset({Mode.SHADOW}),
    )
    assert policy.terms(Asked(), NOW).caller_may_choose == frozenset()


def test_from_its_moment_on_a_rule_is_not_there() -> None:
    policy = _policy(
        PolicyRule(name="now", scope=Scope(), until=NOW, mode=Mode.OFF),
        PolicyRule(name="later", scope=Scope(), until=NOW + HOUR, mode=Mode.ENFORCE),
    )
    assert policy.terms(Asked(), NOW - HOUR).rule == "now"
    assert policy.terms(Asked(), NOW).rule == "later"
    assert policy.terms(Asked(), NOW + HOUR).rule is None


def test_an_exemption_ends_at_its_moment_and_is_for_whom_it_names() -> None:
    exemption = Exemption(
        name="e", scope=Scope(submitter="alice", queue="q"), until=NOW, reason="watched"
    )
    policy = _policy(exemptions=(exemption,))
    asked = Asked(submitter="alice", queue="q")
    assert policy.terms(asked, NOW - HOUR).exemption is exemption
    assert policy.terms(asked, NOW).exemption is None
    for other in (Asked(submitter="alice"), Asked(submitter="alice", queue="r"), Asked(queue="q")):
        assert policy.terms(other, NOW - HOUR).exemption is None


def test_each_field_of_a_scope_narrows_it() -> None:
    whole = Asked(
        cluster="c", queue="q", channel=Channel.SLURM, submitter="s", external_id="7", model="m"
    )
    texts: dict[str, Any] = {
        "cluster": "c",
        "queue": "q",
        "submitter": "s",
        "external_id": "7",
        "model": "m",
    }
    assert Scope(**texts, channel=Channel.SLURM).covers(whole)
    assert not Scope(channel=Channel.RAY).covers(whole)
    for name in texts:
        one, other, any_text = (_scope(name, text) for text in ("?", "other", "*"))
        assert one.covers(whole)
        assert not other.covers(whole)
        # What is not said matches no pattern.
        assert not any_text.covers(Asked())


def test_who_says_nothing_of_himself_breaks_no_glass() -> None:
    policy = _policy(break_glass_submitters=("oncall-*",))
    assert policy.terms(Asked(submitter="oncall-ann"), NOW).may_break_glass
    assert not policy.terms(Asked(submitter="ann"), NOW).may_break_glass
    assert not policy.terms(Asked(), NOW).may_break_glass


# ---- patterns


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("prod", "prod", True),
        ("prod", "Prod", False),
        ("*", "", True),
        ("?", "", False),
        ("a*c", "abbc", True),
        ("a*c", "abcd", False),
        ("*ab*ab", "xabab", True),
        ("*ab*ab", "xab", False),
        ("4711_[0-9]", "4711_[0-9]", True),
        ("4711_[0-9]*", "4711_5", False),
        ("node[1-4]*", "node[1-4]-a", True),
        ("a.c*", "abc", False),
        ("a*", "a\nb", True),
        ("a\\*", "a\\b", True),
    ],
)
def test_only_a_star_and_a_question_mark_are_wild(pattern: str, value: str, fits: bool) -> None:
    assert matches(pattern, value) is fits


def _fits_by_definition(pattern: str, value: str) -> bool:
    """Return whether the pattern fits, by the definition: a star is nothing, or one more character."""
    if not pattern:
        return not value
    if pattern[0] == "*":
        return _fits_by_definition(pattern[1:], value) or (
            bool(value) and _fits_by_definition(pattern, value[1:])
        )
    return (
        bool(value)
        and pattern[0] in {"?", value[0]}
        and _fits_by_definition(pattern[1:], value[1:])
    )


@given(PATTERNS, TEXTS)
def test_a_pattern_fits_what_its_definition_says(pattern: str, value: str) -> None:
    assert matches(pattern, value) is _fits_by_definition(pattern, value)


@given(PATTERNS, PATTERNS, st.text("abc", max_size=6))
def test_what_a_pattern_includes_it_fits_and_patterns_that_never_meet_never_do(
    one: str, other: str, value: str
) -> None:
    if includes(one, other) and matches(other, value):
        assert matches(one, value)
    if not may_meet(one, other):
        assert not (matches(one, value) and matches(other, value))
    assert may_meet(one, other) is may_meet(other, one)


@given(PATTERNS)
def test_a_pattern_includes_itself_and_a_star_includes_all(pattern: str) -> None:
    assert includes(pattern, pattern)
    assert includes("*", pattern)


@pytest.mark.timeout(5)
def test_a_pattern_of_many_stars_takes_no_longer() -> None:
    # A search that takes its steps back would take 2^100 of them.
    assert not matches("*a" * 100 + "b", "a" * 500)
    assert not includes("*a" * 100 + "b", "a" * 200)


# ---- modes


@pytest.mark.parametrize("verdict", Verdict)
def test_a_decision_is_never_stricter_than_the_verdict(verdict: Verdict) -> None:
    order = [Verdict.ALLOW, Verdict.UNCHECKED, Verdict.WARN, Verdict.DENY]
    told = [order.index(decision_of(verdict, mode)) for mode in Mode]
    assert told == sorted(told)
    assert told[-1] == order.index(verdict)
