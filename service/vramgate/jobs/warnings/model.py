"""What names in the job do not say."""

from collections.abc import Iterator

from vramgate.costmodel.architecture import ModuleKind
from vramgate.costmodel.breakdown import EstimateWarning
from vramgate.jobs.lora_targets import all_paths, is_named, tied_head
from vramgate.jobs.method import ADAPTER_KINDS
from vramgate.jobs.rules.case import Case


def unmatched_targets(case: Case) -> Iterator[EstimateWarning]:
    """Names in target_modules that match nothing are passed over by peft, silently."""
    targets = case.job.method.target_modules
    if case.job.method.kind not in ADAPTER_KINDS or isinstance(targets, str):
        return
    paths = all_paths(case.job.architecture)
    idle = [name for name in targets if not any(is_named(path, (name,)) for path in paths)]
    if idle:
        yield EstimateWarning(
            code="unmatched_targets",
            message=f"target_modules {', '.join(idle)[:200]} match nothing in {case.model.name}; peft passes"
            " over them.",
        )


def tied_head_adapters(case: Case) -> Iterator[EstimateWarning]:
    """An adapter on a tied head, or on an embedding, is counted nowhere."""
    targets = case.job.method.target_modules
    if case.job.method.kind not in ADAPTER_KINDS or isinstance(targets, str):
        return
    embeddings = {m.path for m in case.job.architecture.outside if m.kind is ModuleKind.EMBEDDING}
    for path in sorted({*tied_head(case.job.architecture), *embeddings}):
        if is_named(path, targets):
            yield EstimateWarning(
                code="embedding_adapter",
                message=f"The adapter on {path} is small, but its products as wide as the vocabulary"
                " are not in the estimate.",
            )


def foreign_weight_format(case: Case) -> Iterator[EstimateWarning]:
    """Names such as -GGUF speak of files no trainer loads as they are."""
    words = case.model.weight_format
    if words and case.model.quantization is None:
        yield EstimateWarning(
            code="weight_format",
            message=f"The name speaks of weights in {words}; they train as the base model's do, in"
            " precision.weights.",
        )
