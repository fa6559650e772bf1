"""Changes of how much goes through the model at once: smaller micro-batches, shorter rows."""

from vramgate.changes.change import ChangeKind, Edit
from vramgate.changes.situation import Situation
from vramgate.costmodel.architecture import ModelClass
from vramgate.costmodel.job import Task
from vramgate.jobs.rules.case import divisors
from vramgate.jobs.sharding import FSDP

MOST_ACCUMULATION = 2**20
"""What the interface takes as gradient_accumulation_steps."""
SHORTEST_SEQUENCE = 512
"""Below it a row holds too little of a document to learn from; guess."""
_LEAST_ROWS = {Task.KTO: 2}
"""TRL ``kto_trainer.py``: its KL term compares rows of one micro-batch."""


def smaller_batch(situation: Situation) -> tuple[Edit, ...]:
    """Offer each smaller divisor of the micro-batch, the steps raised so that a step sees the same rows.

    Embedding tasks are left out: their loss contrasts the rows of a micro-batch with each other.
    """
    job = situation.job
    rows, steps = int(job.micro_batch_size), int(job.gradient_accumulation_steps)
    if job.task is Task.EMBEDDING:
        return ()
    least = _LEAST_ROWS.get(job.task, 1)
    smaller = [size for size in divisors(rows) if least <= size < rows]
    return tuple(
        _batch_edit(situation, size, rows * steps // size)
        for size in reversed(smaller)
        if rows * steps // size <= MOST_ACCUMULATION
    )


def _batch_edit(situation: Situation, rows: int, steps: int) -> Edit:
    job = situation.job
    sets: list[tuple[str, object]] = [
        ("micro_batch_size", rows),
        ("gradient_accumulation_steps", steps),
    ]
    cost = (
        f"the same arithmetic in {steps} passes a step instead of {job.gradient_accumulation_steps}:"
        " slower where small products leave the card idle"
    )
    if job.sharding.implementation in FSDP and job.sharding.sync_each_micro_batch:
        # Accumulation would otherwise bring whole gradients with it (accelerate's no_sync).
        sets.append(("sharding.sync_each_micro_batch", True))
        cost = f"{cost}; gradients are reduced in each"
    return Edit(
        kind=ChangeKind.BATCH,
        sets=tuple(sets),
        to=f"micro_batch_size to {rows} with gradient_accumulation_steps {steps}",
        why="fewer rows are held at once, and a step sees as many",
        slowdown=None,
        cost=cost,
    )


def shorter_rows(situation: Situation) -> tuple[Edit, ...]:
    """Offer powers of two below the row's length; an image has as many patches as it has."""
    length = int(situation.job.sequence_length)
    if situation.job.architecture.model_class is ModelClass.IMAGE_CLASSIFIER:
        return ()
    longest = (length - 1).bit_length() - 1
    shortest = SHORTEST_SEQUENCE.bit_length() - 1
    return tuple(
        Edit(
            kind=ChangeKind.SEQUENCE,
            sets=(("sequence_length", 2**power),),
            to=f"sequence_length to {2**power}",
            why="fewer tokens are held at once",
            slowdown=None,
            cost=f"changes what is learned: nothing farther apart than {2**power} tokens, and fewer"
            " tokens a step",
        )
        for power in range(longest, shortest - 1, -1)
    )
