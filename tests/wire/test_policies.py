"""Policies as they are sent: bounds, unknown fields, and what each field comes to."""

from datetime import UTC, datetime
from typing import Any

import pytest

from vramgate.admission.decision import Channel, Mode
from vramgate.admission.documents import policy_document
from vramgate.admission.policy import AdmissionPolicy, Asked, Exemption, Scope, UnknownModels
from vramgate.api import examples
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.wire.policies import PolicyIn, PolicyRequest, checked_policy
from vramgate.wire.validation import ValidationFailedError, validated

CARDS = builtin_accelerators()
LATER = "2026-12-24T00:00:00Z"
WHOLE: dict[str, Any] = {
    "mode": "warn",
    "caller_may_choose": ["shadow"],
    "risk": 0.01,
    "deny_probability": 0.5,
    "unknown_models": "deny",
    "capacity": {
        "queues": {"a100": "a100-sxm4-80gb"},
        "node_labels": {"nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3": "h100-sxm5-80gb"},
    },
    "rules": [
        {
            "name": "prod",
            "queue": "prod-*",
            "cluster": "east",
            "channel": "slurm",
            "until": LATER,
            "mode": "enforce",
            "caller_may_choose": [],
            "risk": 0.005,
            "deny_probability": 0.4,
            "unknown_models": "allow",
        }
    ],
    "exemptions": [
        {
            "name": "ablation",
            "submitter": "alice",
            "external_id": "4711_*",
            "model": "acme/*",
            "until": "2026-12-24T01:00:00+01:00",
            "reason": "Watched.",
        }
    ],
    "break_glass": {"submitters": ["oncall-*"]},
    "report_token_seconds": 3600,
}


def _read(document: object) -> AdmissionPolicy:
    return validated(PolicyIn, document).to_domain(version="p-1")


def _pointers(document: object) -> list[str]:
    with pytest.raises(ValidationFailedError) as caught:
        checked_policy(validated(PolicyIn, document), CARDS)
    assert all(one.detail for one in caught.value.fields)
    return [one.pointer for one in caught.value.fields]


def test_an_empty_document_is_the_built_in_policy() -> None:
    assert _read({}) == AdmissionPolicy(version="p-1")


def test_every_field_is_read() -> None:
    policy = _read(WHOLE)
    assert (policy.mode, policy.caller_may_choose) == (
        Mode.WARN,
        frozenset({Mode.SHADOW}),
    )
    assert policy.unknown_models is UnknownModels.DENY
    assert policy.capacity.queues == {"a100": "a100-sxm4-80gb"}
    (rule,) = policy.rules
    assert rule.scope == Scope(queue="prod-*", cluster="east", channel=Channel.SLURM)
    assert (rule.mode, rule.caller_may_choose) == (Mode.ENFORCE, frozenset())
    assert (rule.risk, rule.deny_probability) == (0.005, 0.4)
    assert policy.exemptions == (
        Exemption(
            name="ablation",
            scope=Scope(submitter="alice", external_id="4711_*", model="acme/*"),
            until=datetime(2026, 12, 24, tzinfo=UTC),
            reason="Watched.",
        ),
    )
    assert policy.break_glass_submitters == ("oncall-*",)
    assert policy.report_token_seconds == 3600
    # Moments are in UTC, and else it is what was sent.
    until = {"until": LATER}
    exemption = {**WHOLE["exemptions"][0], **until}
    assert policy_document(policy) == {**WHOLE, "exemptions": [exemption]}


def test_the_document_of_a_policy_is_taken_again() -> None:
    policy = _read(WHOLE)
    assert _read(policy_document(policy)) == policy


def test_the_examples_are_taken() -> None:
    for example in examples.POLICY.values():
        request = validated(PolicyRequest, example["value"])
        assert checked_policy(request.policy, CARDS).terms(
            Asked(queue="prod-a100"), datetime(2026, 11, 29, tzinfo=UTC)
        )


def _rule(**fields: object) -> dict[str, Any]:
    return {"rules": [{"name": "r", "queue": "q", **fields}]}


def _exemption(**fields: object) -> dict[str, Any]:
    whole = {"name": "e", "submitter": "a", "until": LATER, "reason": "r", **fields}
    return {"exemptions": [{name: one for name, one in whole.items() if one is not None}]}


@pytest.mark.parametrize(
    ("document", "pointers"),
    [
        ({"mod": "warn"}, ["/mod"]),
        ({"mode": "dictate"}, ["/mode"]),
        ({"mode": False}, ["/mode"]),
        ({"caller_may_choose": ["shadow", "all"]}, ["/caller_may_choose/1"]),
        ({"caller_may_choose": ["off"] * 5}, ["/caller_may_choose"]),
        ({"risk": 0}, ["/risk"]),
        ({"risk": 1}, ["/risk"]),
        ({"risk": "0.1"}, ["/risk"]),
        ({"risk": True}, ["/risk"]),
        ({"risk": 0.5}, ["/risk"]),
        ({"deny_probability": 1.01}, ["/deny_probability"]),
        ({"unknown_models": "guess"}, ["/unknown_models"]),
        ({"report_token_seconds": 299}, ["/report_token_seconds"]),
        ({"report_token_seconds": 7_776_001}, ["/report_token_seconds"]),
        ({"report_token_seconds": 300.5}, ["/report_token_seconds"]),
        ({"capacity": {"nodes": {}}}, ["/capacity/nodes"]),
        ({"capacity": {"queues": {"q": "abacus"}}}, ["/capacity/queues/q"]),
        ({"capacity": {"queues": {"q": 7}}}, ["/capacity/queues/q"]),
        ({"break_glass": {"submitters": ["a", ""]}}, ["/break_glass/submitters/1"]),
        ({"break_glass": {"submitters": ["a\u202eb"]}}, ["/break_glass/submitters/0"]),
        (_rule(queue=""), ["/rules/0/queue"]),
        (_rule(queue="q" * 257), ["/rules/0/queue"]),
        (_rule(queue="a\0b"), ["/rules/0/queue"]),
        (_rule(name="n" * 65), ["/rules/0/name"]),
        (_rule(name="a\nb"), ["/rules/0/name"]),
        (_rule(channel="pigeon"), ["/rules/0/channel"]),
        (_rule(partition="p"), ["/rules/0/partition"]),
        (_rule(until="2026-12-24"), ["/rules/0/until"]),
        (_rule(until="2026-12-24T00:00:00"), ["/rules/0/until"]),
        (_rule(until="1999-12-31T00:00:00Z"), ["/rules/0/until"]),
        (_rule(until="2100-01-01T00:00:00Z"), ["/rules/0/until"]),
        (_rule(until="9999-12-31T23:59:59-23:00"), ["/rules/0/until"]),
        (_rule(until=1_800_000_000), ["/rules/0/until"]),
        (_rule(risk=0.6), ["/rules/0/risk"]),
        (_rule(deny_probability=0.001), ["/rules/0/deny_probability"]),
        ({"rules": [{"queue": "q"}]}, ["/rules/0/name"]),
        ({"rules": [{"name": "r"}, {"name": "r"}]}, ["/rules/1/name"]),
        (_exemption(until=None), ["/exemptions/0/until"]),
        (_exemption(reason=None), ["/exemptions/0/reason"]),
        (_exemption(reason=""), ["/exemptions/0/reason"]),
        (_exemption(submitter=None), ["/exemptions/0"]),
        (_exemption(submitter="*"), ["/exemptions/0"]),
        ([], [""]),
        (None, [""]),
    ],
)
def test_what_is_wrong_is_named_by_its_pointer(document: object, pointers: list[str]) -> None:
    assert _pointers(document) == pointers


def test_an_exemption_of_everything_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValidationFailedError, match="set mode to shadow"):
        _read(_exemption(submitter=None))


def test_parts_are_bounded_in_number() -> None:
    names = [f"n{number}" for number in range(1001)]
    rules = [{"name": name, "queue": name} for name in names]
    exemptions = [_exemption(name=name)["exemptions"][0] for name in names]
    cards = dict.fromkeys(names, "a100-sxm4-80gb")
    most = {
        "rules": rules[:200],
        "exemptions": exemptions[:1000],
        "capacity": {"queues": dict(list(cards.items())[:1000])},
    }
    assert len(checked_policy(validated(PolicyIn, most), CARDS).exemptions) == 1000
    assert _pointers({"rules": rules[:201]}) == ["/rules"]
    assert _pointers({"exemptions": exemptions}) == ["/exemptions"]
    assert _pointers({"capacity": {"queues": cards}}) == ["/capacity/queues"]


def test_all_of_it_together_is_bounded() -> None:
    long = "p" * 250
    scope = dict.fromkeys(("cluster", "queue", "external_id", "model"), long)
    exemptions = [_exemption(name=f"n{n}", **scope)["exemptions"][0] for n in range(1000)]
    # A thousand times four texts of 250 characters, and the names of their fields.
    assert _pointers({"exemptions": exemptions}) == [""]


def test_of_very_many_faults_fifty_are_told() -> None:
    cards = {f"q{number}": "abacus" for number in range(100)}
    assert len(_pointers({"capacity": {"queues": cards}})) == 50
