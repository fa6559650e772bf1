"""Reading one config: names of one quantity, defaults of nested objects, numbers."""

import pytest

from vramgate.costmodel.families.config import Config, Rate, Switch, shown
from vramgate.errors import InvalidModelConfigError


def test_any_of_the_names_will_do() -> None:
    assert Config({"n_embd": 768}).whole("hidden_size", "n_embd") == 768


def test_two_names_may_agree() -> None:
    config = Config({"hidden_size": 768, "n_embd": 768})

    assert config.whole("hidden_size", "n_embd") == 768


def test_null_counts_as_absent() -> None:
    assert Config({"n_inner": None}).whole("n_inner", default=3072) == 3072


def test_a_nested_object_has_the_defaults_of_its_class() -> None:
    whole = Config({"text_config": {"hidden_size": 1024}})

    text = whole.section("text_config", defaults={"hidden_size": 4096, "vocab_size": 32_000})

    assert text is not None
    assert (text.whole("hidden_size"), text.whole("vocab_size")) == (1024, 32_000)
    assert text.pointer == "/model/config/text_config"


@pytest.mark.parametrize("value", [None, True, "2", 0, -1.0, 100, float("inf")])
def test_a_number_out_of_bounds_is_refused(value: object) -> None:
    with pytest.raises(InvalidModelConfigError):
        Config({"factor": value}).number("factor", at_most=10)


def test_a_number_may_be_whole() -> None:
    assert Config({"factor": 2}).number("factor", at_most=10) == 2.0


def test_a_fixed_trait_needs_no_key() -> None:
    config = Config({"bias": True})

    assert config.flag(switch=True)
    assert not config.flag(Switch("other_bias", default=False))


def test_a_rate_without_names_is_its_default() -> None:
    assert Config({"dropout": 0.5}).fraction(Rate((), 0.1)) == 0.1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (2**70, "a number of 71 bits"),
        (0.5, "0.5"),
        ("silu", "'silu'"),
        ("a" * 50, "'" + "a" * 40 + "…'"),
        ({}, "an object"),
        ([], "a list"),
        (object(), "a object"),
    ],
)
def test_a_value_is_shown_as_short_text(value: object, text: str) -> None:
    assert shown(value) == text
