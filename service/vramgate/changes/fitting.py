"""fitting_changes: the public door."""

from collections.abc import Callable

from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.catalog.models import ModelCatalog
from vramgate.changes.change import Edit, FittingChange
from vramgate.changes.fields import differences
from vramgate.changes.search import Search
from vramgate.changes.trials import Trial, Trials
from vramgate.jobs.description import JobDescription
from vramgate.units import format_gib


def _always() -> bool:
    return True


def fitting_changes(
    description: JobDescription,
    *,
    models: ModelCatalog,
    accelerators: AcceleratorCatalog,
    risk: float,
    most: int = 3,
    may_go_on: Callable[[], bool] = _always,
    base: Trial | None = None,
) -> tuple[FittingChange, ...]:
    """Return up to ``most`` changes after which a job fits its card, the smallest first, of distinct kinds.

    Fitting is running out of memory with a probability of at most ``risk``. None are returned for a
    job that fits as it is, that cannot be resolved, or whose card is unknown. ``may_go_on`` is asked
    before each estimate; once it says no, what was found so far is returned. ``base`` is the job as it
    is, where that has been estimated at this risk already.
    """
    trials = Trials(
        description,
        models=models,
        accelerators=accelerators,
        risk=risk,
        may_go_on=may_go_on,
        base=base,
    )
    base = trials.base
    if base is None or base.check.oom_probability is None or base.fits:
        return ()
    found = Search(trials, base).fitting(most)
    return tuple(_described(base, trial) for trial in found)


def _described(base: Trial, trial: Trial) -> FittingChange:
    return FittingChange(
        kinds=tuple(edit.kind for edit in trial.edits),
        fields=differences(base.resolved.description, trial.resolved.description),
        text=_text(trial.edits),
        description=trial.resolved.description,
        resolved=trial.resolved,
        memory=trial.memory,
        check=trial.check,
        slowdown=_slowdown(trial.edits),
        cost=_cost(base, trial),
    )


def _text(edits: tuple[Edit, ...]) -> str:
    """Return what to do in one sentence."""
    if len(edits) == 1:
        return f"Set {edits[0].to}: {edits[0].why}."
    *others, last = (edit.to for edit in edits)
    return f"Set {', '.join(others)} and {last}: none of them can be left out."


def _cost(base: Trial, trial: Trial) -> str:
    """Return what the edits cost, and the host memory that they take."""
    costs = [edit.cost for edit in trial.edits]
    host_bytes = int(trial.memory.host_bytes)
    if host_bytes > int(base.memory.host_bytes):
        costs.append(f"a node holds {format_gib(host_bytes)} of it in host memory")
    return "; ".join(costs)


def _slowdown(edits: tuple[Edit, ...]) -> float | None:
    """Return the product of what each costs; None as soon as one is not known."""
    product = 1.0
    for edit in edits:
        if edit.slowdown is None:
            return None
        product *= edit.slowdown
    return product
