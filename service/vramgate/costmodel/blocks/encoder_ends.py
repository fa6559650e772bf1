"""The ends of encoders: BERT's sum of three embeddings and its masked-language head, ViT's patches and classifier.

Source: exact traces of BERT-large and ViT-L (transformers 5.24).
"""

from vramgate.costmodel.architecture import Module
from vramgate.costmodel.blocks.feed_forward import activate, activation_code
from vramgate.costmodel.blocks.norms import norm
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.dispatch import kept_index
from vramgate.costmodel.operations import add, cast, concatenate, dropout, split
from vramgate.costmodel.products import cast_weight, linear
from vramgate.costmodel.tape import ACTIVATION, Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes, Count

LABEL_BYTES = 8

Weights = dict[str, Weight]


def looked_up(tape: Tape, weight: Weight, rows: Count) -> Tensor:
    """Return ``rows`` rows of an embedding."""
    out = tape.new(rows * weight.out_features, weight.width, requires_grad=weight.trainable)
    if out.requires_grad:
        tape.record_saving(looked_up_backward, out, weight)
    return out


def looked_up_backward(tape: Tape, out: Tensor, weight: Weight) -> None:
    """Make the gradient of a whole embedding from that of its rows."""
    gradient = tape.take(out)
    if weight.trainable:
        size = weight.elements * weight.width
        tape.allocate(size)
        tape.keep_parameter_gradient(size)
    tape.release(gradient)


def with_token_types(tape: Tape, setting: Setting, weights: Weights, tokens: Tensor) -> Tensor:
    """Return BERT's embedding up to its dropout: tokens, their types and positions added up and normalised.

    The three are names of one function and live until it returns; ``tokens`` is let go with them.
    """
    types = looked_up(tape, weights["token_type_embedding"], setting.tokens)
    indices = kept_index(tape, setting.sequence)
    if types.requires_grad:
        tape.save(indices)
        tape.record_saving(_drop_indices, indices)
    typed = add(tape, tokens, types)
    total = typed
    names = [tokens, types, indices]
    if "position_embedding" in weights:
        places = looked_up(tape, weights["position_embedding"], setting.sequence)
        names.append(places)
        total = add(tape, typed, places)
        tape.drop(typed)
    architecture = setting.architecture
    normed = norm(tape, setting, architecture.embedding_norm, total, weights["embedding_norm"])
    tape.drop(total)
    out = dropout(tape, normed, architecture.embedding_dropout)
    tape.drop(normed, *names)
    return out


def _drop_indices(tape: Tape, indices: Tensor) -> None:
    tape.drop(indices)


def masked_head(tape: Tape, setting: Setting, weights: Weights, stream: Tensor) -> Tensor:
    """Return what a masked-language head projects to the vocabulary: dense, activation, norm; ``stream`` is let go."""
    shape = setting.architecture.decoder.blocks[-1].feed_forward
    dense = linear(tape, stream, weights["head_dense"])
    tape.drop(stream)
    name = "gelu" if shape is None else shape.activation
    activated = activate(tape, activation_code(setting, name), dense)
    tape.drop(dense)
    normed = norm(
        tape, setting, setting.architecture.embedding_norm, activated, weights["head_norm"]
    )
    tape.drop(activated)
    return normed


def image_input_bytes(setting: Setting, patch: Module) -> Bytes:
    """Return the bytes of a micro-batch's images and their labels; images come in the weights' format."""
    pixels = _pixels(setting, patch.weight // patch.out_features)
    return pixels * setting.stream_width + LABEL_BYTES * setting.batch


def _pixels(setting: Setting, per_patch: Count) -> Count:
    """Return the numbers in a micro-batch's images: each patch is one row of the convolution's input."""
    return setting.batch * (setting.sequence - 1) * per_patch


def patches_embedded(tape: Tape, setting: Setting, weights: Weights) -> Tensor:
    """Return the stream of a vision transformer: a convolution of the patches, the class token, positions."""
    weight = weights["patch_embedding"]
    pixels = _pixels(setting, weight.elements // weight.out_features)
    images = Tensor(pixels, weight.width, ACTIVATION, requires_grad=False)
    tape.hold(images)  # the input's own bytes are counted with the inputs
    patches = convolved(tape, images, weight, setting.batch * (setting.sequence - 1))
    token = Tensor(
        setting.batch * weight.out_features, weight.width, ACTIVATION, requires_grad=False
    )
    together = concatenate(tape, token, patches)
    places = Tensor(together.elements, weight.width, ACTIVATION, requires_grad=False)
    out = add(tape, together, places)
    tape.drop(together)
    dropped = dropout(tape, out, setting.architecture.embedding_dropout)
    tape.drop(out, patches)
    return dropped


def convolved(tape: Tape, x: Tensor, weight: Weight, rows: Count) -> Tensor:
    """Return ``rows`` positions of a convolution of ``x``; it keeps its input, cast where autocast casts it."""
    width = tape.compute_width if tape.autocast else weight.width
    source = cast(tape, x, width)
    kept_weight = cast_weight(tape, weight, width) if weight.width != width else None
    requires_grad = weight.trainable or x.requires_grad
    out = tape.new(rows * weight.out_features, width, requires_grad=requires_grad)
    if out.requires_grad:
        tape.save(source)
        tape.record_saving(_convolved_backward, out, source, weight, kept_weight)
    tape.drop(source)
    if kept_weight is not None:
        tape.drop(kept_weight)
    return out


def _convolved_backward(
    tape: Tape, out: Tensor, source: Tensor, weight: Weight, kept_weight: Tensor | None
) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(source.size) if source.requires_grad else None
    if weight.trainable and kept_weight is not None:
        tape.give(kept_weight, tape.new_gradient(kept_weight.size))
        bias_bytes = weight.bias_elements * weight.width
        tape.allocate(bias_bytes)
        tape.keep_parameter_gradient(bias_bytes)
    elif weight.trainable:
        size = weight.parameters * weight.width
        tape.allocate(size)
        tape.keep_parameter_gradient(size)
    tape.drop(source)
    tape.release(gradient)
    if made is not None:
        tape.give(source, made)


def first_token(tape: Tape, setting: Setting, hidden: Tensor, width: Count) -> Tensor:
    """Return each row's first token; its gradient comes back as zeros but for that token. ``hidden`` is let go."""
    (token,) = split(tape, hidden, (setting.batch * width,))
    tape.drop(hidden)
    return token
