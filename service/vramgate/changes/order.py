"""ORDER: the kinds of changes as data, the smallest first; README.md says why in this order."""

from collections.abc import Callable
from dataclasses import dataclass

from vramgate.changes.batch import shorter_rows, smaller_batch
from vramgate.changes.change import ChangeKind, Edit
from vramgate.changes.checkpointing import more_checkpointing
from vramgate.changes.hardware import larger_card, more_devices
from vramgate.changes.kernels import allocator, attention, kernels, loss
from vramgate.changes.learning import smaller_method, smaller_states
from vramgate.changes.sharding import more_sharding, offloading
from vramgate.changes.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The changes of one kind, from the one that asks for least to the one that saves most."""

    kind: ChangeKind
    rungs: Callable[[Situation], tuple[Edit, ...]]
    relieves_weights: bool = False
    """Whether weights leave the card or shrink, or the card is a larger one."""


KEEPS_RESULTS = (
    Ladder(kind=ChangeKind.ALLOCATOR, rungs=allocator),
    Ladder(kind=ChangeKind.LOSS, rungs=loss),
    Ladder(kind=ChangeKind.ATTENTION, rungs=attention),
    Ladder(kind=ChangeKind.KERNELS, rungs=kernels),
    Ladder(kind=ChangeKind.BATCH, rungs=smaller_batch),
    Ladder(kind=ChangeKind.CHECKPOINTING, rungs=more_checkpointing),
    Ladder(kind=ChangeKind.SHARDING, rungs=more_sharding, relieves_weights=True),
    Ladder(kind=ChangeKind.OFFLOAD, rungs=offloading, relieves_weights=True),
)
"""Changes after which the same is learned, up to rounding; they may be taken together."""

CHANGES_LEARNING = (
    Ladder(kind=ChangeKind.OPTIMIZER, rungs=smaller_states),
    Ladder(kind=ChangeKind.METHOD, rungs=smaller_method, relieves_weights=True),
)
"""Changes of what is learned, which may be taken together with those that keep it."""

CHANGES_MORE = (
    Ladder(kind=ChangeKind.SEQUENCE, rungs=shorter_rows),
    Ladder(kind=ChangeKind.DEVICES, rungs=more_devices, relieves_weights=True),
    Ladder(kind=ChangeKind.ACCELERATOR, rungs=larger_card, relieves_weights=True),
)
"""Changes of the data or the hardware, each offered alone."""
