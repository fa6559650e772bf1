"""Labels of a job: what jobs are alike in, as far as their memory may go wrong in the same way."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from vramgate.costmodel.job import TrainingJob

Labels: TypeAlias = Mapping["Label", str]


class Label(StrEnum):
    """A question that every job answers."""

    FRAMEWORK = "framework"
    VERSION = "version"
    """The framework's, where it was stated."""
    ARCHITECTURE = "architecture"
    """The accelerator's."""
    METHOD = "method"
    CHECKPOINTING = "checkpointing"
    ATTENTION = "attention"
    LOSS = "loss"
    SHARDING = "sharding"
    MODEL = "model"


UNKNOWN = "unknown"


def labels_of(job: TrainingJob, model: str) -> dict[Label, str]:
    """Return the labels of a job; ``model`` is the catalog's name of its model."""
    card, method = job.hardware.device, job.method
    version = job.software.stated(job.software.framework)
    return {
        Label.FRAMEWORK: job.software.framework,
        Label.VERSION: UNKNOWN if version is None else "{}.{}".format(*version),
        Label.ARCHITECTURE: UNKNOWN if card is None else (card.architecture or UNKNOWN),
        Label.METHOD: method.kind.value,
        Label.CHECKPOINTING: job.checkpointing.mode.value,
        Label.ATTENTION: job.attention.value,
        Label.LOSS: job.loss.value,
        Label.SHARDING: job.sharding.implementation.value,
        Label.MODEL: model,
    }
