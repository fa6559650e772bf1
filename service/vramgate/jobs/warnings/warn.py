"""warn_about: everything the fields of a job warn of."""

from collections.abc import Callable, Iterator

from vramgate.costmodel.breakdown import EstimateWarning
from vramgate.jobs.ledger import Ledger
from vramgate.jobs.rules.case import Case
from vramgate.jobs.warnings import cards, model, ranks, training

_WARNINGS: tuple[Callable[[Case], Iterator[EstimateWarning]], ...] = (
    cards.card_without_bf16,
    cards.card_without_format,
    cards.flash_attention_card,
    training.pure_fp16,
    training.beyond_trained_length,
    training.padding_free_attention,
    training.offloaded_checkpoints,
    ranks.fsdp_alone,
    ranks.unwrapped_fsdp,
    ranks.unsynchronised_fsdp,
    ranks.accelerate_upcast,
    ranks.ddp_on_one,
    ranks.few_micro_batches,
    ranks.uneven_stages,
    ranks.copied_heads,
    model.unmatched_targets,
    model.tied_head_adapters,
    model.foreign_weight_format,
)


def warn_about(case: Case, ledger: Ledger) -> None:
    """Add to the ledger what is known to mislead about a job."""
    for warning in _WARNINGS:
        ledger.warnings.extend(warning(case))
