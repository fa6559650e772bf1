"""The head a checkpoint's class puts on a decoder: a language model's, a classifier's or none."""

from collections.abc import Mapping
from typing import NamedTuple

from vramgate.costmodel.architecture import ModelClass, Module, ModuleKind, Part, linear
from vramgate.costmodel.families.config import MAX_WIDTH, Config

DEFAULT_LABELS = 2  # transformers' num_labels where neither it nor id2label is given


class Head(NamedTuple):
    """What a model computes at its end, and with which modules."""

    model_class: ModelClass
    modules: tuple[Module, ...]


def class_name(config: Config) -> str:
    """Return the class the checkpoint was saved from (``architectures[0]``), or ""."""
    names = config.words("architectures")
    return names[0] if names else ""


def label_count(config: Config, *, default: int = DEFAULT_LABELS) -> int:
    """Return a classifier's number of classes.

    Raises:
        InvalidModelConfigError: it is no whole number within the bounds.
    """
    labels = config.maybe_whole("num_labels", at_most=MAX_WIDTH)
    if labels is not None:
        return labels
    _, named = config.get("id2label")
    if isinstance(named, Mapping) and 0 < len(named) <= MAX_WIDTH:
        return len(named)
    return default


def output_bias(path: str, size: int) -> Module:
    """Return the bias of a head whose weight is the embedding's."""
    return Module(
        path=path,
        part=Part.HEAD,
        kind=ModuleKind.PARAMETER,
        role="head_bias",
        out_features=size,
        bias=size,
    )


def language_model_head(
    path: str, hidden: int, rows: int, *, tied: bool, bias: bool = False, former_path: str = ""
) -> tuple[Module, ...]:
    """Return the projection to the vocabulary; tied, only its bias is a weight of its own."""
    if tied:
        return (output_bias(path, rows),) if bias else ()
    return (
        Module(
            path=path,
            part=Part.HEAD,
            kind=ModuleKind.LINEAR,
            role="head",
            in_features=hidden,
            out_features=rows,
            weight=hidden * rows,
            bias=rows if bias else 0,
            former_path=former_path,
        ),
    )


def decoder_head(config: Config, hidden: int, language_model: tuple[Module, ...]) -> Head:
    """Return a decoder's head: ``language_model``, unless its class has another or none.

    Raises:
        InvalidModelConfigError: ``architectures`` or the number of labels is malformed.
    """
    name = class_name(config)
    if name.endswith("ForSequenceClassification"):
        score = linear("score", Part.HEAD, "head", hidden, label_count(config))
        return Head(ModelClass.OTHER, (score,))
    if name.endswith("ForTokenClassification"):
        score = linear("score", Part.HEAD, "head", hidden, label_count(config), bias=True)
        return Head(ModelClass.OTHER, (score,))
    if name.endswith("ForQuestionAnswering"):
        span = linear("qa_outputs", Part.HEAD, "head", hidden, 2, bias=True)
        return Head(ModelClass.OTHER, (span,))
    if name.endswith("Model") and "Head" not in name and name != "ChatGLMModel":
        return Head(ModelClass.OTHER, ())
    return Head(ModelClass.CAUSAL, language_model)
