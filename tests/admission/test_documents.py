"""Policies as documents: they come back as they were, and a newer version's as far as it is known."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.admission.decision import Channel, Mode
from vramgate.admission.documents import policy_document, read_document
from vramgate.admission.policy import (
    DEFAULT_POLICY,
    AdmissionPolicy,
    CapacityMap,
    Exemption,
    PolicyRule,
    Scope,
    UnknownModels,
)
from vramgate.json_text import canonical, parse_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
MOMENTS = st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001 Hypothesis adds the zone
    datetime(2099, 12, 31),  # noqa: DTZ001
    timezones=st.just(UTC),
)
MODES = st.frozensets(st.sampled_from(Mode))
FRACTIONS = st.floats(0.001, 0.999)
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


SCOPES = st.builds(
    Scope,
    cluster=_maybe(TEXTS),
    queue=_maybe(TEXTS),
    channel=_maybe(st.sampled_from(Channel)),
    submitter=_maybe(TEXTS),
    external_id=_maybe(TEXTS),
    model=_maybe(TEXTS),
)
RULES = st.builds(
    PolicyRule,
    name=TEXTS,
    scope=SCOPES,
    until=_maybe(MOMENTS),
    mode=_maybe(st.sampled_from(Mode)),
    caller_may_choose=_maybe(MODES),
    risk=_maybe(FRACTIONS),
    deny_probability=_maybe(FRACTIONS),
    unknown_models=_maybe(st.sampled_from(UnknownModels)),
)
POLICIES = st.builds(
    AdmissionPolicy,
    version=st.just("p-1"),
    mode=st.sampled_from(Mode),
    caller_may_choose=MODES,
    risk=FRACTIONS,
    deny_probability=FRACTIONS,
    unknown_models=st.sampled_from(UnknownModels),
    capacity=st.builds(CapacityMap, queues=MAPS, node_labels=MAPS),
    rules=st.lists(RULES, max_size=3).map(tuple),
    exemptions=st.lists(
        st.builds(Exemption, name=TEXTS, scope=SCOPES, until=MOMENTS, reason=TEXTS), max_size=3
    ).map(tuple),
    break_glass_submitters=st.lists(TEXTS, max_size=3).map(tuple),
    report_token_seconds=st.integers(300, 7_776_000),
)

WHOLE: dict[str, Any] = {
    "mode": "enforce",
    "caller_may_choose": ["shadow"],
    "risk": 0.005,
    "rules": [
        {"name": "prod", "queue": "prod-*", "mode": "shadow"},
        {"name": "test", "queue": "test-*", "mode": "off"},
    ],
    "exemptions": [
        {
            "name": "alice",
            "submitter": "alice",
            "until": "2026-12-24T00:00:00Z",
            "reason": "watched",
        },
        {"name": "bob", "submitter": "bob", "until": "2026-12-24T00:00:00Z", "reason": "watched"},
    ],
}


@given(POLICIES)
def test_a_policy_comes_back_as_it_was(policy: AdmissionPolicy) -> None:
    text = canonical(policy_document(policy))
    read = read_document(parse_json(text.encode()), version="p-1")
    assert (read.policy, read.left_out) == (policy, ())


def test_the_document_says_what_was_left_to_the_defaults() -> None:
    # DESIGN.md section 6 and the defaults of this version, so that a later one changes no policy.
    assert policy_document(DEFAULT_POLICY) == {
        "mode": "warn",
        "caller_may_choose": [],
        "risk": 0.01,
        "deny_probability": 0.5,
        "unknown_models": "warn",
        "capacity": {"queues": {}, "node_labels": {}},
        "rules": [],
        "exemptions": [],
        "break_glass": {"submitters": []},
        "report_token_seconds": 604_800,
    }


def test_fields_of_a_newer_version_do_not_count() -> None:
    newer = {**WHOLE, "quota": {"jobs": 5}, "capacity": {"pods": {"a": "b"}}}
    read = read_document(newer, version="p-1")
    assert read.policy == read_document(WHOLE, version="p-1").policy
    assert set(read.left_out) == {"/quota", "/capacity/pods"}


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("rules", "project", "alpha"),
        ("rules", "channel", "carrier-pigeon"),
        ("rules", "queue", {"one_of": ["a"]}),
        ("rules", "risk", "low"),
        ("exemptions", "project", "alpha"),
        ("exemptions", "until", "whenever"),
        ("exemptions", "until", "2026-12-24T00:00:00"),
        ("exemptions", "reason", None),
    ],
)
def test_a_part_that_is_not_understood_whole_is_left_out_whole(
    part: str, field: str, value: object
) -> None:
    first, second = WHOLE[part]
    read = read_document({**WHOLE, part: [{**first, field: value}, second]}, version="p-1")
    # Read without the field it would be for more jobs than were meant.
    kept: tuple[PolicyRule | Exemption, ...] = getattr(read.policy, part)
    assert [one.name for one in kept] == [second["name"]]
    assert read.left_out == (f"/{part}/0/{field}",)


def test_a_part_without_what_it_needs_is_left_out() -> None:
    read = read_document({"exemptions": [{"name": "alice"}, "bob"]}, version="p-1")
    assert read.policy.exemptions == ()
    assert set(read.left_out) == {
        "/exemptions/0/until",
        "/exemptions/0/reason",
        "/exemptions/1",
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "dictate"),
        ("mode", None),
        ("caller_may_choose", ["shadow", "dictate"]),
        ("caller_may_choose", "shadow"),
        ("risk", "1 %"),
        ("risk", True),
        ("risk", 10**400),
        ("deny_probability", float("nan")),
        ("unknown_models", []),
        ("rules", {}),
        ("exemptions", "none"),
        ("break_glass", []),
        ("capacity", None),
        ("report_token_seconds", 1.5),
    ],
)
def test_a_value_that_is_not_understood_leaves_the_default(field: str, value: object) -> None:
    read = read_document({field: value}, version="p-1")
    assert read.policy == AdmissionPolicy(version="p-1")
    assert read.left_out == (f"/{field}",)


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_what_is_no_object_is_the_default_under_its_version(document: object) -> None:
    read = read_document(document, version="p-1")
    assert (read.policy, read.left_out) == (AdmissionPolicy(version="p-1"), ("",))
