"""Launch: what somebody has that starts a training run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vramgate.launch.draft import Draft
from vramgate.launch.files import Files
from vramgate.launch.words import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a run starts: by one of ``command``, ``script``, ``manifest`` and ``config``.

    A trainer that tells of itself may know several: its words, and the settings they came to.
    """

    command: str | Sequence[str] | None = None
    """A line for a shell, or its words."""
    script: str | None = None
    """A shell script, of Slurm's or not."""
    manifest: str | Mapping[str, Any] | None = None
    """A Kubernetes object, as YAML or as it is."""
    framework: str | None = None
    config: str | Mapping[str, Any] | None = None
    """A framework's configuration, as text or as it is."""
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    model_config: Mapping[str, Any] | None = None
    """The model's ``config.json``, where whoever tells has it at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A trainer's program with its arguments, everything before it taken off."""

    program: str
    """As it was called: ``llamafactory-cli``, ``train.py``, ``trl.scripts.sft``."""
    words: tuple[Word, ...]
    """What follows it."""
    environment: Mapping[str, Word]
    source: str
    """Of the program: ``args[4]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every reader works with: the job so far, and the files that came along."""

    draft: Draft
    files: Files
