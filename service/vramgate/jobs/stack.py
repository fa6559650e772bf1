"""Versions of a software stack, read from free text such as "torch 2.13.0+cu130 / transformers 5.13.1".

Memory changes with versions, so each version nobody named is inferred: from the
releases of the time where another component dates the stack, else the newest known. The answer
says which.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

Version: TypeAlias = tuple[int, int]
"""(major, minor)."""

NEWEST: Mapping[str, Version] = {"torch": (2, 13), "transformers": (5, 24), "peft": (0, 21)}
"""The newest releases whose memory was traced."""

MAX_STACK_TEXT = 512
"""Longest text that a job may carry as its stack; ``completed`` never gives more."""

_ALIASES = {
    "pytorch": "torch",
    "bnb": "bitsandbytes",
    "swift": "ms-swift",
    "ms_swift": "ms-swift",
    "liger-kernel": "liger",
    "liger_kernel": "liger",
    "flash_attn": "flash-attn",
    "flash-attention": "flash-attn",
    "unsloth_zoo": "unsloth-zoo",
    "llama-factory": "llamafactory",
    "llama_factory": "llamafactory",
    "megatron-core": "megatron",
    "megatron_core": "megatron",
    "megatron-lm": "megatron",
    "mosaicml": "composer",
}
_NAMES = (
    "torch",
    "torchao",
    "torchtune",
    "torchtitan",
    "transformers",
    "peft",
    "trl",
    "accelerate",
    "deepspeed",
    "bitsandbytes",
    "unsloth",
    "unsloth-zoo",
    "ms-swift",
    "axolotl",
    "litgpt",
    "composer",
    "liger",
    "flash-attn",
    "llamafactory",
    "megatron",
    *_ALIASES,
)
_VERSION = re.compile(
    rf"(?<![\w-])(?P<name>{'|'.join(sorted(map(re.escape, _NAMES), key=len, reverse=True))})(?![\w-])"
    r"\s*(?:[=~<>!]=|[=~@:v]|version)?\s*v?(?:\d+\.\d+-)?(?P<major>\d{1,5})(?:\.(?P<minor>\d{1,3}|x)(?P<any>x?))?",
    re.IGNORECASE,
)

_ABOUT = "~"
"""Stands before a version that nobody stated."""
_NAMES_HEAD = re.compile(r"\bHEAD\b")

# What was newest while each torch release was: first month, torch, transformers, peft. Months of
# torch from its release notes, the others from the upload dates of their packages (peft's from its
# tags); after torch 2.9 the newest of all is taken.
_ERAS: tuple[tuple[int, Version, Version, Version], ...] = (
    (202210, (1, 13), (4, 26), (0, 1)),
    (202303, (2, 0), (4, 33), (0, 5)),
    (202310, (2, 1), (4, 37), (0, 7)),
    (202401, (2, 2), (4, 40), (0, 10)),
    (202404, (2, 3), (4, 43), (0, 11)),
    (202407, (2, 4), (4, 45), (0, 13)),
    (202410, (2, 5), (4, 48), (0, 14)),
    (202501, (2, 6), (4, 51), (0, 15)),
    (202504, (2, 7), (4, 54), (0, 16)),
    (202508, (2, 8), (4, 57), (0, 17)),
    (202510, (2, 9), (4, 57), (0, 18)),
    (202601, (2, 10), NEWEST["transformers"], NEWEST["peft"]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """A version nobody named."""

    component: str
    version: Version
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The versions of a run: those that decide memory complete, the others as far as they were named."""

    torch: Version
    transformers: Version
    peft: Version
    named: Mapping[str, Version]
    """Every component the text named."""
    stated: frozenset[str]
    """Those of them whose version the text gives as certain."""
    inferred: tuple[Inferred, ...]

    def version(self, component: str) -> Version | None:
        """Return a component's version where the text named it."""
        return self.named.get(component)

    def completed(self, text: str | None) -> str:
        """Return the text with what was inferred appended, so that it reads back to the same stack."""
        inferred = {item.component: item.version for item in self.inferred}
        parts = [text] if text else []
        completed = " / ".join([*parts, *_written(inferred, mark=_ABOUT)])
        if len(completed) <= MAX_STACK_TEXT:
            return completed
        said = _written(versions_in(text or ""))
        return " / ".join([*said, *_written(inferred, mark=_ABOUT)])


def _written(versions: Mapping[str, Version], *, mark: str = "") -> list[str]:
    return [f"{component} {mark}{major}.{minor}" for component, (major, minor) in versions.items()]


def approximate_in(text: str) -> frozenset[str]:
    """Return the components whose version the text gives as about ("torch ~2.13"): inferred, or a guess.

    >>> sorted(approximate_in("torch 2.9 / transformers ~4.57"))
    ['transformers']
    """
    about = (m["name"].lower() for m in _VERSION.finditer(text) if _ABOUT in m[0])
    return frozenset(_ALIASES.get(name, name) for name in about)


def _number(text: str | None, wildcard: str | None) -> int:
    # "1.x" and "1.1x" stand for the newest of their series.
    if not text:
        return 0
    if text.lower() == "x":
        return 99
    return int(text + "9" if wildcard else text)


def versions_in(text: str) -> dict[str, Version]:
    """Return the components that the text names with a version; the first mention of each counts.

    >>> versions_in("torch 2.13.0+cu130 / transformers 5.13.1 / peft 0.19.2.dev0")
    {'torch': (2, 13), 'transformers': (5, 13), 'peft': (0, 19)}
    >>> versions_in("transformers ~4.15-4.25, torch 1.1x, ms-swift 1.x")
    {'transformers': (4, 25), 'torch': (1, 19), 'ms-swift': (1, 99)}
    """
    found: dict[str, Version] = {}
    for match in _VERSION.finditer(text):
        name = match["name"].lower()
        version = (int(match["major"]), _number(match["minor"], match["any"]))
        found.setdefault(_ALIASES.get(name, name), version)
    return found


def _era(named: Mapping[str, Version]) -> tuple[str, tuple[int, Version, Version, Version]] | None:
    """Return what dates the stack and the era it dates to, or None where nothing does."""
    columns = (("torch", 1), ("transformers", 2), ("peft", 3))
    for component, column in columns:
        if component in named:
            eras = [era for era in _ERAS if era[column] <= named[component]]  # type: ignore[operator]
            return component, (eras[-1] if eras else _ERAS[0])
    if "unsloth" in named:  # its versions are dates: 2024.9
        year, month = named["unsloth"]
        eras = [era for era in _ERAS if era[0] <= 100 * year + month]
        return "unsloth", (eras[-1] if eras else _ERAS[0])
    return None


@lru_cache(maxsize=1024)
def parse_stack(text: str | None) -> Stack:
    """Return the versions that the text names, the missing ones inferred.

    >>> stack = parse_stack("torch 2.1.1, ms-swift 1.x")
    >>> stack.transformers, stack.inferred[0].source
    ((4, 37), 'newest release when torch 2.1 was current')
    >>> parse_stack(None).transformers
    (5, 24)
    """
    named = versions_in(text or "")
    era = _era(named)
    if era is not None and era[0] == "torch" and _NAMES_HEAD.search(text or ""):
        # Requirements at a branch's head bound the run from above; its torch release dates it.
        for component, index in (("transformers", 2), ("peft", 3)):
            if component in named and named[component] > era[1][index]:  # type: ignore[operator]
                del named[component]
    versions: dict[str, Version] = {}
    inferred: list[Inferred] = []
    for index, component in enumerate(("torch", "transformers", "peft"), start=1):
        if component in named:
            versions[component] = named[component]
            continue
        if era is None:
            version, source = NEWEST[component], "newest release known"
        else:
            by, row = era
            version = row[index]  # type: ignore[assignment]
            said = ".".join(map(str, named[by]))
            source = f"newest release when {by} {said} was current"
            if version == NEWEST[component] or row == _ERAS[-1]:
                version, source = NEWEST[component], "newest release known"
        versions[component] = version
        inferred.append(Inferred(component=component, version=version, source=source))
    return Stack(
        torch=versions["torch"],
        transformers=versions["transformers"],
        peft=versions["peft"],
        named=named,
        stated=frozenset(named) - approximate_in(text or ""),
        inferred=tuple(inferred),
    )
