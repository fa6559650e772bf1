"""The heads transformers puts on BERT-type encoders: masked language model, classifiers, pooler."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from vramgate.costmodel.architecture import ModelClass, Module, Part, linear
from vramgate.costmodel.families.config import Config, shown
from vramgate.costmodel.families.heads import (
    Head,
    class_name,
    label_count,
    language_model_head,
    output_bias,
)
from vramgate.costmodel.families.parts import norm


class HeadSizes(NamedTuple):
    """What a head is made for."""

    hidden: int
    embedding: int
    rows: int
    labels: int
    tied: bool


def head_linear(path: str, inputs: int, outputs: int, *, role: str = "head") -> Module:
    """Return a linear layer of a head, with bias."""
    return linear(path, Part.HEAD, role, inputs, outputs, bias=True)


def masked_head(
    sizes: HeadSizes, *, dense: str, norm_path: str, decoder: str, bias: str
) -> tuple[Module, ...]:
    """Return dense, norm and projection to the vocabulary; tied, the last is a bias only.

    Untied, transformers keeps the head's bias beside the projection's own, unless they are one.
    """
    width = sizes.embedding
    projection: tuple[Module, ...] = ()
    if not sizes.tied:
        projection = language_model_head(decoder, width, sizes.rows, tied=False, bias=True)
    if sizes.tied or bias != decoder:
        projection = (*projection, output_bias(bias, sizes.rows))
    return (
        head_linear(dense, sizes.hidden, width, role="head_dense"),
        norm(norm_path, "head_norm", width, bias=True),
        *projection,
    )


def _bert(name: str, sizes: HeadSizes) -> tuple[Module, ...]:
    """Return BERT's head of a class."""
    at = "cls.predictions"
    masked = masked_head(
        sizes,
        dense=f"{at}.transform.dense",
        norm_path=f"{at}.transform.LayerNorm",
        decoder=f"{at}.decoder",
        bias=at,
    )
    pooler = head_linear("bert.pooler.dense", sizes.hidden, sizes.hidden, role="pooler")
    if name.endswith("ForPreTraining"):
        return (pooler, *masked, head_linear("cls.seq_relationship", sizes.hidden, 2))
    if name.endswith(("ForSequenceClassification", "ForMultipleChoice")):
        labels = sizes.labels if "Sequence" in name else 1
        return (pooler, head_linear("classifier", sizes.hidden, labels))
    return masked


def _roberta(name: str, sizes: HeadSizes) -> tuple[Module, ...]:
    """Return RoBERTa's head of a class."""
    if name.endswith("ForSequenceClassification"):
        return _two_layer_classifier(sizes)
    return masked_head(
        sizes,
        dense="lm_head.dense",
        norm_path="lm_head.layer_norm",
        decoder="lm_head.decoder",
        bias="lm_head",
    )


def _two_layer_classifier(sizes: HeadSizes) -> tuple[Module, ...]:
    """Return the classifier of RoBERTa and ELECTRA."""
    return (
        head_linear("classifier.dense", sizes.hidden, sizes.hidden, role="pooler"),
        head_linear("classifier.out_proj", sizes.hidden, sizes.labels),
    )


def _electra(name: str, sizes: HeadSizes) -> tuple[Module, ...]:
    """Return ELECTRA's head of a class: generator, discriminator or classifier."""
    if name.endswith("ForSequenceClassification"):
        return _two_layer_classifier(sizes)
    if name.endswith(("ForMaskedLM", "ForCausalLM")):
        return masked_head(
            sizes,
            dense="generator_predictions.dense",
            norm_path="generator_predictions.LayerNorm",
            decoder="generator_lm_head",
            bias="generator_lm_head",
        )
    at = "discriminator_predictions"
    return (
        head_linear(f"{at}.dense", sizes.hidden, sizes.hidden, role="pooler"),
        head_linear(f"{at}.dense_prediction", sizes.hidden, 1),
    )


def _distilbert(name: str, sizes: HeadSizes) -> tuple[Module, ...]:
    """Return DistilBERT's head of a class."""
    if name.endswith("ForSequenceClassification"):
        return (
            head_linear("pre_classifier", sizes.hidden, sizes.hidden, role="pooler"),
            head_linear("classifier", sizes.hidden, sizes.labels),
        )
    return masked_head(
        sizes,
        dense="vocab_transform",
        norm_path="vocab_layer_norm",
        decoder="vocab_projector",
        bias="vocab_projector",
    )


def _deberta(name: str, sizes: HeadSizes) -> tuple[Module, ...]:
    """Return DeBERTa's head of a class."""
    if name.endswith("ForSequenceClassification"):
        return (
            head_linear("pooler.dense", sizes.hidden, sizes.hidden, role="pooler"),
            head_linear("classifier", sizes.hidden, sizes.labels),
        )
    return _bert("ForMaskedLM", sizes)


def _albert(name: str, sizes: HeadSizes) -> tuple[Module, ...]:
    """Return ALBERT's head of a class."""
    pooler = head_linear("albert.pooler", sizes.hidden, sizes.hidden, role="pooler")
    if name.endswith("ForSequenceClassification"):
        return (pooler, head_linear("classifier", sizes.hidden, sizes.labels))
    masked = masked_head(
        sizes,
        dense="predictions.dense",
        norm_path="predictions.LayerNorm",
        decoder="predictions.decoder",
        bias="predictions",
    )
    if name.endswith("ForPreTraining"):
        return (
            pooler,
            *masked,
            head_linear("sop_classifier.classifier", sizes.hidden, sizes.labels),
        )
    return masked


HEADS: Mapping[str, Callable[[str, HeadSizes], tuple[Module, ...]]] = {
    "bert": _bert,
    "roberta": _roberta,
    "electra": _electra,
    "distilbert": _distilbert,
    "deberta": _deberta,
    "albert": _albert,
}
# The bare class of these has a pooler: its path.
POOLERS = {"bert": "pooler.dense", "roberta": "pooler.dense", "albert": "pooler"}
_CLASSIFIERS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForPreTraining",
    "ForMaskedLM",
    "ForCausalLM",
    "LMHeadModel",
)


def encoder_head(
    config: Config, family: str, *, hidden: int, embedding: int, rows: int, tied: bool
) -> Head:
    """Return the head the class of the checkpoint has; no class named: a masked language model's.

    Raises:
        InvalidModelConfigError: the class is not one whose head is known.
    """
    name = class_name(config)
    sizes = HeadSizes(hidden, embedding, rows, label_count(config), tied)
    if name.endswith("Model") and "Head" not in name:
        pooled = family in POOLERS
        pooler = (head_linear(POOLERS[family], hidden, hidden, role="pooler"),) if pooled else ()
        return Head(ModelClass.OTHER, pooler)
    if name and not name.endswith(_CLASSIFIERS):
        config.refuse("architectures", f"the head of {shown(name)} is not known")
    if name.endswith("ForTokenClassification"):
        return Head(ModelClass.OTHER, (head_linear("classifier", hidden, sizes.labels),))
    if name.endswith("ForQuestionAnswering"):
        return Head(ModelClass.OTHER, (head_linear("qa_outputs", hidden, sizes.labels),))
    modules = HEADS[family](name or "ForMaskedLM", sizes)
    return Head(_model_class(name, family), modules)


def _model_class(name: str, family: str) -> ModelClass:
    """Return what the head computes."""
    if name.endswith(("ForCausalLM", "LMHeadModel")):
        return ModelClass.CAUSAL
    if name.endswith(("ForSequenceClassification", "ForMultipleChoice")):
        return ModelClass.OTHER
    if family == "electra" and not name.endswith("ForMaskedLM"):
        return ModelClass.OTHER
    return ModelClass.MASKED
