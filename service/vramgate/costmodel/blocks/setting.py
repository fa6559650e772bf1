"""Setting: what the blocks of a model need to know of the run they are part of."""

from dataclasses import dataclass

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.conditions import everywhere
from vramgate.costmodel.job import AttentionImplementation, Packing, Software
from vramgate.units import Count

BITSANDBYTES_FREES_INPUTS = (0, 43)
PINS_OLD_BITSANDBYTES = frozenset({"litgpt"})
"""Frameworks whose requirements pin bitsandbytes 0.41 or 0.42."""
TORCH_OF_OLD_BITSANDBYTES = (2, 2)
"""The newest torch that was current before bitsandbytes 0.43.2 (July 2024)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One micro-batch on one rank, in the numbers and words that blocks use."""

    architecture: ModelArchitecture
    batch: Count
    sequence: Count
    """Tokens of one row that this rank holds."""
    tokens: Count
    """batch × sequence."""
    stream_width: int
    """Bytes of an element of the residual stream."""
    table_width: int
    """Bytes of an element of the rotary tables and of an additive mask."""
    compute_width: int
    """Bytes of an element of the matrix products."""
    autocast: bool
    attention: AttentionImplementation
    packing: Packing
    fused_kernels: frozenset[str]
    software: Software
    recomputes: frozenset[str] = frozenset()
    """Parts of a block that selective checkpointing runs again, by Megatron's names."""
    context_ranks: int = 1
    """Ranks that share every sequence, attention included (context parallelism)."""
    whole_experts: bool = False
    """Experts are dealt out whole, so that each rank of a tensor group sends its own shard of the sequence to them."""
    sequence_ranks: int = 1
    """Ranks that share a sequence outside attention and feed-forward (Megatron's sequence parallelism)."""

    @property
    def one_row(self) -> bool:
        """Whether every batch is a single row: views that several rows would copy. Arrays must not mix both."""
        return everywhere(self.batch == 1)

    @property
    def is_array(self) -> bool:
        """Whether the counts are arrays of jobs."""
        return not isinstance(self.tokens, int)

    @property
    def padded(self) -> bool:
        """Whether the batch has an attention mask."""
        return self.packing is Packing.PADDED

    @property
    def saves_quantized_inputs(self) -> bool:
        """Whether bitsandbytes keeps the input of every 4-bit product (before 0.43.2, commit 9e753741)."""
        stated = self.software.stated("bitsandbytes")
        if stated is not None:
            return stated < BITSANDBYTES_FREES_INPUTS
        if self.software.framework in PINS_OLD_BITSANDBYTES:
            return True
        return self.software.torch <= TORCH_OF_OLD_BITSANDBYTES

    @property
    def transformers(self) -> tuple[int, int]:
        """The version of transformers whose modeling code runs."""
        return self.software.transformers

    @property
    def model_type(self) -> str:
        """The model type, for the rules that only one family's code has."""
        return self.architecture.model_type
