"""The embedding's table where more than one pass trains it: tied heads, encoder-decoders. What its gradients do."""

from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.head import has_logits, loss_in_use
from vramgate.costmodel.job import Loss, TrainingJob
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes


def head_is_tied(job: TrainingJob, outside: dict[str, Weight], *, last_stage: bool) -> bool:
    """Return whether this stage computes logits with the embedding's own table."""
    return last_stage and "head" not in outside and has_logits(job, outside)


def table_gradient(outside: dict[str, Weight], *, accumulating: bool) -> Bytes:
    """Return the bytes of the gradient that one pass through the embedding leaves."""
    table = outside.get("embedding")
    if table is None or not table.trainable or accumulating:
        return 0
    return table.elements * table.width


def gradients_are_views(job: TrainingJob, setting: Setting, outside: dict[str, Weight]) -> bool:
    """Return whether the tied head's gradient comes straight from a product, which the engine will not add to.

    The sum with the embedding's gradient is then made beside both.
    """
    table = outside.get("embedding")
    if table is None or loss_in_use(job) is Loss.FUSED_LINEAR:
        return False
    product = setting.compute_width if setting.autocast else setting.stream_width
    return table.width == product
