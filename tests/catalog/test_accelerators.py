"""The catalog of accelerators: its data, what the cost model gets of it, its laws."""

import contextlib
import json
import time
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.catalog.refusals import suggestions
from vramgate.catalog.accelerators import Accelerator, builtin_accelerators
from vramgate.costmodel.job import Device
from vramgate.errors import UnknownNameError
from vramgate.units import GIB

CARDS = builtin_accelerators()


def _packaged(name: str) -> Any:  # noqa: ANN401 JSON
    return json.loads(files("vramgate.catalog").joinpath(name).read_text())


ROWS = _packaged("accelerators.json")
SUPPLEMENT = _packaged("accelerator_supplement.json")
SPELLINGS = [
    (name, row["name"])
    for row in ROWS
    for name in (row["name"], row["display_name"], *row["aliases"], *row["cloud_instances"])
]


def test_every_alias_leads_to_its_own_card() -> None:
    strays = [(name, want) for name, want in SPELLINGS if CARDS.resolve(name).entry.name != want]

    assert strays == []


def test_every_fact_of_the_data_is_kept() -> None:
    assert len(CARDS.entries) == len(ROWS) == 102
    for row in ROWS:
        card = CARDS.get(row["name"])
        assert card is not None
        assert card.source == row["source"]
        assert card.memory_mib_reported == row["memory_mib_reported"]
        assert card.peak_flops.bf16 == row["peak_flops"]["bf16"]


def test_the_supplement_names_known_cards_and_its_sources() -> None:
    rows = [*SUPPLEMENT["aliases"], *SUPPLEMENT["instances"], *SUPPLEMENT["mig_profile_names"]]
    named = {row["accelerator"] for row in rows}
    named |= {name for row in SUPPLEMENT["multiprocessors"] for name in row["counts"]}
    named |= {name for row in SUPPLEMENT["mig_multiprocessors"] for name in row["accelerators"]}

    assert {name for name in named if CARDS.get(name) is None} == set()
    assert all(row["source"] for rows in SUPPLEMENT.values() for row in rows)


@pytest.mark.parametrize("card", CARDS.entries, ids=lambda card: card.name)
def test_usable_bytes_are_positive_and_explained(card: Accelerator) -> None:
    assert 0 < card.usable_bytes <= card.memory_bytes_nominal * 1.01
    assert "usable" in card.usable_explained
    assert card.may_hold(card.usable_bytes)
    assert card.may_hold(card.memory_bytes_nominal)


def test_a_card_without_a_known_figure_gets_a_share_of_the_nominal_and_says_so() -> None:
    # TPU v7: 192 GiB in its data, no usable figure; 97 % of it.
    card = CARDS.resolve("tpu7x").entry

    assert card.usable_bytes == 192 * GIB * 97 // 100
    assert "97 % of the nominal" in card.usable_explained


def test_a_measured_range_is_told() -> None:
    # A40: 44.34 GiB with ECC on, 47.55 GiB (48688 MiB) off.
    explained = CARDS.resolve("a40").entry.usable_explained

    assert "44.34 GiB to 47.55 GiB seen" in explained


def test_the_cost_model_gets_its_device() -> None:
    # Compute capability 8.0 and 108 multiprocessors: torch's _CudaDeviceProperties of an A100.
    assert CARDS.resolve("NVIDIA A100-SXM4-80GB").device() == Device(
        name="a100-sxm4-80gb",
        usable_bytes=84_986_665_370,
        compute_capability=(8, 0),
        vendor="NVIDIA",
        architecture="Ampere",
        bf16_native=True,
        multiprocessors=108,
    )


def test_a_stated_capacity_replaces_the_catalogs() -> None:
    assert CARDS.resolve("l4").device(20 * GIB).usable_bytes == 20 * GIB


def test_other_makers_have_no_compute_capability() -> None:
    device = CARDS.resolve("mi300x").device()

    assert (device.vendor, device.compute_capability, device.multiprocessors) == ("AMD", None, 304)


def test_a_card_nobody_counted_has_no_multiprocessors() -> None:
    assert CARDS.resolve("h20").device().multiprocessors is None


def test_a_slice_is_a_device_of_its_own() -> None:
    # nvidia-smi mig -lgip of an A100 80GB: 3g.40gb has 39.25 GiB and 42 multiprocessors; the MIG
    # user guide gives it 4/8 of the memory and 3/7 of the compute.
    whole = CARDS.resolve("a100-sxm4-80gb").entry

    found = CARDS.resolve("a100-sxm4-80gb-mig-3g.40gb").entry

    assert found.usable_bytes == int(39.25 * GIB)
    assert found.multiprocessors == 42
    assert found.mig_of == whole.name
    assert whole.memory_bandwidth_bytes_per_s is not None
    assert found.memory_bandwidth_bytes_per_s == whole.memory_bandwidth_bytes_per_s // 2
    assert whole.peak_flops.bf16 is not None
    assert found.peak_flops.bf16 == whole.peak_flops.bf16 * 3 // 7
    assert found.interconnect.nvlink_bytes_per_s is None
    assert found.typical_gpus_per_node == 1


def test_an_odd_profile_has_multiprocessors_of_its_own() -> None:
    # https://jbarrow.ai/field_notes/nvidia-mig/: 1g.10gb has 16, 1g.20gb has 26.
    counts = [
        CARDS.resolve(f"h100-sxm5-80gb-mig-{profile}").device().multiprocessors
        for profile in ("1g.10gb", "1g.20gb")
    ]

    assert counts == [16, 26]


def test_quarters_of_a_small_card_are_quarters() -> None:
    whole = CARDS.resolve("a30").entry
    half = CARDS.resolve("a30-mig-2g.12gb").entry

    assert whole.peak_flops.fp16 is not None
    assert half.peak_flops.fp16 == whole.peak_flops.fp16 // 2


@pytest.mark.parametrize("mig", CARDS.mig_slices, ids=lambda mig: mig.name)
def test_every_slice_resolves_by_its_id_and_is_smaller_than_its_card(mig: Accelerator) -> None:
    card = CARDS.get(mig.mig_of or "")

    assert CARDS.resolve(mig.name).entry is mig
    assert card is not None
    assert mig.usable_bytes <= card.usable_bytes


@given(st.text(max_size=600), st.none() | st.integers(min_value=1, max_value=2**45))
@example("gpu:", None)
@example("gres:gpu:a100_1g.5gb:2", 1)
@example("MIG", None)
@example("1g.5gb", 5 * GIB)
@example("a" * 10_000, None)
@example("\ud800", None)
def test_any_text_resolves_or_is_refused(text: str, memory_bytes: int | None) -> None:
    with contextlib.suppress(UnknownNameError):
        found = CARDS.resolve(text, memory_bytes).entry
        assert CARDS.get(found.name) is found


@given(
    st.sampled_from(SPELLINGS),
    st.sampled_from(["{}", " {} ", "gpu:{}:4", "nvidia.com/gpu.product={}", "{}-SHARED"]),
)
@example(("3080", CARDS.resolve("3080").entry.name), "gpu:{}:4")
def test_wrapping_a_name_changes_nothing_of_what_it_means(
    spelling: tuple[str, str], wrapping: str
) -> None:
    name, expected = spelling
    if ":" in name or "+" in name or "(" in name:
        return

    assert CARDS.resolve(wrapping.format(name)).entry.name == expected


def test_exact_names_resolve_within_twenty_microseconds() -> None:
    names = [name for name, _ in SPELLINGS]
    best = min(_seconds_to_resolve(names) for _ in range(5))

    assert best / len(names) < 20e-6


def _seconds_to_resolve(names: list[str]) -> float:
    start = time.perf_counter()
    for name in names:
        CARDS.resolve(name)
    return time.perf_counter() - start


def test_search_finds_cards_as_one_types() -> None:
    assert [card.name for card in CARDS.search("h200", limit=2)] == ["h200-sxm-141gb", "h200-nvl"]


@pytest.mark.parametrize(
    ("typo", "meant"), [("a100-sxm-80", "a100-sxm4-80gb"), ("rtx 409", "rtx-4090"), ("L40X", "l40")]
)
def test_a_near_miss_suggests_what_was_meant(typo: str, meant: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        CARDS.resolve(typo)

    assert meant in suggestions(caught.value)


def test_cards_are_keys_of_caches_by_their_id() -> None:
    assert {CARDS.resolve("l4").entry: 1}[CARDS.resolve("NVIDIA-L4").entry] == 1
