"""Options by name: from flags, from files, and of each kind."""

import pytest

from vramgate.launch.reading import Found, Misread, Unseen
from vramgate.launch.settings import Settings, of_document, of_flags
from vramgate.launch.words import Word


def flags(line: str, **unresolved: str) -> Settings:
    """Return the options of a line; a word may hold variables nobody set."""
    return of_flags(
        [
            Word(
                text=text,
                source=f"args[{index}]",
                unresolved=tuple(name for name in unresolved.values() if name in text),
            )
            for index, text in enumerate(line.split())
        ]
    )


def test_a_flag_takes_the_word_behind_it_or_after_its_equals_sign() -> None:
    settings = flags("--seq-length 4096 --lr=1e-5")
    assert settings.whole("seq_length") == Found(4096, "args[0] --seq-length")
    assert settings.number("lr") == Found(1e-5, "args[2] --lr")


def test_the_last_of_a_repeated_flag_counts() -> None:
    settings = flags("--batch_size 1 --batch-size 2")
    assert settings.whole("batch_size") == Found(2, "args[2] --batch-size")


def test_a_switch_needs_no_word() -> None:
    assert flags("--bf16 --fp16 false --tf32 True").flag("bf16") == Found(
        value=True, source="args[0] --bf16"
    )
    assert flags("--bf16 --fp16 false").flag("fp16") == Found(value=False, source="args[1] --fp16")


def test_negative_numbers_are_values() -> None:
    assert flags("--shard -1").whole("shard") == Found(-1, "args[0] --shard")


@pytest.mark.parametrize(
    ("text", "number"), [("8", 8), ("8.0", 8), ("5e8", 500_000_000), ("1_000", 1000)]
)
def test_whole_numbers_are_written_in_many_ways(text: str, number: int) -> None:
    assert flags(f"--n {text}").whole("n") == Found(number, "args[0] --n")


@pytest.mark.parametrize("text", ["eight", "1.5", "inf", "nan", "0x10", "1e400"])
def test_what_is_no_whole_number_is_misread(text: str) -> None:
    assert flags(f"--n {text}").whole("n") == Misread("args[0] --n", text, "a whole number")


@pytest.mark.parametrize("text", ["none", "null", "None"])
def test_words_for_nothing_say_nothing(text: str) -> None:
    assert flags(f"--n {text}").whole("n") is None
    assert flags(f"--n {text}").text("n") is None


def test_a_variable_nobody_set_is_out_of_sight() -> None:
    reading = flags("--n $N", name="$N").whole("n")
    assert reading == Unseen("args[0] --n", "$N has no value here", "give $N in launch.env")


def test_lists_are_words_or_one_text_with_commas() -> None:
    expected = ("q_proj", "v_proj")
    assert flags("--targets q_proj v_proj").texts("targets") == Found(expected, "args[0] --targets")
    assert flags("--targets q_proj,v_proj").texts("targets") == Found(expected, "args[0] --targets")
    document = of_document({"targets": ["q_proj", "v_proj"]}, "t.yaml")
    assert document.texts("targets") == Found(expected, "t.yaml: targets")


def test_a_document_s_values_keep_their_kinds() -> None:
    document = of_document({"n": 8, "on": True, "nothing": None, "deep": {"a": 1}}, "t.yaml")
    assert document.whole("n") == Found(8, "t.yaml: n")
    assert document.flag("on") == Found(value=True, source="t.yaml: on")
    assert document.text("nothing") is None
    assert document.whole("deep") == Misread("t.yaml: deep", {"a": 1}, "a text")


def test_flags_stand_over_a_file() -> None:
    settings = flags("--n 2").over(of_document({"n": 1, "m": 3}, "t.yaml"))
    assert settings.whole("n") == Found(2, "args[0] --n")
    assert settings.whole("m") == Found(3, "t.yaml: m")


def test_the_first_name_that_is_said_counts() -> None:
    assert flags("--old 1").whole("new", "old") == Found(1, "args[0] --old")
