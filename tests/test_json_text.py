import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.json_text import MalformedJsonError, UnstorableTextError, parse_json

_KEPT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _KEPT
_VALUES = st.recursive(
    _SCALARS.filter(lambda value: value not in {float("inf"), float("-inf")}),
    lambda inner: st.lists(inner) | st.dictionaries(_KEPT, inner),
    max_leaves=20,
)


@given(_VALUES, st.booleans())
def test_whatever_json_can_say_is_read_back(value: object, ensure_ascii: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ensure_ascii).encode()) == value


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "ends too early"),
        (b'{"job": ', "ends too early"),
        (b'{"job" 1}', "line 1, column 8"),
        (b"{'job': 1}", "not JSON"),
        (b'{"a": 1} trailing', "not JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b"1e999", "1e999"),
        (b"9" * 5000, "thousands of digits"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'"\x01"', "control character"),
        (b'"\xff"', "byte 1 is 0xff"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b"[" * 65 + b"]" * 65, "more than 64 levels"),
        (b"[" * 100_000, "more than 64 levels"),
        (b'{"a":' * 100_000, "more than 64 levels"),
    ],
)
def test_what_is_not_json_is_refused_with_the_reason(raw: bytes, words: str) -> None:
    with pytest.raises(MalformedJsonError, match=words.replace("(", r"\(")):
        parse_json(raw)


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [
        (rb'{"a": ["\u0000"]}', "/a/0"),
        (rb'{"a": "\ud83d"}', "/a"),
        (rb'"\udc00"', ""),
    ],
)
def test_text_that_no_database_holds_is_refused_at_its_place(raw: bytes, pointer: str) -> None:
    with pytest.raises(UnstorableTextError) as caught:
        parse_json(raw)
    assert [field.pointer for field in caught.value.fields] == [pointer]


def test_a_surrogate_pair_and_an_escaped_backslash_are_text() -> None:
    assert parse_json(rb'["\ud83d\ude00", "\\u0000"]') == ["😀", "\\u0000"]


def test_brackets_in_strings_do_not_nest() -> None:
    assert parse_json(b'"' + b"[" * 1000 + b'"') == "[" * 1000


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_json(b"\xef\xbb\xbf1") == 1


@pytest.mark.parametrize("raw", [b'"' + b'\\"' * 2_000_000, b"[" * 4_000_000, b"[[]," * 1_000_000])
def test_four_hostile_megabytes_take_no_more_than_their_reading(raw: bytes) -> None:
    started = time.perf_counter()
    with pytest.raises(MalformedJsonError):
        parse_json(raw)
    assert time.perf_counter() - started < 5  # quadratic readers take hours
