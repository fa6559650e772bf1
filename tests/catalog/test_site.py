"""A site's own catalog: what it may say, what is refused and how, what it takes over."""

import json
from pathlib import Path

import pytest

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.catalog.site import (
    MAX_FILE_BYTES,
    InvalidSiteCatalogError,
    load_site_catalog,
    parse_site_catalog,
)
from vramgate.units import GIB

MODELS, CARDS = builtin_models(), builtin_accelerators()

LEONARDO = {
    "name": "a100-sxm4-64gb",
    "aliases": ["NVIDIA A100-SXM-64GB"],
    "vendor": "NVIDIA",
    "architecture": "Ampere",
    "compute_capability": "8.0",
    "memory_bytes_nominal": 64 * GIB,
    "usable_bytes": 63 * GIB,
    "mig_profiles": [{"name": "1g.8gb", "memory_bytes": 7 * GIB}],
}
# GPT-2 small by hand: 50257·768 + 1024·768 + 12·7 087 872 + 2·768 = 124 439 808 parameters.
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}


def test_a_yaml_file_adds_models_and_cards(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(
        """
        models:
          - name: acme/titan-40b
            aliases: [titan]
            parameters: 40000000000
        accelerators:
          - name: a100-sxm4-64gb
            aliases: [NVIDIA A100-SXM-64GB]
            vendor: NVIDIA
            compute_capability: "8.0"
            memory_bytes_nominal: 68719476736
        """
    )

    site = load_site_catalog(path)
    merged = site.merged(MODELS, CARDS)

    assert merged.models.resolve("titan").entry.parameters == 40_000_000_000
    card = merged.accelerators.resolve("NVIDIA-A100-SXM-64GB").entry
    assert (card.name, card.origin) == ("a100-sxm4-64gb", str(path))
    assert card.usable_bytes == 64 * GIB * 97 // 100
    assert merged.clashes == ()


def test_a_json_file_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    path.write_text(json.dumps({"accelerators": [LEONARDO]}))

    site = load_site_catalog(path)

    assert site.accelerators[0].usable_bytes == 63 * GIB
    assert "stated by this site" in site.accelerators[0].usable_explained


def test_the_built_in_catalogs_stay_as_they_were() -> None:
    site = parse_site_catalog({"accelerators": [LEONARDO]}, source="test")

    merged = site.merged(MODELS, CARDS)

    assert merged.accelerators.get("a100-sxm4-64gb") is not None
    assert CARDS.get("a100-sxm4-64gb") is None


def test_a_config_is_counted() -> None:
    site = parse_site_catalog({"models": [{"name": "acme/gpt", "config": GPT2}]}, source="test")

    assert site.models[0].parameters == 124_439_808
    assert site.models[0].config == GPT2


def test_slices_of_a_sites_card_are_devices_too() -> None:
    site = parse_site_catalog({"accelerators": [LEONARDO]}, source="test")

    merged = site.merged(MODELS, CARDS).accelerators

    assert merged.resolve("NVIDIA A100-SXM-64GB MIG 1g.8gb").device().usable_bytes == 7 * GIB


def test_a_known_card_states_only_what_differs() -> None:
    document = {"accelerators": [{"name": "a40", "usable_bytes": 44 * GIB, "aliases": ["our-a40"]}]}

    merged = parse_site_catalog(document, source="site.yaml").merged(MODELS, CARDS)

    card = merged.accelerators.resolve("NVIDIA A40").entry
    assert card.usable_bytes == 44 * GIB
    assert card.compute_capability == "8.6"
    assert merged.accelerators.resolve("our-a40").entry is card
    assert [clash.message for clash in merged.clashes] == [
        "the site's a40 replaces the entry of that name"
    ]


def test_a_known_card_with_another_memory_loses_the_old_usable_figure() -> None:
    document = {"accelerators": [{"name": "rtx-3080", "memory_bytes_nominal": 12 * GIB}]}

    card = parse_site_catalog(document, source="test").accelerators[0]

    assert card.usable_bytes == 12 * GIB * 97 // 100
    assert card.memory_mib_reported is None


def test_rates_of_a_known_card_are_replaced_one_by_one() -> None:
    document = {"accelerators": [{"name": "a40", "peak_flops": {"fp8": 5}}]}

    card = parse_site_catalog(document, source="test").accelerators[0]

    known = CARDS.get("a40")
    assert known is not None
    assert (card.peak_flops.fp8, card.peak_flops.bf16) == (5, known.peak_flops.bf16)


def test_what_is_not_known_may_be_null() -> None:
    card = {**LEONARDO, "bf16_native": True, "multiprocessors": None, "compute_capability": None}

    site = parse_site_catalog({"accelerators": [card]}, source="test")

    assert site.accelerators[0].device().compute_capability is None


def test_a_name_taken_over_is_reported() -> None:
    document = {"models": [{"name": "acme/m", "aliases": ["gpt2"], "parameters": 5}]}

    merged = parse_site_catalog(document, source="test").merged(MODELS, CARDS)

    assert merged.models.resolve("gpt2").entry.name == "acme/m"
    assert [clash.name for clash in merged.clashes] == ["gpt2"]


def test_an_empty_file_adds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("# nothing yet\n")

    site = load_site_catalog(path)

    assert (site.models, site.accelerators) == ((), ())


CARD = {"name": "x1", "vendor": "Acme", "memory_bytes_nominal": 16 * GIB}

FAULTS = [
    ({"model": []}, "/model", "unknown_field"),
    ([], "", "not_object"),
    ({"models": {}}, "/models", "not_list"),
    ({"models": ["gpt2"]}, "/models/0", "not_object"),
    ({"models": [{}]}, "/models/0/name", "missing"),
    ({"models": [{"name": 7, "parameters": 1}]}, "/models/0/name", "not_text"),
    ({"models": [{"name": " ", "parameters": 1}]}, "/models/0/name", "text_length"),
    ({"models": [{"name": "a\x00b", "parameters": 1}]}, "/models/0/name", "text_form"),
    ({"models": [{"name": "a"}]}, "/models/0", "exactly_one"),
    ({"models": [{"name": "a", "parameters": 1, "config": GPT2}]}, "/models/0", "exactly_one"),
    ({"models": [{"name": "a", "parameters": 7e9}]}, "/models/0/parameters", "not_whole"),
    ({"models": [{"name": "a", "parameters": True}]}, "/models/0/parameters", "not_whole"),
    ({"models": [{"name": "a", "parameters": 0}]}, "/models/0/parameters", "out_of_bounds"),
    ({"models": [{"name": "a", "config": "gpt2"}]}, "/models/0/config", "not_object"),
    ({"models": [{"name": "a", "config": {}}]}, "/models/0/config", "invalid_model_config"),
    ({"models": [{"name": "a", "config": {"x": {1, 2}}}]}, "/models/0/config", "not_json"),
    (
        {"models": [{"name": "a", "parameters": 1}, {"name": "A", "parameters": 2}]},
        "/models/1/name",
        "claimed_twice",
    ),
    ({"accelerators": [{"name": "X 1"}]}, "/accelerators/0/name", "text_form"),
    ({"accelerators": [{"name": "x1"}]}, "/accelerators/0/vendor", "missing"),
    (
        {"accelerators": [{**CARD, "compute_capability": 8.0}]},
        "/accelerators/0/compute_capability",
        "not_text",
    ),
    (
        {"accelerators": [{**CARD, "usable_bytes": 17 * GIB}]},
        "/accelerators/0/usable_bytes",
        "above_nominal",
    ),
    (
        {"accelerators": [{**CARD, "usable_bytes": "16GB"}]},
        "/accelerators/0/usable_bytes",
        "not_whole",
    ),
    (
        {"accelerators": [{**CARD, "peak_flops": {"fp4": 1}}]},
        "/accelerators/0/peak_flops/fp4",
        "unknown_field",
    ),
    (
        {"accelerators": [{**CARD, "bf16_native": "yes"}]},
        "/accelerators/0/bf16_native",
        "not_boolean",
    ),
    (
        {"accelerators": [{**CARD, "mig_profiles": [{"name": "half", "memory_bytes": GIB}]}]},
        "/accelerators/0/mig_profiles/0/name",
        "text_form",
    ),
    (
        {"accelerators": [{"name": "a100-sxm4-80gb-mig-3g.40gb"}]},
        "/accelerators/0/name",
        "is_slice",
    ),
    (
        {"accelerators": [{**CARD, "aliases": ["y"]}, {**CARD, "name": "x2", "aliases": ["Y"]}]},
        "/accelerators/1/aliases/0",
        "claimed_twice",
    ),
    ({"accelerators": [CARD] * 1001}, "/accelerators", "too_many"),
    ({"a/b~c": 1}, "/a~1b~0c", "unknown_field"),
]


@pytest.mark.parametrize(("document", "pointer", "code"), FAULTS)
def test_a_fault_is_refused_where_it_stands(document: object, pointer: str, code: str) -> None:
    with pytest.raises(InvalidSiteCatalogError) as caught:
        parse_site_catalog(document, source="site.yaml")

    assert (caught.value.fields[0].pointer, caught.value.fields[0].code) == (pointer, code)


def test_an_error_names_file_entry_field_value_and_way_out() -> None:
    document = {"accelerators": [{**CARD, "usable_bytes": 1.6e10}]}

    with pytest.raises(InvalidSiteCatalogError) as caught:
        parse_site_catalog(document, source="/etc/site.yaml")

    assert caught.value.message == (
        "the site catalog /etc/site.yaml: /accelerators/0/usable_bytes (x1): 16000000000.0 must be "
        "a whole number of bytes: write 16000000000"
    )
    assert "/etc/site.yaml" in caught.value.hint


def test_all_faults_are_listed_at_once() -> None:
    document = {"models": [{"name": 1}, {"title": "x"}]}

    with pytest.raises(InvalidSiteCatalogError, match=r"and 2 more") as caught:
        parse_site_catalog(document, source="site.yaml")

    assert [field.pointer for field in caught.value.fields] == [
        "/models/0/name",
        "/models/1/title",
        "/models/1/name",
    ]


def test_a_long_value_is_cut_in_the_message() -> None:
    document = {"models": [{"name": "x" * 10_000, "parameters": 1}]}

    with pytest.raises(InvalidSiteCatalogError) as caught:
        parse_site_catalog(document, source="site.yaml")

    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("site.json", b"{", "not valid JSON or YAML"),
        ("site.json", b'{"models": [NaN]}', "NaN is no number"),
        ("site.yaml", b"models: [", "not valid JSON or YAML"),
        ("site.yaml", b"models: !!python/object:os.system {}", "not valid JSON or YAML"),
        ("site.yaml", b"\xff\xfe", "not valid JSON or YAML"),
        ("site.json", b"[" * 100_000, "not valid JSON or YAML"),
        ("site.yaml", b"#" * (MAX_FILE_BYTES + 1), "larger than"),
    ],
)
def test_a_file_that_is_no_catalog_is_refused(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(InvalidSiteCatalogError, match=reason):
        load_site_catalog(path)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidSiteCatalogError, match=r"gone\.yaml cannot be read"):
        load_site_catalog(tmp_path / "gone.yaml")


def test_a_date_that_yaml_read_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("models: [{name: a, config: {model_type: gpt2, released: 2024-01-01}}]")

    with pytest.raises(InvalidSiteCatalogError, match="put dates in quotes"):
        load_site_catalog(path)
