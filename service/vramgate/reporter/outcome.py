"""How a run ended, told by the exception that ended it."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["running", "completed", "oom", "killed"]

_MOST_CAUSES = 8
# Host memory ran out, which says nothing about the card.
_HOST_WORDINGS = ("defaultcpuallocator", "not enough memory: you tried to allocate")
_CARD_WORDINGS = (
    "cuda out of memory",
    "cuda error: out of memory",
    "hip out of memory",
    "hip error: out of memory",
    "hip error: hiperroroutofmemory",
    "xpu out of memory",
    "npu out of memory",
    "mps backend out of memory",
    "mlu out of memory",
    "musa out of memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "cuda failure 2 'out of memory'",
    "cuda failure 'out of memory'",
    "cudaerrormemoryallocation",
    "cumemcreate failed: out of memory",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """An outcome, and the words of the out-of-memory error where there was one."""

    outcome: Outcome
    oom_message: str | None = None


def ending_of(error: BaseException | None) -> Ending:
    """Return how a run ended; no reference to the error is kept, as it holds tensors alive.

    >>> ending_of(None).outcome, ending_of(KeyboardInterrupt()).outcome
    ('completed', 'killed')
    >>> ending_of(RuntimeError("CUDA error: out of memory")).outcome
    'oom'
    >>> ending_of(RuntimeError("DefaultCPUAllocator: can't allocate memory")).outcome
    'killed'
    """
    if error is None:
        return Ending(outcome="completed")
    seen = error
    for _ in range(_MOST_CAUSES):
        if is_out_of_memory(seen):
            return Ending(outcome="oom", oom_message=str(seen))
        if seen.__cause__ is None:
            break
        seen = seen.__cause__
    return Ending(outcome="killed")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the accelerator's memory, not the host's, ran out.

    torch's own class is known by name, so that torch need not be imported to ask.
    """
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    if not isinstance(error, RuntimeError):
        return False
    words = str(error).lower()
    if any(wording in words for wording in _HOST_WORDINGS):
        return False
    return any(wording in words for wording in _CARD_WORDINGS)
