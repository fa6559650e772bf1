"""Search: the weakest change of each kind that fits, and the fewest together where none does alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from vramgate.calibration.capacity import check_capacity
from vramgate.changes.change import ChangeKind, Edit
from vramgate.changes.order import CHANGES_LEARNING, CHANGES_MORE, KEEPS_RESULTS, Ladder
from vramgate.changes.trials import Trial, Trials
from vramgate.costmodel.breakdown import Component

_PLACE = {kind: place for place, kind in enumerate(ChangeKind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Together:
    """Edits of several kinds taken together, each with the ladder it is a rung of."""

    trial: Trial
    edits: Mapping[ChangeKind, Edit] = field(default_factory=dict)
    ladders: Mapping[ChangeKind, tuple[Edit, ...]] = field(default_factory=dict)


class Search:
    """Searches the changes of one job that does not fit.

    A ladder's last rung is tried first: a kind that does not help enough costs one estimate.
    """

    def __init__(self, trials: Trials, base: Trial) -> None:
        """Take the job, and where its changes are tried."""
        self._trials, self._base = trials, base
        self._weights_are_too_much = _weights_are_too_much(base)

    def fitting(self, most: int) -> list[Trial]:
        """Return up to ``most`` trials that fit, in the order of their kinds."""
        return list(islice(self._fitting(), most))

    def _fitting(self) -> Iterator[Trial]:
        alone = False
        for trial in self._each(KEEPS_RESULTS):
            alone = True
            yield trial
        together = None
        if not alone:
            together = self._grown(_Together(trial=self._base), KEEPS_RESULTS)
            if together.trial.fits:
                yield self._fewest(together)
                together = None
        for ladder in CHANGES_LEARNING:
            trial_alone = self._alone(ladder)
            if trial_alone is not None:
                yield trial_alone
            elif together is not None:
                grown = self._grown(together, (ladder,))
                if grown.trial.fits:
                    yield self._fewest(grown)
                    together = None
        yield from self._each(CHANGES_MORE)

    def _each(self, ladders: Iterable[Ladder]) -> Iterator[Trial]:
        """Yield what fits of each ladder alone."""
        for ladder in ladders:
            trial = self._alone(ladder)
            if trial is not None:
                yield trial

    def _alone(self, ladder: Ladder) -> Trial | None:
        """Return the trial of the weakest change of one kind that is enough by itself."""
        if self._weights_are_too_much and not ladder.relieves_weights:
            return None
        return self._weakest(ladder.rungs(self._trials.situation(self._base)), {})

    def _weakest(self, rungs: Sequence[Edit], others: Mapping[ChangeKind, Edit]) -> Trial | None:
        """Return the trial of the first rung that fits beside other edits; each rung saves more than the last."""
        last = self._last(rungs, others)
        if last is None or not last.trial.fits:
            return None
        best, low, high = last.trial, 0, rungs.index(last.edit)
        while low < high:
            middle = (low + high) // 2
            trial = self._try({**others, rungs[middle].kind: rungs[middle]})
            if trial is not None and trial.fits:
                best, high = trial, middle
            else:
                low = middle + 1
        return best

    def _last(self, rungs: Sequence[Edit], others: Mapping[ChangeKind, Edit]) -> "_Rung | None":
        """Return the last rung on which the job would run."""
        for edit in reversed(rungs):
            trial = self._try({**others, edit.kind: edit})
            if trial is not None:
                return _Rung(edit=edit, trial=trial)
        return None

    def _try(self, edits: Mapping[ChangeKind, Edit]) -> Trial | None:
        in_order = sorted(edits.values(), key=lambda edit: _PLACE[edit.kind])
        return self._trials.of(tuple(in_order))

    def _grown(self, together: _Together, ladders: Iterable[Ladder]) -> _Together:
        """Return edits with more of them, each at its last rung, until they fit.

        What leaves the peak where it is stays in: it may count once another part of the step is
        smaller. What raises the peak is left out.
        """
        for ladder in ladders:
            if together.trial.fits:
                break
            rungs = ladder.rungs(self._trials.situation(together.trial))
            last = self._last(rungs, together.edits)
            if last is None or last.trial.required_bytes > together.trial.required_bytes:
                continue
            together = _Together(
                trial=last.trial,
                edits={**together.edits, ladder.kind: last.edit},
                ladders={**together.ladders, ladder.kind: rungs},
            )
        return together

    def _fewest(self, together: _Together) -> Trial:
        """Return the trial of those edits that are needed, each at the first rung that is enough.

        The last one was needed with all others, so it is with fewer; of the others the larger
        changes are dropped first.
        """
        edits, best = dict(together.edits), together.trial
        last, *others = reversed(edits)
        for kind in others:
            fewer = {one: edit for one, edit in edits.items() if one is not kind}
            trial = self._try(fewer)
            if trial is not None and trial.fits:
                edits, best = fewer, trial
        for kind in (last, *(one for one in others if one in edits)):
            rest = {one: edit for one, edit in edits.items() if one is not kind}
            trial = self._weakest(together.ladders[kind], rest)
            if trial is not None:
                best = trial
                edits = {edit.kind: edit for edit in trial.edits}
        return best


def _weights_are_too_much(base: Trial) -> bool:
    """Return whether a job would not fit if it held nothing but its weights: what leaves those alone is in vain."""
    weights = sum(
        int(line.bytes) for line in base.memory.bill if line.component is Component.WEIGHTS
    )
    check = check_capacity(weights, base.resolved.job.hardware, base.check.risk)
    return check.oom_probability is not None and check.oom_probability > check.risk


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rung:
    edit: Edit
    trial: Trial
