"""The framework and the versions a job runs on."""

from dataclasses import dataclass

from vramgate.costmodel.job import Software
from vramgate.jobs.description import SoftwareDescription
from vramgate.jobs.frameworks.defaults import FrameworkDefaults
from vramgate.jobs.frameworks.registry import (
    framework_defaults,
    framework_name,
    framework_names,
    near_frameworks,
)
from vramgate.jobs.ledger import Default, Ledger, off
from vramgate.jobs.stack import Stack, Version, parse_stack

# Which framework a stack text speaks of, the most telling component first.
_TELLING = (
    ("unsloth", "unsloth"),
    ("ms-swift", "ms-swift"),
    ("llamafactory", "llama_factory"),
    ("axolotl", "axolotl"),
    ("torchtune", "torchtune"),
    ("torchtitan", "torchtitan"),
    ("litgpt", "litgpt"),
    ("composer", "composer"),
    ("megatron", "megatron"),
    ("trl", "trl"),
    ("transformers", "transformers"),
    ("deepspeed", "deepspeed"),
)
_NONE_SAID = Default("transformers", "vramgate: the most common framework")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSoftware:
    """The framework's name and defaults, and the versions."""

    framework: str
    defaults: FrameworkDefaults
    stack: Stack
    value: Software
    said_stack: str
    """The stack's text with the inferred versions appended."""


def find_software(said: SoftwareDescription, ledger: Ledger) -> KnownSoftware:
    """Return framework, versions and defaults; what was not said is noted."""
    stack = parse_stack(said.stack)
    framework = _framework(said.framework, stack, ledger)
    for item in stack.inferred:
        ledger.note(
            "software.stack",
            f"{item.component} {item.version[0]}.{item.version[1]}",
            f"vramgate: {item.source}",
        )
    return KnownSoftware(
        framework=framework,
        defaults=framework_defaults(framework, said.stack),
        stack=stack,
        value=Software(
            framework=framework,
            torch=stack.torch,
            transformers=stack.transformers,
            peft=stack.peft,
            named=_stated(stack),
            expandable_segments=ledger.said_or(
                "software.expandable_segments",
                said.expandable_segments,
                off("torch default (PYTORCH_CUDA_ALLOC_CONF)"),
            ),
        ),
        said_stack=stack.completed(said.stack),
    )


def _stated(stack: Stack) -> tuple[tuple[str, Version], ...]:
    """Return the versions that were stated, not inferred."""
    return tuple(sorted(item for item in stack.named.items() if item[0] in stack.stated))


def _framework(said: str | None, stack: Stack, ledger: Ledger) -> str:
    if said is None:
        for component, framework in _TELLING:
            if component in stack.named:
                return ledger.take(
                    "software.framework", Default(framework, f"software.stack names {component}")
                )
        return ledger.take("software.framework", _NONE_SAID)
    known = framework_name(said)
    if known is not None:
        return known
    near = near_frameworks(said)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    ledger.warn(
        "unknown_framework",
        f"The defaults of {said[:80]!r} are not known; those of a plain PyTorch loop were taken."
        f"{meant} Known: {', '.join(framework_names())}.",
    )
    return ledger.take("software.framework", Default("torch", f"{said[:80]!r} is not known"))
