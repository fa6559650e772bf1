"""The router of a mixture of experts: from hidden states to a score for each chosen expert.

Source: the routers of transformers 5.24's modeling files, and exact traces of Mixtral, Qwen 3 and DeepSeek V2.
"""

from vramgate.costmodel.architecture import Experts
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.dispatch import normalise_scores, top_scores
from vramgate.costmodel.operations import FP32, activation, cast
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Count

FP32_ROUTER = frozenset(
    {
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "kimi_k2",
        "glm4_moe",
        "glm4_moe_lite",
        "glm_moe_dsa",
        "ernie4_5_moe",
        "nemotron_h",
    }
)
"""Families whose router casts the hidden states (and its weight) to fp32 before its product."""
SIGMOID_ROUTER = frozenset(
    {
        "deepseek_v3",
        "deepseek_v32",
        "kimi_k2",
        "glm4_moe",
        "glm4_moe_lite",
        "glm_moe_dsa",
        "nemotron_h",
    }
)
"""Families that score with a sigmoid, which autocast does not raise to fp32."""
CHOOSES_ON_LOGITS = frozenset({"gpt_oss", "granitemoe", "granitemoehybrid", "granitemoeshared"})
"""Families that take the highest logits first and a softmax of those."""
KEEPS_FP32_SCORES = frozenset(
    {
        "mixtral",
        "minimax",
        "minimax_m2",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "kimi_k2",
        "glm4_moe",
        "glm4_moe_lite",
        "glm_moe_dsa",
        "nemotron_h",
    }
)
"""Families whose scores stay in fp32, which raises the weighting of the experts' outputs (transformers 5)."""
FP32_SCORES_IN_LISTS = KEEPS_FP32_SCORES - {"mixtral", "minimax", "minimax_m2"}
"""The same where experts are a list of modules (transformers 4)."""
UNNORMALISED = frozenset({"deepseek_v2", "jamba", "phimoe", "olmoe"})
"""Families whose published models leave the chosen scores as they are."""


def route(
    tape: Tape,
    setting: Setting,
    shape: Experts,
    weight: Weight,
    hidden: Tensor,
    *,
    fp32_scores: frozenset[str],
) -> Tensor:
    """Return the scores of each token's chosen experts, tokens × experts_per_token.

    What the router's function returns besides them lives to the end of the block.
    """
    rows = hidden.elements // weight.in_features
    chosen = rows * shape.experts_per_token
    logits = _logits(tape, setting, weight, hidden)
    tape.leave_to_block(logits)
    if setting.model_type in CHOOSES_ON_LOGITS:
        scores = top_scores(tape, logits, chosen)
        out = _probabilities(tape, setting, scores)
        tape.drop(scores)
    else:
        probabilities = _probabilities(tape, setting, logits)
        out = top_scores(tape, probabilities, chosen)
        tape.drop(probabilities)
        out = _normalised(tape, setting, out, rows)
    width = out.width if setting.model_type in fp32_scores else _own_width(tape, logits, hidden)
    final = cast(tape, out, width)
    tape.drop(out)
    return final


def _logits(tape: Tape, setting: Setting, weight: Weight, hidden: Tensor) -> Tensor:
    if setting.model_type not in FP32_ROUTER:
        return linear(tape, hidden, weight)
    wide = cast(tape, hidden, FP32)
    logits = linear(tape, wide, weight)
    tape.drop(wide)
    return logits


def _probabilities(tape: Tape, setting: Setting, logits: Tensor) -> Tensor:
    """Return the softmax (or sigmoid) of the logits in fp32; it keeps its output."""
    own = setting.model_type in SIGMOID_ROUTER or setting.model_type == "gpt_oss"
    wide = cast(tape, logits, logits.width if own else FP32)
    out = activation(tape, wide, saves_output=True)
    tape.drop(wide)
    return out


def _normalised(tape: Tape, setting: Setting, scores: Tensor, rows: Count) -> Tensor:
    if setting.model_type in UNNORMALISED:
        return scores
    out = normalise_scores(tape, scores, rows)
    tape.drop(scores)
    return out


def _own_width(tape: Tape, logits: Tensor, hidden: Tensor) -> int:
    """Return the width scores are cast back to: that of the router's product."""
    return logits.width if tape.autocast else min(logits.width, hidden.width)
