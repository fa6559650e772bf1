"""The ends of the two stacks of an encoder-decoder: how each begins, and the memory between them.

Called in this order: ``encoder_embedding``, the encoder's blocks (in ``encoder_setting``), ``memory_of``,
``decoder_embedding``, the decoder's blocks with that memory, and ``ends.last_hidden``.
Source: transformers 5.24 ``modeling_t5``, ``modeling_bart``, ``modeling_mbart``, ``modeling_m2m_100``,
``modeling_whisper``; exact traces of the first four.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import NormKind
from vramgate.costmodel.blocks.encoder_ends import convolved, looked_up
from vramgate.costmodel.blocks.ends import embedding
from vramgate.costmodel.blocks.norms import norm
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.operations import activation, add, dropout, scale
from vramgate.costmodel.tape import ACTIVATION, Tape, Tensor
from vramgate.costmodel.weights import Weight

Weights = dict[str, Weight]

HEARS = frozenset({"whisper"})
"""Families whose encoder reads a spectrogram of a fixed length, twice as many frames as it has positions."""
DROPS_OUT_MEMORY = frozenset({"t5", "mt5"})
"""Families with dropout behind the last norm of either stack."""


def encoder_setting(setting: Setting, weights: Weights) -> Setting:
    """Return the setting of the encoder's blocks: the decoder's, but for a fixed length of its own."""
    if setting.model_type not in HEARS:
        return setting
    length = weights["position_embedding"].in_features
    return replace(setting, sequence=length, tokens=setting.batch * length)


def encoder_embedding(
    tape: Tape, setting: Setting, weights: Weights, *, input_requires_grad: bool
) -> Tensor:
    """Return the encoder's stream before its first block; ``setting`` is the encoder's."""
    if setting.model_type in HEARS:
        return _spectrogram_embedded(tape, setting, weights)
    return embedding(tape, setting, weights, input_requires_grad=input_requires_grad)


def _spectrogram_embedded(tape: Tape, setting: Setting, weights: Weights) -> Tensor:
    """Return Whisper's stream: two convolutions, each with a GELU, the second of stride two, and positions."""
    first, second = weights["patch_embedding"], weights["patch_embedding#2"]
    mel = Tensor(
        2 * setting.tokens * first.in_features, first.width, ACTIVATION, requires_grad=False
    )
    tape.hold(mel)  # the input's own bytes are counted with the inputs
    wide = convolved(tape, mel, first, 2 * setting.tokens)
    activated = activation(tape, wide)
    tape.drop(wide)
    narrow = convolved(tape, activated, second, setting.tokens)
    tape.drop(activated)
    stream = activation(tape, narrow)
    tape.drop(narrow)
    places = Tensor(stream.elements, first.width, ACTIVATION, requires_grad=False)
    out = add(tape, stream, places)
    tape.drop(stream)
    dropped = dropout(tape, out, setting.architecture.embedding_dropout)
    tape.drop(out)
    return dropped


def memory_of(tape: Tape, setting: Setting, weights: Weights, stream: Tensor) -> Tensor:
    """Return the encoder's output as the decoder reads it; ``stream`` is let go."""
    architecture = setting.architecture
    hidden = stream
    final = weights.get("encoder_final_norm")
    if final is not None:
        kind = architecture.final_norm
        hidden = norm(
            tape, setting, NormKind.LAYER if kind is NormKind.NONE else kind, stream, final
        )
        tape.drop(stream)
    if setting.model_type not in DROPS_OUT_MEMORY:
        return hidden
    out = dropout(tape, hidden, architecture.embedding_dropout)
    tape.drop(hidden)
    return out


def decoder_embedding(tape: Tape, setting: Setting, weights: Weights) -> Tensor:
    """Return the decoder's stream before its first block: the shared embedding, positions and norm of its own."""
    architecture = setting.architecture
    stream = looked_up(tape, weights["embedding"], setting.tokens)
    if architecture.embedding_scaled:
        scaled = scale(tape, stream)
        tape.drop(stream)
        stream = scaled
    places = weights.get("position_embedding#2")
    if places is not None:
        rows = looked_up(tape, places, setting.sequence)
        total = add(tape, stream, rows)
        tape.drop(stream, rows)
        stream = total
    own_norm = weights.get("embedding_norm#2")
    if own_norm is not None:
        normed = norm(tape, setting, architecture.embedding_norm, stream, own_norm)
        tape.drop(stream)
        stream = normed
    out = dropout(tape, stream, architecture.embedding_dropout)
    tape.drop(stream)
    return out
