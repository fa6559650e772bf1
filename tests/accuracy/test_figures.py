"""The metrics on rows made by hand, with the arithmetic beside them."""

import pytest

from tests.accuracy.rows import a_result, a_trace, on_all_layers
from vramgate.accuracy.cases import Kind, Layer, LengthIs, PeerPredictions
from vramgate.accuracy.figures import error_figures, share
from vramgate.accuracy.measured import measured_figures, repository
from vramgate.accuracy.oracle import NotCovered, oracle_figures
from vramgate.accuracy.peers import peers_report
from vramgate.accuracy.predictions import LayerBytes


def test_errors_in_figures() -> None:
    # Absolute: 0.01 0.02 0.06 0.10 0.30; the middle one is 0.06. The 90th percentile is at place
    # 0.9 × 4 = 3.6 counted from 0: 0.10 + 0.6 × (0.30 − 0.10) = 0.22. Within ±10 %: 4 of 5.
    # Mean: (0.01 − 0.02 − 0.06 + 0.10 − 0.30) / 5 = −0.054. Below −5 %: −0.06 and −0.30, 2 of 5.
    figures = error_figures([0.01, -0.02, -0.06, 0.10, -0.30])
    assert figures.n == 5
    assert figures.median_error_fraction == pytest.approx(0.06)
    assert figures.p90_error_fraction == pytest.approx(0.22)
    assert figures.within_10_percent_fraction == pytest.approx(0.8)
    assert figures.mean_error_fraction == pytest.approx(-0.054)
    assert figures.under_by_5_percent_fraction == pytest.approx(0.4)


def test_no_rows_have_no_figures() -> None:
    figures = error_figures([])
    assert figures.n == 0
    assert figures.median_error_fraction is None
    assert share([]).fraction is None


@pytest.mark.parametrize(
    ("layer", "error"),
    # Measured 100; predicted 110 allocated, 120 reserved, 150 on the card.
    [
        (Layer.ALLOCATED, 0.10),
        (Layer.RESERVED, 0.20),
        (Layer.DEVICE, 0.50),
        (Layer.UNSTATED, 0.20),
    ],
)
def test_a_measurement_is_held_against_its_own_layer(layer: Layer, error: float) -> None:
    predicted = LayerBytes(
        allocated_bytes=110, required_bytes=999, reserved_bytes=120, device_bytes=150
    )
    assert a_result(layer=layer, predicted=predicted).error_fraction == pytest.approx(error)


def test_rows_whose_length_is_a_bound_are_asked_one_side_only() -> None:
    # At the bound 95 of 100 is enough, 94 is not, 300 is fine; none of them is an error.
    rows = [
        a_result(length_is=LengthIs.BOUND, predicted=on_all_layers(size)) for size in (95, 94, 300)
    ]
    figures = measured_figures([a_result(), *rows])
    assert (figures.bound.n, figures.bound.met) == (3, 2)
    assert figures.exact.n == 1


def test_what_ran_out_must_require_more_than_the_card_has_and_what_ran_at_most_that() -> None:
    # The card has 120.
    ran_out = [
        a_result(kind=Kind.OOM, measured_bytes=None, predicted=on_all_layers(size))
        for size in (121, 120, 500)
    ]
    ran = [
        a_result(predicted=on_all_layers(120)),
        a_result(kind=Kind.FITS, measured_bytes=None, predicted=on_all_layers(121)),
        a_result(kind=Kind.FITS, measured_bytes=None, usable_bytes=None),
    ]
    figures = measured_figures([*ran_out, *ran])
    assert (figures.out_of_memory.n, figures.out_of_memory.met) == (3, 2)
    assert (figures.ran.n, figures.ran.met) == (2, 1)
    assert figures.exact.n == 1


def test_the_mean_of_the_sources_medians_gives_each_source_one_voice() -> None:
    # a: errors 0.1 0.1 0.1, median 0.1; b: 0.5, median 0.5. Their mean is 0.3, the overall median 0.1.
    rows = [a_result(source="a", predicted=on_all_layers(110))] * 3
    figures = measured_figures([*rows, a_result(source="b", predicted=on_all_layers(150))])
    assert figures.mean_of_source_medians_fraction == pytest.approx(0.3)
    assert figures.exact.median_error_fraction == pytest.approx(0.1)
    assert list(figures.exact_by_source) == ["a", "b"]


def test_the_cards_figure_beside_an_allocated_peak_is_a_second_reading() -> None:
    # 100 allocated and 125 on the card were measured; 100 is predicted for both: 100 / 125 − 1.
    figures = measured_figures([a_result(measured_device_bytes=125)])
    assert figures.device_beside_allocated.mean_error_fraction == pytest.approx(-0.2)
    assert figures.exact.mean_error_fraction == 0


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("owner/name@docs/page.md (rev 1)", "owner/name"),
        ("7B runs out | https://github.com/owner/name/issues/4642", "owner/name"),
        ("a talk", "a talk"),
    ],
)
def test_a_source_goes_by_its_repository(source: str, name: str) -> None:
    assert repository(source) == name


def test_traces_in_figures() -> None:
    # Errors 0, 1 %, 2 %, −4 %: two within 1 %, three within 3 %. One phase is wrong. Saved: 200 and 201
    # of 200 are within 0.5 % (1 byte), 202 is not, one trace does not say. One more trace is not covered.
    traces = [
        a_trace(),
        a_trace(estimated_peak_bytes=1010, estimated_saved_bytes_per_block=201),
        a_trace(estimated_peak_bytes=1020, estimated_saved_bytes_per_block=202),
        a_trace(estimated_peak_bytes=960, saved_bytes_per_block=None, peak_phase="forward"),
    ]
    missing = NotCovered(id="x", family="llama", reason="unknown", error_fraction=None)
    figures = oracle_figures(traces, [missing])
    assert (figures.rows, figures.covered) == (5, 4)
    assert figures.within_1_percent_fraction == pytest.approx(2 / 4)
    assert figures.within_3_percent_fraction == pytest.approx(3 / 4)
    assert figures.phase_right_fraction == pytest.approx(3 / 4)
    assert figures.saved_per_block_within_half_percent_fraction == pytest.approx(2 / 3)
    assert figures.largest_error_fraction == pytest.approx(0.04)
    assert figures.within_1_percent_of_all_rows_fraction == pytest.approx(2 / 5)


def test_a_peer_is_compared_on_the_rows_it_answers_and_so_are_we() -> None:
    # Measured 100 each; we say 110 and 140. The peer answers the first row only, with 70 on every layer.
    ours = [
        a_result(id="one", predicted=on_all_layers(110)),
        a_result(id="two", predicted=on_all_layers(140)),
    ]
    report = peers_report(ours, [PeerPredictions(id="one", predicted_bytes={"rule": 70})])
    (peer,) = report.peers
    assert peer.theirs.exact.median_error_fraction == pytest.approx(0.3)
    assert peer.ours.exact.median_error_fraction == pytest.approx(0.1)
    assert (peer.theirs.exact.n, peer.ours.exact.n) == (1, 1)
    # 70 fits a card of 120.
    assert peer.theirs.ran.fraction == 1


def test_the_best_peer_of_a_column_answers_at_least_half_of_the_rows() -> None:
    # Of four rows "all" answers every one, 20 % off; "one" answers one, exactly.
    ours = [a_result(id=name) for name in "abcd"]
    said = [PeerPredictions(id=name, predicted_bytes={"all": 120}) for name in "bcd"]
    said.append(PeerPredictions(id="a", predicted_bytes={"all": 120, "one": 100}))
    report = peers_report(ours, said)
    assert [peer.peer for peer in report.peers] == ["one", "all"]
    best = report.best["median_error_fraction"]
    assert (best.peer, best.ours) == ("all", 0)
    assert best.theirs == pytest.approx(0.2)
