"""Trials: changed jobs resolved and estimated, each once, a bounded number of them."""

from collections.abc import Callable
from dataclasses import dataclass

from vramgate.calibration.capacity import CapacityCheck, check_capacity
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.catalog.models import ModelCatalog
from vramgate.changes.change import Edit
from vramgate.changes.fields import assigned
from vramgate.changes.situation import Situation
from vramgate.costmodel.breakdown import MemoryEstimate
from vramgate.costmodel.estimate import estimate_memory
from vramgate.errors import DomainError
from vramgate.jobs.description import JobDescription
from vramgate.jobs.resolve import ResolvedJob, resolve

MOST_ESTIMATES = 32
"""Estimates in one call, at 0.5 to 1 ms each beside 0.1 ms to resolve the job."""
_WOULD_NOT_RUN = frozenset({"no_bf16", "no_low_precision", "no_flash_attention"})
"""Warnings of a card that cannot do what the job asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A job after some edits, and what it needs."""

    edits: tuple[Edit, ...]
    said: JobDescription
    resolved: ResolvedJob
    memory: MemoryEstimate
    check: CapacityCheck

    @property
    def required_bytes(self) -> int:
        """What the card must offer at least."""
        return int(self.memory.peak.required_bytes)

    @property
    def fits(self) -> bool:
        """Whether it runs out of memory at most as often as the risk asked for allows."""
        probability = self.check.oom_probability
        return probability is not None and probability <= self.check.risk


class Trials:
    """Tries edits of one job until the estimates are used up or the caller says stop."""

    def __init__(
        self,
        description: JobDescription,
        *,
        models: ModelCatalog,
        accelerators: AcceleratorCatalog,
        risk: float,
        may_go_on: Callable[[], bool],
        base: Trial | None = None,
    ) -> None:
        """Take the job to change, and as ``base`` what is known of it unchanged.

        ``may_go_on`` is asked before each estimate.
        """
        self._said, self._risk = description, risk
        self._models, self._accelerators = models, accelerators
        self._may_go_on = may_go_on
        self._left = MOST_ESTIMATES
        self._tried: dict[tuple[Edit, ...], Trial | None] = {} if base is None else {(): base}
        self.base = self.of(())

    def of(self, edits: tuple[Edit, ...]) -> Trial | None:
        """Return the job after edits; None where it would not run, or nothing more may be tried."""
        if edits not in self._tried:
            said = assigned(self._said, (one for edit in edits for one in edit.sets))
            resolved = self._resolved(edits, said)
            if resolved is None:
                self._tried[edits] = None
            elif self._left == 0 or not self._may_go_on():
                self._left = 0
                return None
            else:
                self._left -= 1
                self._tried[edits] = self._estimated(edits, said, resolved)
        return self._tried[edits]

    def situation(self, trial: Trial) -> Situation:
        """Return what ladders read of a job."""
        return Situation(
            said=trial.said,
            resolved=trial.resolved,
            upper_bytes=trial.check.upper_bytes,
            accelerators=self._accelerators,
        )

    def _resolved(self, edits: tuple[Edit, ...], said: JobDescription) -> ResolvedJob | None:
        try:
            resolved = resolve(said, models=self._models, accelerators=self._accelerators)
        except DomainError:
            return None
        known = self._tried.get(())
        before = set() if known is None else _cannot(known.resolved)
        return None if edits and _cannot(resolved) - before else resolved

    def _estimated(
        self, edits: tuple[Edit, ...], said: JobDescription, resolved: ResolvedJob
    ) -> Trial:
        memory = estimate_memory(resolved.job)
        required = int(memory.peak.required_bytes)
        return Trial(
            edits=edits,
            said=said,
            resolved=resolved,
            memory=memory,
            check=check_capacity(required, resolved.job.hardware, self._risk),
        )


def _cannot(resolved: ResolvedJob) -> set[str]:
    return {warning.code for warning in resolved.warnings} & _WOULD_NOT_RUN
