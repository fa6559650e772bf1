import time
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from vramgate.wire.estimates import EstimateRequest
from vramgate.wire.validation import MAX_FIELDS, ValidationFailedError, validated


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: Annotated[int, Field(ge=1, le=8, strict=True)] = 1
    mode: Literal["a", "b"] = "a"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    inner: Inner | str = "none"
    many: list[Inner] = []


def _findings(body: object) -> dict[str, str]:
    with pytest.raises(ValidationFailedError) as caught:
        validated(Outer, body)
    return {field.pointer: field.detail for field in caught.value.fields}


def test_a_missing_field_is_named() -> None:
    assert _findings({}) == {"/name": "is required"}


def test_an_unknown_field_is_named_at_its_place() -> None:
    assert _findings({"name": "x", "many": [{}, {"zzz": 1}]}) == {
        "/many/1/zzz": "is not a field here"
    }


def test_bounds_and_the_value_are_told() -> None:
    assert _findings({"name": "x", "many": [{"size": 9}]}) == {
        "/many/0/size": "must be at most 8; got 9"
    }


def test_the_branch_of_a_union_that_was_meant_is_told_alone() -> None:
    assert _findings({"name": "x", "inner": {"mode": "c"}}) == {
        "/inner/mode": "must be one of 'a' or 'b'; got 'c'"
    }


def test_a_body_of_another_type_is_told_at_the_root() -> None:
    assert _findings([1]) == {"": "must be an object"}


def test_keys_are_escaped_in_pointers() -> None:
    assert list(_findings({"name": "x", "a/b~c": 1})) == ["/a~1b~0c"]


def test_a_hundred_thousand_findings_are_told_shortly() -> None:
    with pytest.raises(ValidationFailedError) as caught:
        validated(Outer, {"name": "x", "many": [1] * 100_000})
    assert len(caught.value.fields) == MAX_FIELDS
    assert "99999 more" in caught.value.message


def test_a_quarter_of_a_million_unknown_fields_are_told_quickly() -> None:
    started = time.perf_counter()
    with pytest.raises(ValidationFailedError):
        validated(EstimateRequest, {"job": {f"k{i}": 1 for i in range(250_000)}})
    assert time.perf_counter() - started < 5  # comparing each with every name takes 20


def test_a_long_value_is_repeated_shortly() -> None:
    with pytest.raises(ValidationFailedError) as caught:
        validated(Outer, {"name": "x", "inner": {"mode": "c" * 10_000, "size": 10**30}})
    assert max(len(str(field.value)) for field in caught.value.fields) < 100


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("micro_batchsize", "job.micro_batch_size"),
        ("zero_stage", "job.sharding.zero_stage"),
        ("per_device_train_batch_size", "job.micro_batch_size"),
        ("max_seq_length", "job.sequence_length"),
        ("zzz", None),
    ],
)
def test_an_unknown_field_leads_to_the_one_that_was_meant(name: str, path: str | None) -> None:
    body = {"job": {"model": {"name": "gpt2"}, name: 1}}
    with pytest.raises(ValidationFailedError) as caught:
        validated(EstimateRequest, body)
    meant = f"; did you mean {path}?" if path else ""
    assert [field.detail for field in caught.value.fields] == [f"is not a field here{meant}"]


def test_the_own_words_of_a_shape_are_kept() -> None:
    with pytest.raises(ValidationFailedError) as caught:
        validated(EstimateRequest, {"job": {"model": {"config": []}}})
    assert caught.value.message == "/job/model/config: should be an object, as in config.json."
