"""estimate_memory: the public door of the cost model, and peaks for arrays of jobs through the same functions."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vramgate.costmodel.breakdown import (
    Component,
    MemoryEstimate,
    Peak,
    Phase,
    PhaseBytes,
)
from vramgate.costmodel.coefficients import FIRST_PRINCIPLES as COEFFICIENTS
from vramgate.costmodel.explain import bill
from vramgate.costmodel.host import host_bytes
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.kinds import LayerKinds
from vramgate.costmodel.memory_layers import upper_terms
from vramgate.costmodel.moments import Moment
from vramgate.costmodel.notices import notices
from vramgate.costmodel.parallelism import pipeline_stages, splits_layers
from vramgate.costmodel.rank_model import trainable_parameters
from vramgate.costmodel.step import Step
from vramgate.costmodel.tape import ACTIVATION, DEQUANTIZED, GRADIENT, LOGITS, TEMPORARY
from vramgate.costmodel.terms import (
    FIRST_PRINCIPLES,
    Factors,
    MemoryTerms,
    layers_above,
    phase_terms,
    with_factors,
)
from vramgate.units import Bytes, largest

PHASES = (Phase.LOAD, Phase.FORWARD, Phase.LOSS, Phase.BACKWARD, Phase.OPTIMIZER_STEP)


def estimate_memory(job: TrainingJob, factors: Factors = FIRST_PRINCIPLES) -> MemoryEstimate:
    """Return the memory of one training job on its worst rank: peak, bill, timeline.

    ``factors`` are calibration's, on terms of the model. Numbers of the job are plain integers here;
    for arrays see ``peak_bytes``.
    """
    worst = _worst(job)
    highest = _highest(worst.moments)
    timeline = tuple(
        _of_phase(phase, highest[phase], factors) for phase in PHASES if phase in highest
    )
    peak = max(timeline, key=lambda one: one.allocated_bytes)
    moment = highest[peak.phase]
    terms = upper_terms(worst.step, worst.peak, COEFFICIENTS)
    layers = layers_above(peak.allocated_bytes, terms, factors)
    architecture = job.architecture
    parameters, active = architecture.parameters, architecture.active_parameters
    lines = bill(worst.step, moment, factors)
    return MemoryEstimate(
        parameters=parameters,
        trainable_parameters=int(_trainable(worst)),
        active_parameters=parameters if active is None else active,
        peak=Peak(
            allocated_bytes=peak.allocated_bytes,
            required_bytes=layers.required,
            reserved_bytes=layers.reserved,
            device_bytes=layers.device,
            phase=peak.phase,
            rank=worst.step.stage.name or "any rank",
        ),
        bill=lines,
        timeline=timeline,
        host_bytes=host_bytes(worst.step),
        saved_bytes_per_block=_saved_per_block(worst.step),
        warnings=notices(worst.step, moment),
    )


def peak_bytes(job: TrainingJob) -> Bytes:
    """Return the allocated peak of one job, or of an array of jobs of one shape.

    ``micro_batch_size``, ``sequence_length`` and devices may be int64 arrays; they broadcast. Within one call the
    categories are the same for all.
    """
    numbers = (job.micro_batch_size, job.sequence_length, job.hardware.devices)
    if all(isinstance(number, int) for number in numbers):
        return _peak_of_one_regime(job)
    batch, length, devices = np.broadcast_arrays(*numbers)
    peaks = np.zeros(batch.shape, dtype=np.int64)
    regimes = _regimes(job, batch, length)
    for regime in np.unique(regimes):
        members = regimes == regime
        peaks[members] = _peak_of_one_regime(
            replace(
                job,
                micro_batch_size=batch[members],
                sequence_length=length[members],
                hardware=replace(job.hardware, devices=devices[members]),
            )
        )
    return peaks


def _regimes(
    job: TrainingJob, batch: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a number for each job that tells apart what is no matter of size: one row or several, windows reached."""
    windows = {
        block.attention.sliding_window
        for stack in job.architecture.stacks
        for block in stack.blocks
        if block.attention is not None and block.attention.sliding_window is not None
    }
    regimes: NDArray[np.int64] = (batch == 1).astype(np.int64)
    for window in windows:
        regimes += 2 * (length >= window)
    return regimes


def _peak_of_one_regime(job: TrainingJob) -> Bytes:
    peak: Bytes = 0
    kinds = LayerKinds(job)
    for stage in pipeline_stages(job):
        for moment in Step(job, stage, kinds).run():
            peak = largest(peak, moment.bytes)
    return peak


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorstRank:
    """The stage with the highest peak."""

    step: Step
    kinds: LayerKinds
    moments: list[Moment]
    peak: Moment


def _worst(job: TrainingJob) -> _WorstRank:
    found: _WorstRank | None = None
    kinds = LayerKinds(job)
    for stage in pipeline_stages(job):
        step = Step(job, stage, kinds)
        moments = step.run()
        peak = max(moments, key=lambda moment: moment.bytes)
        if found is None or peak.bytes > found.peak.bytes:
            found = _WorstRank(step=step, kinds=kinds, moments=moments, peak=peak)
    if found is None:
        message = "a job has at least one pipeline stage"
        raise AssertionError(message)
    return found


def _trainable(worst: _WorstRank) -> int:
    """Return the trainable parameters of the whole model, not of one rank."""
    layout = worst.step.job.parallelism
    if splits_layers(layout) or layout.pipeline_parallel_size > 1:
        return trainable_parameters(worst.step.job, worst.kinds)
    return worst.step.model.states.trainable


def memory_terms(job: TrainingJob) -> MemoryTerms:
    """Return the terms of one job, from which ``estimate_memory`` makes its peak."""
    worst = _worst(job)
    highest = _highest(worst.moments)
    return MemoryTerms(
        phases=tuple(
            phase_terms(highest[phase].components) for phase in PHASES if phase in highest
        ),
        upper=upper_terms(worst.step, worst.peak, COEFFICIENTS),
    )


def _highest(moments: list[Moment]) -> dict[Phase, Moment]:
    """Return the highest moment of each phase."""
    highest: dict[Phase, Moment] = {}
    for moment in moments:
        high = highest.get(moment.phase)
        if high is None or moment.bytes > high.bytes:
            highest[moment.phase] = moment
    return highest


def _of_phase(phase: Phase, moment: Moment, factors: Factors) -> PhaseBytes:
    components = with_factors(moment.components, factors)
    return PhaseBytes(
        phase=phase,
        allocated_bytes=moment.bytes
        if components is moment.components
        else sum(components.values()),
        components=_present(components),
        moment=moment.label,
    )


def _present(components: dict[Component, Bytes]) -> dict[Component, Bytes]:
    return {component: size for component, size in components.items() if size}


SAVED = (ACTIVATION, TEMPORARY, GRADIENT, LOGITS, DEQUANTIZED)
"""Tape categories that are saved tensors; autocast's weight copies are counted apart."""


def _saved_per_block(step: Step) -> Bytes:
    """Return what autograd keeps of one block of the last kind."""
    pieces = step.ledger.pieces
    if not pieces:
        return 0
    kept = pieces[-1].segment.kept
    return sum(kept[index] for index in SAVED)
