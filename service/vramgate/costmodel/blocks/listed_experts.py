"""Experts as a list of modules, run one by one: transformers 4, and every job with adapted or quantised experts there.

All experts do the same, so the first and the last are run and those between are counted as often as there are: what
they keep lies between the two, what they need for a moment is one expert's.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import Experts, FeedForward
from vramgate.costmodel.blocks.feed_forward import feed_forward
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.dispatch import INDEX, add_rows, pick, weighted
from vramgate.costmodel.operations import cast
from vramgate.costmodel.tape import ACTIVATION, CAST, CATEGORIES, GRADIENT, Tape, Tensor
from vramgate.costmodel.weights import Adapter, Weight
from vramgate.units import Bytes, Count, ceil_div

Weights = dict[str, Weight]

_ROLES = {
    "expert_gate": "gate",
    "expert_up": "up",
    "expert_gate_up": "gate_up",
    "expert_down": "down",
}


def listed_experts(
    tape: Tape,
    setting: Setting,
    shape: Experts,
    weights: Weights,
    hidden: Tensor,
    scores: Tensor,
) -> Tensor:
    """Return the weighted sum over each token's experts, one expert's tokens at a time."""
    one_hot = scores.elements * shape.num_experts * INDEX
    tape.allocate(one_hot)  # which expert is whose: whole numbers of 8 bytes
    zeros = tape.new(hidden.elements, max(hidden.width, scores.width), requires_grad=False)
    rows = ceil_div(scores.elements, shape.num_experts)
    before, saved_before = tape.by.copy(), tape.only_saved[CAST]
    total = _expert(tape, setting, shape, weights, hidden, scores, zeros, rows)
    tape.drop(zeros)
    kept = [tape.by[index] - before[index] for index in range(CATEGORIES)]
    saved_casts = tape.only_saved[CAST] - saved_before
    between = _Between(tape, kept, shape.num_experts - 2, saved_casts=saved_casts)
    tape.record_saving(between.backward)
    first = total
    total = _expert(tape, setting, shape, weights, hidden, scores, first, rows)
    tape.drop(first)
    tape.record(between.start)
    tape.free(one_hot)
    out = cast(tape, total, hidden.width)
    tape.drop(total)
    return out


class _Between:
    """The experts between the first and the last: their activations, weight casts and gradients, by count.

    A single expert is both the first and the last: the count is then -1 and takes one of them back.
    """

    def __init__(self, tape: Tape, kept: list[Bytes], count: Count, *, saved_casts: Bytes) -> None:
        """Let them keep ``kept`` each; ``saved_casts``: weight copies that operations hold, not autocast's cache."""
        self.count = count
        self.activations = tape.new_saved(count * kept[ACTIVATION], 1, category=ACTIVATION)
        self.saved_casts = tape.new_saved(count * saved_casts, 1, category=CAST)
        cached = count * (kept[CAST] - saved_casts)
        self.casts = tape.new(cached, 1, requires_grad=False, category=CAST)
        tape.casts[self] = self.casts
        self.gradients: Bytes = 0
        if tape.recording:
            tape.save(self.casts)

    def start(self, tape: Tape) -> None:
        """Remember the gradients that are there before the last expert runs backward."""
        self.gradients = tape.by[GRADIENT]

    def backward(self, tape: Tape) -> None:
        """Let the activations go and leave as many gradients as the last expert left, by count."""
        made = self.count * (tape.by[GRADIENT] - self.gradients)
        tape.drop(self.activations, self.saved_casts, self.casts)
        tape.allocate(made, GRADIENT)


def _expert(
    tape: Tape,
    setting: Setting,
    shape: Experts,
    weights: Weights,
    hidden: Tensor,
    scores: Tensor,
    total: Tensor,
    rows: Count,
) -> Tensor:
    """Return ``total`` with one expert's outputs added to its tokens' rows."""
    own = {name: one_expert(weights[role]) for role, name in _ROLES.items() if role in weights}
    columns = hidden.elements // (scores.elements // shape.experts_per_token)
    chosen = pick(tape, hidden, rows * columns, rows)
    dense = FeedForward(
        intermediate_size=shape.intermediate_size,
        gated=shape.gated,
        fused_gate_up="gate_up" in own,
        activation=shape.activation,
    )
    made = feed_forward(tape, setting, dense, own, chosen)
    tape.drop(chosen)
    own_scores = pick(tape, scores, rows, 2 * rows)
    product = weighted(tape, made, own_scores)
    tape.drop(made, own_scores)
    narrow = cast(tape, product, total.width)
    tape.drop(product)
    out = add_rows(tape, total, narrow, rows)
    tape.drop(narrow)
    return out


def one_expert(weight: Weight) -> Weight:
    """Return one of the equal weights an entry stands for, adapter included."""
    copies = weight.module.copies
    adapter = weight.adapter
    if adapter is not None:
        adapter = Adapter(
            a=_divided(adapter.a, copies),
            b=_divided(adapter.b, copies),
            dropout=adapter.dropout,
            magnitude_elements=adapter.magnitude_elements // copies,
            has_magnitude=adapter.has_magnitude,
        )
    return replace(_divided(weight, copies), adapter=adapter)


def _divided(weight: Weight, copies: int) -> Weight:
    return replace(
        weight,
        elements=weight.elements // copies,
        bias_elements=weight.bias_elements // copies,
        stored_bytes=weight.stored_bytes // copies,
    )
