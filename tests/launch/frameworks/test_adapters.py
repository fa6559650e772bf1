"""peft's options in every shape they come in."""

import pytest

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.adapters import (
    say_bitsandbytes,
    say_lora,
    say_peft_config,
    target_modules,
)
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Settings, of_document, of_flags
from vramgate.launch.words import Word


def flags(*texts: str) -> Settings:
    return of_flags([Word(text=text, source=f"args[{i}]") for i, text in enumerate(texts)])


@pytest.mark.parametrize(
    "settings",
    [
        flags("--lora_target_modules", "q_proj", "v_proj"),
        flags("--lora_target_modules", "q_proj,v_proj"),
        flags("--lora_target_modules=q_proj, v_proj"),
        flags("--lora-target-modules", "[q_proj,v_proj]"),
        flags("--lora_target_modules", "['q_proj', 'v_proj']"),
        of_document({"lora_target_modules": ["q_proj", "v_proj"]}, ""),
        of_document({"lora_target_modules": "q_proj,v_proj"}, ""),
    ],
)
def test_names_come_as_words_as_lists_and_as_text(settings: Settings) -> None:
    reading = target_modules(settings, "lora_target_modules")

    assert isinstance(reading, Found)
    assert reading.value == ("q_proj", "v_proj")


@pytest.mark.parametrize("pattern", [r".*\.(q|v)_proj", r"model\.layers\.\d+\.mlp\..*", "^q_proj$"])
def test_a_regular_expression_stays_one(pattern: str) -> None:
    assert target_modules(flags("--t", pattern), "t") == Found(pattern, "args[0] --t")


def test_all_means_every_linear_layer_only_where_the_framework_says_so() -> None:
    settings = flags("--t", "all")

    assert target_modules(settings, "t", every=("all",)) == Found("all-linear", "args[0] --t")
    assert target_modules(settings, "t") == Found(("all",), "args[0] --t")


def test_a_variable_without_value_is_unseen() -> None:
    word = Word(text="$TARGETS", source="args[1]", unresolved=("$TARGETS",))
    reading = target_modules(of_flags([Word(text="--t", source="args[0]"), word]), "t")

    assert isinstance(reading, Unseen)


def test_nothing_named_says_nothing() -> None:
    assert target_modules(of_document({"t": None}, ""), "t") is None
    assert target_modules(of_document({"t": []}, ""), "t") is None


def test_lora_options_become_the_method() -> None:
    draft = Draft()
    say_lora(
        flags(
            "--lora_r",
            "64",
            "--lora_dropout",
            "0.1",
            "--use_dora",
            "--lora_modules_to_save",
            "lm_head",
        ),
        draft,
    )

    assert draft.finished().job["method"] == {
        "rank": 64,
        "dropout": 0.1,
        "dora": True,
        "modules_to_save": ["lm_head"],
    }


def test_adapters_of_another_kind_are_unknown() -> None:
    draft = Draft()
    say_peft_config(
        {"peft_type": "IA3", "target_modules": ["k_proj"]}, "adapter_config.json", draft
    )
    parsed = draft.finished()

    assert parsed.job == {}
    assert [one.field for one in parsed.unknown] == ["method"]


def test_a_lora_config_is_read_as_peft_writes_it() -> None:
    # adapter_config.json of peft 0.21: enumerations as text, null for what is unset.
    draft = Draft()
    told = {
        "peft_type": "LORA",
        "r": 8,
        "lora_dropout": 0.0,
        "target_modules": ["c_attn"],
        "modules_to_save": None,
    }
    say_peft_config(told, "adapter_config.json", draft)

    assert draft.finished().job["method"] == {
        "kind": "lora",
        "rank": 8,
        "dropout": 0.0,
        "target_modules": ["c_attn"],
    }


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (("--load_in_8bit",), {"quantization": "int8"}),
        (("--load_in_4bit", "--bnb_4bit_quant_type", "fp4"), {"quantization": "fp4"}),
        (
            ("--load_in_4bit", "True", "--bnb_4bit_quant_type", "nf4", "--use_bnb_nested_quant"),
            {"quantization": "nf4", "double_quant": True},
        ),
    ],
)
def test_bitsandbytes_weights_have_a_format(
    options: tuple[str, ...], method: dict[str, object]
) -> None:
    draft = Draft()

    assert say_bitsandbytes(flags(*options), draft)
    assert draft.finished().job["method"] == method


def test_weights_that_are_whole_say_nothing() -> None:
    draft = Draft()

    assert not say_bitsandbytes(
        flags("--load_in_4bit", "False", "--bnb_4bit_quant_type", "nf4"), draft
    )
    assert draft.finished().job == {}


def test_a_format_that_bitsandbytes_has_not_is_reported() -> None:
    draft = Draft()
    say_bitsandbytes(flags("--load_in_4bit", "--bnb_4bit_quant_type", "int4"), draft)

    assert [one.rule for one in draft.finished().problems] == ["not_a_value"]
