"""Per-op selective checkpointing: which outputs of a block's operations are kept, the rest running again."""

from dataclasses import dataclass

from vramgate.costmodel.job import CheckpointMode, ShardingImplementation, TrainingJob
from vramgate.costmodel.tape import Tape
from vramgate.units import Bytes

CUDNN_ATTENTION_FROM = (10, 0)
"""From Blackwell on, sdpa runs cuDNN's kernel, which the save list did not name (before December 2025)."""
NOT_A_PLAIN_PRODUCT = frozenset({"nvfp4"})
"""Formats whose products are operations of their own, which the save list does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which outputs per-op selective checkpointing keeps: every second weight product, and attention.

    Source: torchtitan ``parallelize_llama.py`` (``_save_list``, ``mm_recompute_counts``) before and after 0.1.
    """

    products: bool = True
    last_product: bool = True
    """The compiler does not keep the block's last product: nothing of the block needs it."""
    attention: bool = True

    def selected_bytes(self, tape: Tape) -> Bytes:
        """Return the bytes kept of one block that ran on ``tape``."""
        size: Bytes = 0
        if self.products:
            chosen = tape.products[::2] if self.last_product else tape.products[:-1:2]
            size = sum(chosen)
        return size + tape.attention_bytes * (1 if self.attention else 0)


def per_op_selection(job: TrainingJob) -> Selection | None:
    """Return what per-op selective checkpointing keeps, None where the job does not use it.

    Megatron's selective mode, and any mode that names modules, recomputes those modules: see ``recomputation``.
    """
    checkpointing = job.checkpointing
    if checkpointing.mode is not CheckpointMode.SELECTIVE or checkpointing.modules:
        return None
    if job.sharding.implementation is ShardingImplementation.MEGATRON:
        return None
    card = job.hardware.device
    capability = card.compute_capability if card is not None else None
    return Selection(
        products=job.precision.linear not in NOT_A_PLAIN_PRODUCT,
        last_product=not job.compile,
        attention=capability is None or capability < CUDNN_ATTENTION_FROM,
    )
