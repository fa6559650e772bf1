"""What a policy may not say, and what its author is told he probably did not mean."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vramgate.admission.decision import Channel, Mode
from vramgate.admission.faults import faults_in, unknown_accelerators
from vramgate.admission.lint import findings_in
from vramgate.admission.policy import (
    DEFAULT_POLICY,
    AdmissionPolicy,
    CapacityMap,
    Exemption,
    PolicyRule,
    Scope,
)
from vramgate.catalog.accelerators import builtin_accelerators

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def _policy(*rules: PolicyRule, **fields: Any) -> AdmissionPolicy:  # noqa: ANN401 whatever a policy holds
    return AdmissionPolicy(version="p-1", rules=rules, **fields)


def _rule(name: str = "r", mode: Mode | None = Mode.ENFORCE, **fields: Any) -> PolicyRule:  # noqa: ANN401 as above
    beside = {"until": fields.pop("until", None), "risk": fields.pop("risk", None)}
    deny = fields.pop("deny_probability", None)
    return PolicyRule(name=name, scope=Scope(**fields), mode=mode, deny_probability=deny, **beside)


def _exemption(until: datetime, name: str = "e", **scope: Any) -> Exemption:  # noqa: ANN401 as above
    return Exemption(name=name, scope=Scope(**scope), until=until, reason="watched")


def _found(policy: AdmissionPolicy) -> list[tuple[str, str]]:
    return [(one.code, one.pointer) for one in findings_in(policy, NOW)]


def _faults(policy: AdmissionPolicy) -> list[tuple[str, str]]:
    return [(one.code, one.pointer) for one in faults_in(policy)]


def test_nothing_is_said_of_the_default_or_of_a_sound_policy() -> None:
    sound = _policy(
        _rule("tests", Mode.SHADOW, queue="prod-test"),
        _rule("prod", queue="prod-*", risk=0.005),
        caller_may_choose=frozenset({Mode.ENFORCE}),
        exemptions=(_exemption(NOW + 90 * DAY, submitter="alice"),),
        capacity=CapacityMap(
            queues={"a100": "a100-sxm4-80gb"},
            node_labels={"nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3": "h100-sxm5-80gb"},
        ),
        break_glass_submitters=("oncall-*",),
    )
    for policy in (DEFAULT_POLICY, sound):
        assert _faults(policy) == []
        assert _found(policy) == []
        assert list(unknown_accelerators(policy, builtin_accelerators())) == []


# ---- faults


def test_names_tell_rules_and_exemptions_apart() -> None:
    policy = _policy(
        _rule("a", queue="x"),
        _rule("b", queue="y"),
        _rule("a", queue="z"),
        exemptions=(_exemption(NOW + DAY, "a", queue="x"), _exemption(NOW + DAY, "a", queue="y")),
    )
    assert _faults(policy) == [
        ("repeated_name", "/rules/2/name"),
        ("repeated_name", "/exemptions/1/name"),
    ]


@pytest.mark.parametrize(
    ("policy", "pointers"),
    [
        (_policy(risk=0.5, deny_probability=0.5), ["/risk"]),
        (_policy(risk=0.1, deny_probability=0.11), []),
        (_policy(_rule(risk=0.5)), ["/rules/0/risk"]),
        (_policy(_rule(deny_probability=0.01)), ["/rules/0/deny_probability"]),
        (_policy(_rule(risk=0.4, deny_probability=0.3)), ["/rules/0/risk"]),
        (_policy(_rule(risk=0.6, deny_probability=0.7)), []),
        # The policy's own fault is told once.
        (_policy(_rule(), risk=0.6), ["/risk"]),
    ],
)
def test_what_is_allowed_cannot_be_denied(policy: AdmissionPolicy, pointers: list[str]) -> None:
    assert [pointer for _, pointer in _faults(policy)] == pointers


@pytest.mark.parametrize(
    ("scope", "is_refused"),
    [
        ({}, True),
        ({"queue": "*"}, True),
        ({"queue": "**", "submitter": "*"}, True),
        ({"queue": "*", "submitter": "alice"}, False),
        ({"channel": Channel.RAY}, False),
        ({"model": "?*"}, False),
    ],
)
def test_nobody_exempts_everything(scope: dict[str, Any], is_refused: bool) -> None:
    policy = _policy(exemptions=(_exemption(NOW + DAY, **scope),))
    assert (_faults(policy) == [("exempts_everything", "/exemptions/0")]) is is_refused


def test_a_card_that_no_catalog_knows_is_named_with_those_it_may_mean() -> None:
    policy = _policy(
        capacity=CapacityMap(
            queues={"big/one": "a100-sxm4-88gb", "fine": "NVIDIA A100-SXM4-80GB"},
            node_labels={"gpu=x": "abacus"},
        )
    )
    queue, label = unknown_accelerators(policy, builtin_accelerators())
    assert (queue.pointer, label.pointer) == (
        "/capacity/queues/big~1one",
        "/capacity/node_labels/gpu=x",
    )
    assert "a100-sxm4-80gb" in queue.detail
    assert (queue.value, label.value) == ("a100-sxm4-88gb", "abacus")


# ---- rules


@pytest.mark.parametrize(
    ("first", "second", "is_hidden"),
    [
        ({"queue": "prod-*"}, {"queue": "prod-a"}, True),
        ({"queue": "prod-*"}, {"queue": "prod-*", "cluster": "east"}, True),
        ({}, {"queue": "prod-a"}, True),
        ({"channel": Channel.RAY}, {"channel": Channel.RAY, "model": "m"}, True),
        ({"queue": "prod-a"}, {"queue": "prod-*"}, False),
        ({"queue": "prod-*", "cluster": "east"}, {"queue": "prod-a"}, False),
        ({"channel": Channel.RAY}, {"channel": Channel.SLURM}, False),
        ({"queue": "*"}, {}, False),
        ({"queue": "prod-*", "until": NOW + DAY}, {"queue": "prod-a"}, False),
        ({"queue": "prod-*", "until": NOW + DAY}, {"queue": "prod-a", "until": NOW + DAY}, True),
        (
            {"queue": "prod-*", "until": NOW + DAY},
            {"queue": "prod-a", "until": NOW + 2 * DAY},
            False,
        ),
    ],
)
def test_a_rule_behind_one_for_the_same_jobs_is_unreachable(
    first: dict[str, Any], second: dict[str, Any], is_hidden: bool
) -> None:
    policy = _policy(_rule("first", **first), _rule("second", Mode.SHADOW, **second))
    assert _found(policy) == ([("unreachable_rule", "/rules/1")] if is_hidden else [])


def test_a_rule_that_says_what_holds_anyway_changes_nothing() -> None:
    assert _found(_policy(_rule(mode=None, queue="a"))) == [("rule_changes_nothing", "/rules/0")]
    same = _rule(mode=Mode.WARN, queue="a", risk=0.01)
    assert _found(_policy(same)) == [("rule_changes_nothing", "/rules/0")]


def test_a_rule_that_keeps_its_jobs_from_a_later_one_changes_something() -> None:
    shield = _rule("shield", Mode.WARN, queue="prod-test")
    assert _found(_policy(shield, _rule("prod", queue="prod-*"))) == []
    # The later one is never for the same jobs.
    for queue in ("dev-*", "prod-tests"):
        assert _found(_policy(shield, _rule("dev", queue=queue))) == [
            ("rule_changes_nothing", "/rules/0")
        ]


def test_what_has_ended_and_what_hardly_ends_is_told() -> None:
    policy = _policy(
        _rule(queue="a", until=NOW),
        exemptions=(
            _exemption(NOW - DAY, "gone", queue="a"),
            _exemption(NOW + 91 * DAY, "long", queue="a"),
        ),
    )
    assert _found(policy) == [
        ("expired_rule", "/rules/0/until"),
        ("expired_exemption", "/exemptions/0/until"),
        ("long_exemption", "/exemptions/1/until"),
    ]


# ---- values


def test_mode_off_for_everything_is_told_and_off_for_some_is_not() -> None:
    assert _found(_policy(mode=Mode.OFF)) == [("off_for_everything", "/mode")]
    assert _found(_policy(_rule(queue="a"), mode=Mode.OFF)) == []
    chosen = _policy(mode=Mode.OFF, caller_may_choose=frozenset({Mode.WARN}))
    assert _found(chosen) == []


@pytest.mark.parametrize("choice", [Mode.OFF, Mode.SHADOW])
def test_a_caller_who_can_switch_enforcing_off_is_told(choice: Mode) -> None:
    choices = frozenset({choice, Mode.WARN})
    code = "caller_can_switch_off"
    enforced = _policy(mode=Mode.ENFORCE, caller_may_choose=choices)
    assert _found(enforced) == [(code, "/caller_may_choose")]
    inherited = _policy(_rule(queue="a"), caller_may_choose=choices)
    assert _found(inherited) == [(code, "/rules/0/mode")]
    own = PolicyRule(name="r", scope=Scope(queue="a"), caller_may_choose=choices)
    assert _found(_policy(own, mode=Mode.ENFORCE)) == [(code, "/rules/0/caller_may_choose")]
    assert _found(_policy(mode=Mode.WARN, caller_may_choose=choices)) == []


def test_thresholds_that_surprise_are_told_where_they_stand() -> None:
    policy = _policy(
        _rule(queue="a", risk=0.21, deny_probability=0.3),
        _rule("s", queue="b", deny_probability=0.19),
        risk=0.2,
        deny_probability=0.2,
    )
    assert _found(policy) == [
        ("allows_what_would_fail", "/rules/0/risk"),
        ("denies_what_would_run", "/rules/1/deny_probability"),
    ]


def test_a_label_without_a_value_and_a_glass_for_everybody_are_told() -> None:
    policy = _policy(
        capacity=CapacityMap(node_labels={"nvidia.com/gpu.product": "a100-sxm4-80gb"}),
        break_glass_submitters=("oncall", "*"),
    )
    assert _found(policy) == [
        ("label_without_value", "/capacity/node_labels/nvidia.com~1gpu.product"),
        ("anybody_breaks_glass", "/break_glass/submitters/1"),
    ]


@pytest.mark.timeout(10)
def test_the_largest_policy_is_looked_at_in_no_time() -> None:
    rules = [
        _rule(f"r{n}", queue=f"q{n}-*", cluster=f"*c{n}?", model="*a*b*" + "x" * 50)
        for n in range(200)
    ]
    exemptions = [_exemption(NOW + DAY, f"e{n}", queue=f"q{n}") for n in range(1000)]
    assert _found(_policy(*rules, exemptions=tuple(exemptions))) == []
