"""The catalog of models: its data, its speed, its laws."""

import contextlib
import json
import time
from importlib.resources import files

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.catalog.refusals import suggestions
from vramgate.catalog.models import ModelCatalog, ModelEntry, NameMatch, builtin_models
from vramgate.errors import UnknownNameError

MODELS = builtin_models()
ROWS = json.loads(files("vramgate.catalog").joinpath("models.json").read_text())
SPELLINGS = [(name, row["name"]) for row in ROWS for name in (row["name"], *row["aliases"])]


def test_every_alias_leads_to_its_own_entry() -> None:
    strays = [(name, want) for name, want in SPELLINGS if MODELS.resolve(name).entry.name != want]

    assert strays == []


def test_no_two_entries_claim_one_name() -> None:
    owners: dict[str, set[str]] = {}
    for name, owner in SPELLINGS:
        owners.setdefault(name.casefold(), set()).add(owner)

    assert [name for name, claimed in owners.items() if len(claimed) > 1] == []


def test_facts_keep_their_confidence_and_source() -> None:
    assert len(MODELS.entries) == len(ROWS) == 397
    assert {entry.config_confidence for entry in MODELS.entries} == {"high", "medium", "low"}
    assert all(entry.parameters_source for entry in MODELS.entries)


@pytest.mark.parametrize("name", ["QWEN/qwen2.5-7b", "Llama-3.1-8B", "llama-3.1-8b"])
def test_case_does_not_matter(name: str) -> None:
    assert MODELS.resolve(name).how in {NameMatch.ID, NameMatch.ALIAS}


def test_an_id_needs_no_note() -> None:
    found = MODELS.resolve("meta-llama/Llama-3.1-8B")

    assert (found.how, found.note, found.quantization) == (NameMatch.ID, "", None)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("meta-llama/Llama-3.1-8", "meta-llama/Llama-3.1-8B"),
        ("Qwen/Qwen2.5-7", "Qwen/Qwen2.5-7B"),
        ("mistrall-7b-v0.1", "mistralai/Mistral-7B-v0.1"),
        ("starcodr", "bigcode/starcoder"),
    ],
)
def test_a_near_miss_suggests_what_was_meant(typo: str, meant: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        MODELS.resolve(typo)

    assert meant in suggestions(caught.value)


@given(st.text(max_size=600))
@example("models----x")
@example("\ud800")
@example("q4_0.gguf")
@example("-GPTQ")
@example("v1/v2/v3")
@example("a" * 10_000)
def test_any_text_resolves_or_is_refused(text: str) -> None:
    with contextlib.suppress(UnknownNameError):
        assert MODELS.resolve(text).entry in MODELS.entries


SUFFIXES = ["", "-GPTQ-Int4", "-AWQ", "-bnb-4bit", "-GGUF", "-FP8", ".Q5_K_M.gguf"]


@given(st.sampled_from(SPELLINGS), st.sampled_from(SUFFIXES))
def test_a_copy_never_becomes_a_model_of_another_size(
    spelling: tuple[str, str], suffix: str
) -> None:
    name, owner = spelling
    if name.rsplit("/", 1)[-1].isdigit() or name == "llama-3.2-11b-vision":
        # "vit-b/16" is no repository; the alias of Llama 3.2 Vision is short for its tuned version.
        return

    found = MODELS.resolve(f"someone/{name.rsplit('/', 1)[-1]}{suffix}")

    assert found.entry.parameters == MODELS.resolve(owner).entry.parameters


def test_exact_names_resolve_within_twenty_microseconds() -> None:
    names = [name for name, _ in SPELLINGS]
    best = min(_seconds_to_resolve(names) for _ in range(5))

    assert best / len(names) < 20e-6


def _seconds_to_resolve(names: list[str]) -> float:
    start = time.perf_counter()
    for name in names:
        MODELS.resolve(name)
    return time.perf_counter() - start


def test_search_puts_names_that_start_so_first() -> None:
    found = [entry.name for entry in MODELS.search("qwen2.5-7b", limit=3)]

    assert found[0] == "Qwen/Qwen2.5-7B"


def test_search_finds_by_alias_and_by_words_inside() -> None:
    assert MODELS.search("zephyr")[0].name == "mistralai/Mistral-7B-v0.1"
    assert MODELS.search("oder2-15")[0].name == "bigcode/starcoder2-15b"


def test_search_keeps_to_its_limit_and_may_find_nothing() -> None:
    assert len(MODELS.search("", limit=4)) == 4
    assert MODELS.search("llama", limit=0) == ()
    assert MODELS.search("no such model") == ()


def test_an_entry_of_a_site_replaces_the_built_in_and_keeps_its_aliases() -> None:
    own = ModelEntry(name="Qwen/Qwen2.5-7B", parameters=7, origin="site.yaml")

    merged = MODELS.merged_with([own])

    assert merged.resolve("qwen2.5-7b").entry is own
    assert MODELS.resolve("qwen2.5-7b").entry is not own
    assert len(merged.entries) == len(MODELS.entries)


def test_a_later_entry_of_a_site_wins_over_its_earlier_one() -> None:
    first = ModelEntry(name="acme/m", parameters=1, origin="a")
    second = ModelEntry(name="acme/m", parameters=2, origin="b")

    merged = MODELS.merged_with([first]).merged_with([second])

    assert merged.resolve("acme/m").entry.parameters == 2


def test_a_sites_repository_does_not_take_the_place_of_everybodys() -> None:
    own = ModelEntry(name="acme/Llama-3.1-8B", parameters=9, origin="site.yaml")

    merged = MODELS.merged_with([own])

    assert merged.resolve("acme/Llama-3.1-8B").entry is own
    assert merged.resolve("unsloth/Llama-3.1-8B-bnb-4bit").entry.name == "meta-llama/Llama-3.1-8B"


def test_a_sites_model_is_found_by_its_folder_too() -> None:
    own = ModelEntry(name="acme/titan-40b", parameters=40_000_000_000, origin="site.yaml")

    merged = MODELS.merged_with([own])

    assert merged.resolve("/models/titan-40b").entry is own
    assert merged.resolve("acme/titan-40b-instruct").entry is own


def test_names_a_site_takes_over_are_reported() -> None:
    own = ModelEntry(name="acme/m", aliases=("gpt2", "new"), parameters=1, origin="site.yaml")

    clashes = MODELS.clashes_with([own])

    assert [clash.message for clash in clashes] == [
        "gpt2 now means the site's acme/m, no longer openai-community/gpt2"
    ]


def test_entries_are_keys_of_caches_by_their_name() -> None:
    entry = MODELS.resolve("gpt2").entry

    assert {entry: 1}[MODELS.resolve("openai-community/gpt2").entry] == 1


def test_a_date_nobody_has_is_passed_over_where_the_size_decides() -> None:
    found = MODELS.resolve("Qwen/Qwen3-8B-2607")

    assert found.entry.name == "Qwen/Qwen3-8B"
    assert "date 2607 passed over" in found.note


@pytest.mark.parametrize(
    ("names", "asked", "missing"),
    [
        (("a/m-7b", "b/m-7b"), "c/m-7b", "what tells them apart"),
        (("a/m-7b-2401", "b/m-7b-2405"), "c/m-7b", "the date"),
    ],
)
def test_two_entries_that_fit_are_both_named(
    names: tuple[str, str], asked: str, missing: str
) -> None:
    catalog = ModelCatalog([ModelEntry(name=name, parameters=7) for name in names])

    with pytest.raises(UnknownNameError) as caught:
        catalog.resolve(asked)

    assert suggestions(caught.value) == names
    assert missing in caught.value.hint
