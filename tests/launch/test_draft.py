"""The job so far: what is said later counts, what is out of sight is named."""

import pytest

from vramgate.jobs.precision import PrecisionPreset
from vramgate.launch.draft import FIELDS, Draft
from vramgate.launch.files import Files
from vramgate.launch.reading import Found, Misread, Unseen
from vramgate.launch.words import Word


def test_what_is_said_later_replaces_what_was_said() -> None:
    draft = Draft()
    draft.say("micro_batch_size", Found(1, "file"))
    draft.say("micro_batch_size", Found(2, "args[1]"))
    draft.say("micro_batch_size", None)

    read = draft.finished()
    assert read.job == {"micro_batch_size": 2}
    assert read.provenance == {"micro_batch_size": Found(2, "args[1]")}


def test_what_is_out_of_sight_takes_the_field_away_and_a_later_word_brings_it_back() -> None:
    draft = Draft()
    draft.say("micro_batch_size", Found(1, "file"))
    draft.say("micro_batch_size", Unseen("args[1]", "$B has no value here"))
    assert draft.finished().job == {}
    assert [one.field for one in draft.finished().unknown] == ["micro_batch_size"]

    draft.say("micro_batch_size", Found(4, "env"))
    assert draft.finished().unknown == ()


def test_a_value_that_means_nothing_is_a_problem() -> None:
    draft = Draft()
    draft.say("micro_batch_size", Misread("args[1] --b", "eight", "a whole number"))
    (problem,) = draft.finished().problems
    assert (problem.rule, problem.field) == ("not_a_value", "micro_batch_size")
    assert problem.values == {"args[1] --b": "eight"}


def test_a_field_the_job_has_not_is_a_fault_of_the_reader() -> None:
    with pytest.raises(KeyError):
        Draft().say("batch_size", Found(1, "x"))
    assert {"method.kind", "sharding.buckets.reduce_elements", "model.name"} <= FIELDS


def test_a_preset_says_each_number_format() -> None:
    draft = Draft()
    draft.say_preset(Found(PrecisionPreset.BF16_MIXED, "args[1] --bf16"))
    assert draft.finished().job["precision"] == {
        "weights": "fp32",
        "compute": "bf16",
        "autocast": True,
        "gradients": "fp32",
        "master_weights": False,
        "optimizer_states": "fp32",
    }


def test_an_assumption_that_somebody_overruled_is_none() -> None:
    draft = Draft()
    draft.assume("sharding.zero_stage", 3, "a packaged file")
    assert [one.field for one in draft.finished().assumptions] == ["sharding.zero_stage"]
    draft.say("sharding.zero_stage", Found(2, "args[1]"))
    assert draft.finished().assumptions == ()


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ("ds.json", "ds.json"),
        ("ds.json", "./ds.json"),
        ("ds.json", "/shared/configs/ds.json"),
        ("/srv/configs/ds.json", "configs/ds.json"),
        ("configs/ds.json", "../configs/ds.json"),
    ],
)
def test_a_file_is_found_by_its_path_or_the_end_of_it(sent: str, wanted: str) -> None:
    found = Files({sent: "{}"}).find(Word(text=wanted, source="args[1]"))
    assert isinstance(found, Found)
    assert found.value.name == sent


def test_two_files_of_one_name_are_not_confused() -> None:
    files = Files({"a/ds.json": "{}", "b/ds.json": "[]"})
    assert isinstance(files.find(Word(text="ds.json", source="args[1]")), Unseen)
    found = files.find(Word(text="/x/b/ds.json", source="args[1]"))
    assert isinstance(found, Found)
    assert found.value.text == "[]"
    assert list(files.missed) == ["ds.json"]


def test_a_path_out_of_sight_is_looked_for_by_its_last_parts() -> None:
    files = Files({"conf/ds.json": "{}"})
    found = files.find(Word(text="$DIR/conf/ds.json", source="args[1]", unresolved=("$DIR",)))
    assert isinstance(found, Found)
    hidden = files.find(Word(text="$DIR/other.json", source="args[1]", unresolved=("$DIR",)))
    assert isinstance(hidden, Unseen)
    assert hidden.hint == "give $DIR in launch.env, or send the file as 'other.json'"
    named_out_of_sight = Word(text="conf/ds_$N.json", source="args[1]", unresolved=("$N",))
    assert isinstance(files.find(named_out_of_sight), Unseen)


def test_a_file_of_another_folder_is_another_file() -> None:
    found = Files({"b/ds.json": "{}"}).find(Word(text="a/ds.json", source="args[1]"))
    assert isinstance(found, Unseen)


def test_what_an_answer_repeats_stays_a_line() -> None:
    draft, word = Draft(), "x" * 100_000
    draft.say("micro_batch_size", Misread(word, word, "a whole number"))
    draft.say("sequence_length", Unseen(word, word, word))
    draft.say("hardware.devices", Found(8, word))
    draft.warn("some_code", word)
    assert len(repr(draft.finished())) < 10_000

    files = Files()
    files.find(Word(text=word, source="args[1]"))
    assert not files.missed
