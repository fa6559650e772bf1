"""Changes of which code runs, the results alike: allocator, loss, attention, fused kernels."""

from vramgate.changes.change import ChangeKind, Edit
from vramgate.changes.offers import (
    FLASH_FRAMEWORKS,
    LIGER_FRAMEWORKS,
    LIGER_KERNELS,
    LIGER_MODELS,
    LIGER_SINCE,
    LOSSES,
    OWN_MODELS,
)
from vramgate.changes.situation import AMD, NVIDIA, Situation
from vramgate.costmodel.job import AttentionImplementation, Loss
from vramgate.jobs.attention_defaults import runs_transformers_code, transformers_attention
from vramgate.jobs.training import TASKS_WITHOUT_LOGITS
from vramgate.jobs.vocabulary import FusedKernel

EXPANDABLE_SINCE = (2, 1)
"""torch's first release that documents expandable_segments (``notes/cuda.rst``)."""
_FLASH_CAPABILITY = (8, 0)  # flash-attn README: Ampere and newer
_LEANNESS = (Loss.STANDARD, Loss.FUSED, Loss.CHUNKED, Loss.FUSED_LINEAR)


def allocator(situation: Situation) -> tuple[Edit, ...]:
    """Offer memory segments that grow, on NVIDIA's cards.

    Source: c10 ``cuda/CUDACachingAllocator.cpp``. ROCm builds ignored the setting until 2026 (pytorch
    pull request 177974), and later ones hang in it (issue 192259).
    """
    software = situation.job.software
    if software.expandable_segments or situation.vendor != NVIDIA:
        return ()
    if software.torch < EXPANDABLE_SINCE:
        return ()
    return (
        Edit(
            kind=ChangeKind.ALLOCATOR,
            sets=(("software.expandable_segments", True),),
            to="PYTORCH_CUDA_ALLOC_CONF to expandable_segments:True",
            why="segments grow page by page, so that less is lost between tensors",
            slowdown=1.0,
            cost="nothing: a setting of the allocator; the same kernels run",
        ),
    )


def loss(situation: Situation) -> tuple[Edit, ...]:
    """Offer the leanest loss of the framework, where the task computes logits."""
    job = situation.job
    best, tasks = LOSSES.get(situation.framework, (Loss.STANDARD, frozenset()))
    if job.task in TASKS_WITHOUT_LOGITS or job.task not in tasks:
        return ()
    if _LEANNESS.index(best) <= _LEANNESS.index(job.loss):
        return ()
    if best is Loss.FUSED_LINEAR and not _takes_liger(situation):
        return ()
    sets: list[tuple[str, object]] = [("loss", best)]
    if best is Loss.FUSED_LINEAR and FusedKernel.CROSS_ENTROPY in job.fused_kernels:
        # Liger refuses cross_entropy beside fused_linear_cross_entropy.
        kept = sorted(job.fused_kernels - {FusedKernel.CROSS_ENTROPY})
        sets.append(("fused_kernels", tuple(map(FusedKernel, kept))))
    return (
        Edit(
            kind=ChangeKind.LOSS,
            sets=tuple(sets),
            to=f"loss to {best.value}",
            why=_WHY[best],
            slowdown=1.0,
            cost="nothing: the same products, and fewer bytes as wide as the vocabulary to move",
        ),
    )


_WHY = {
    Loss.FUSED: "logits and their gradient share one tensor",
    Loss.CHUNKED: "a chunk of the logits at a time becomes fp32",
    Loss.FUSED_LINEAR: "the logits are never held whole",
}


def attention(situation: Situation) -> tuple[Edit, ...]:
    """Offer attention that keeps no score matrix, in place of eager code."""
    if situation.job.attention is not AttentionImplementation.EAGER:
        return ()
    lean = _lean_attention(situation)
    if lean is None:
        return ()
    return (
        Edit(
            kind=ChangeKind.ATTENTION,
            sets=(("attention", lean),),
            to=f"attention to {lean.value}",
            why="no matrix of every row against every key is kept",
            slowdown=1.0,
            cost="nothing: exact attention with fewer bytes to move (FlashAttention, arXiv 2205.14135)",
        ),
    )


def _lean_attention(situation: Situation) -> AttentionImplementation | None:
    flash, sdpa = AttentionImplementation.FLASH_2, AttentionImplementation.SDPA
    framework = situation.framework
    if framework in FLASH_FRAMEWORKS:
        return flash if _runs_flash(situation) else None
    if framework in OWN_MODELS:
        return sdpa
    kind = situation.job.architecture.model_type
    if transformers_attention(kind, situation.job.software.transformers) is sdpa:
        return sdpa
    # Its scores are capped, which flash-attn does and eager code is the other way to do.
    return flash if kind == "gemma2" and _runs_flash(situation) else None


def _runs_flash(situation: Situation) -> bool:
    device = situation.device
    capability = None if device is None else device.compute_capability
    return situation.vendor == NVIDIA and capability is not None and capability >= _FLASH_CAPABILITY


def kernels(situation: Situation) -> tuple[Edit, ...]:
    """Offer Liger's norms, rotations and gated products, which save less for backward."""
    present = situation.job.fused_kernels
    missing = set(LIGER_KERNELS) - present
    if situation.framework not in LIGER_FRAMEWORKS or not missing or not _takes_liger(situation):
        return ()
    wanted = tuple(sorted(map(FusedKernel, present | missing)))
    return (
        Edit(
            kind=ChangeKind.KERNELS,
            sets=(("fused_kernels", wanted),),
            to=f"fused_kernels to {', '.join(kernel.value for kernel in wanted)}",
            why="each saves its input alone for backward",
            slowdown=1.0,
            cost="nothing: the same operations in fewer passes (Liger, arXiv 2410.10989)",
        ),
    )


def _takes_liger(situation: Situation) -> bool:
    """Return whether Liger has kernels for the model, the card and the layout.

    axolotl's schema refuses it with tensor parallelism; Triton is for NVIDIA and AMD.
    """
    software = situation.job.software
    return (
        situation.job.architecture.model_type in LIGER_MODELS
        and situation.made_by(NVIDIA, AMD)
        and int(situation.job.parallelism.tensor_parallel_size) == 1
        and (
            not runs_transformers_code(situation.framework) or software.transformers >= LIGER_SINCE
        )
    )
