"""A decision comes back from the journal as it went in, or not at all."""

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kept_decisions import a_decision
from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.record import KeptDecision
from vramgate.persistence.decision_codec import (
    NewerDecisionError,
    UnreadableDecisionError,
    decode_decision,
    encode_decision,
)

# What a database can hold as text: no U+0000, no half of a surrogate pair.
_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
_BYTES = st.none() | st.integers(0, 2**63 - 1)
_DECISIONS = st.builds(
    KeptDecision,
    decision_id=_TEXTS,
    tenant=_TEXTS,
    decided_at=st.datetimes(timezones=st.just(UTC)),
    caller=_TEXTS,
    cluster=st.none() | _TEXTS,
    queue=st.none() | _TEXTS,
    channel=st.sampled_from(Channel),
    submitter=st.none() | _TEXTS,
    external_id=st.none() | _TEXTS,
    mode=st.sampled_from(Mode),
    verdict=st.sampled_from(Verdict),
    decision=st.sampled_from(Verdict),
    reason_code=_TEXTS,
    oom_probability=st.none() | st.floats(0, 1),
    required_bytes=_BYTES,
    usable_bytes=_BYTES,
    model=st.none() | _TEXTS,
    accelerator=st.none() | _TEXTS,
    policy_version=_TEXTS,
    calibration_version=_TEXTS,
    model_version=_TEXTS,
    inputs_digest=_TEXTS,
    subject_digest=_TEXTS,
    subject=_TEXTS,
    answer_digest=_TEXTS,
    answer=_TEXTS,
    break_glass=st.none() | _TEXTS,
)


@given(_DECISIONS)
def test_what_is_read_is_what_was_written(decision: KeptDecision) -> None:
    record = encode_decision(decision)
    assert decode_decision(record) == decision
    # A record is one line of the journal.
    assert b"\n" not in record


def test_a_record_names_its_format_and_every_field() -> None:
    document = json.loads(encode_decision(a_decision()))
    assert document.keys() == {"v", *(field.name for field in fields(KeptDecision))}
    assert document["v"] == 1


def _changed(**changes: Any) -> bytes:  # noqa: ANN401 whatever JSON holds
    document = {**json.loads(encode_decision(a_decision())), **changes}
    return json.dumps({k: v for k, v in document.items() if v is not ...}).encode()


def test_a_newer_format_is_known_to_be_one() -> None:
    with pytest.raises(NewerDecisionError, match="has format 2; this version reads 1"):
        decode_decision(_changed(v=2, ruling="allow"))


_EAST = datetime(2026, 11, 29, tzinfo=timezone(timedelta(hours=1))).isoformat()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (b"", "not read"),
        (b"[]", "no JSON object"),
        (b'{"v":NaN}', "not read"),
        (b"\xff", "not read"),
        (_changed(v=0), "format this version knows: 0"),
        (_changed(v=True), "format this version knows: True"),
        (_changed(v="1"), "format this version knows: '1'"),
        (_changed(queue=...), "lacks or adds queue"),
        (_changed(color="red"), "lacks or adds color"),
        (_changed(tenant=None), "tenant of the record: not a text"),
        (_changed(mode="strict"), "mode of the record: 'strict' is not a valid Mode"),
        (_changed(decided_at="yesterday"), "decided_at of the record"),
        (_changed(decided_at="2026-11-29T12:00:00"), "not a time in UTC"),
        (_changed(decided_at=_EAST), "not a time in UTC"),
        (_changed(required_bytes=1.5), "not a whole number"),
        (_changed(required_bytes=True), "not a whole number"),
        (_changed(required_bytes=2**63), "that the database can hold"),
        (_changed(oom_probability="0.5"), "oom_probability of the record"),
        (_changed(submitter="a\0b"), "not read"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(record: bytes, words: str) -> None:
    with pytest.raises(UnreadableDecisionError, match=words) as refused:
        decode_decision(record)
    assert not isinstance(refused.value, NewerDecisionError)
