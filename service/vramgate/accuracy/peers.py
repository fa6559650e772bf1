"""Other estimators on the same measured runs: the same figures, theirs beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import neg, pos

from vramgate.accuracy.cases import PeerPredictions
from vramgate.accuracy.measured import CaseResult, MeasuredFigures, error_on, measured_figures
from vramgate.accuracy.predictions import LayerBytes

ENOUGH = 0.5
"""Share of the exact rows a peer must answer to be called the best: some answer the easy ones only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerReport:
    """One estimator, and us on the rows that it answers."""

    peer: str
    theirs: MeasuredFigures
    ours: MeasuredFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class BestPeer:
    """The peer that does best in one column, and us on its rows."""

    peer: str
    theirs: float
    ours: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersReport:
    """Every peer, the nearest first, and the best of them in each column."""

    peers: tuple[PeerReport, ...]
    best: dict[str, BestPeer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure that predictions are compared by."""

    name: str
    title: str
    value: Callable[[MeasuredFigures], float | None]
    badness: Callable[[float], float]
    """Smaller is better."""


COLUMNS = (
    Column(
        name="median_error_fraction",
        title="median error",
        value=lambda figures: figures.exact.median_error_fraction,
        badness=pos,
    ),
    Column(
        name="p90_error_fraction",
        title="90th percentile",
        value=lambda figures: figures.exact.p90_error_fraction,
        badness=pos,
    ),
    Column(
        name="within_10_percent_fraction",
        title="within ±10 %",
        value=lambda figures: figures.exact.within_10_percent_fraction,
        badness=neg,
    ),
    Column(
        name="mean_error_fraction",
        title="mean error",
        value=lambda figures: figures.exact.mean_error_fraction,
        badness=abs,
    ),
    Column(
        name="under_by_5_percent_fraction",
        title="under by over 5 %",
        value=lambda figures: figures.exact.under_by_5_percent_fraction,
        badness=pos,
    ),
    Column(
        name="mean_of_source_medians_fraction",
        title="mean of sources’ medians",
        value=lambda figures: figures.mean_of_source_medians_fraction,
        badness=pos,
    ),
    Column(
        name="bound_fraction",
        title="covers a bound",
        value=lambda figures: figures.bound.fraction,
        badness=neg,
    ),
    Column(
        name="out_of_memory_fraction",
        title="refuses what ran out",
        value=lambda figures: figures.out_of_memory.fraction,
        badness=neg,
    ),
    Column(
        name="ran_fraction",
        title="accepts what ran",
        value=lambda figures: figures.ran.fraction,
        badness=neg,
    ),
)

ERROR_COLUMNS = 6
"""How many of the columns are about errors; the others are one-sided questions."""


def peers_report(
    results: Sequence[CaseResult], predictions: Sequence[PeerPredictions]
) -> PeersReport:
    """Return every peer's figures on the runs that both it and we have a figure for."""
    said = {one.id: one.predicted_bytes for one in predictions}
    names = sorted({peer for sizes in said.values() for peer in sizes})
    peers = [_peer_report(name, results, said) for name in names]
    peers.sort(key=lambda peer: (_median(peer.theirs), peer.peer))
    rows = measured_figures([one for one in results if one.id in said]).exact.n
    broad = [peer for peer in peers if peer.theirs.exact.n >= ENOUGH * rows]
    best = {column.name: _best(column, broad) for column in COLUMNS}
    return PeersReport(
        peers=tuple(peers),
        best={name: peer for name, peer in best.items() if peer is not None},
    )


def _peer_report(
    peer: str, results: Sequence[CaseResult], said: Mapping[str, Mapping[str, int]]
) -> PeerReport:
    answered = [one for one in results if peer in said.get(one.id, {})]
    theirs = [_as_said(one, said[one.id][peer]) for one in answered]
    return PeerReport(peer=peer, theirs=measured_figures(theirs), ours=measured_figures(answered))


def _as_said(result: CaseResult, size: int) -> CaseResult:
    """Return the run beside a peer's figure; no peer says which layer it means, so it stands for all."""
    layers = LayerBytes(
        allocated_bytes=size, required_bytes=size, reserved_bytes=size, device_bytes=size
    )
    error = error_on(result.layer, result.measured_bytes, layers)
    return replace(result, predicted=layers, error_fraction=error)


def _best(column: Column, peers: Sequence[PeerReport]) -> BestPeer | None:
    rated = [(value, peer) for peer in peers if (value := column.value(peer.theirs)) is not None]
    if not rated:
        return None
    value, peer = min(rated, key=lambda one: column.badness(one[0]))
    return BestPeer(peer=peer.peer, theirs=value, ours=column.value(peer.ours))


def _median(figures: MeasuredFigures) -> float:
    median = figures.exact.median_error_fraction
    return float("inf") if median is None else median
