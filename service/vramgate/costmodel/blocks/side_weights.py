"""Weights a block holds whose operations are not followed: their gradients count, their activations are small.

Gates, scales and biases of a row or a column, Gemma 3n's side streams, the indexers of sparse attention,
DeepSeek V4's compressors and hyper-connections, DeBERTa's positions, BitNet's inner norms.
"""

from vramgate.costmodel.norm_operations import vector_gradient
from vramgate.costmodel.tape import Tape
from vramgate.costmodel.weights import Weight

SIDE_ROLES = frozenset(
    {
        "activation_parameter",
        "altup",
        "altup_norm",
        "attention_sub_norm",
        "compressor",
        "compressor_norm",
        "feed_forward_sub_norm",
        "gate_parameter",
        "hyper_connection",
        "index_key",
        "index_key_norm",
        "index_query",
        "index_weights",
        "laurel",
        "laurel_norm",
        "per_layer_gate",
        "per_layer_norm",
        "per_layer_projection",
        "position_key",
        "position_query",
        "query_bias",
        "receptance",
        "router_bias",
        "router_scale",
        "value_bias",
    }
)


def leave_side_gradients(tape: Tape, weights: dict[str, Weight]) -> None:
    """Let the gradients of a block's side weights, or of their adapters, be there when its backward ends."""
    for role, weight in weights.items():
        if role.split("#")[0] not in SIDE_ROLES:
            continue
        vector_gradient(tape, weight)
        if weight.adapter is not None:
            vector_gradient(tape, weight.adapter.a)
            vector_gradient(tape, weight.adapter.b)
