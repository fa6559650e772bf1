"""Which modules a LoRA adapts: peft's defaults, and ``target_modules`` against a model.

peft ``tuners/tuners_utils.py`` ``check_target_module_exists``: a list matches names or their dotted
ends, a string is a regular expression over the whole name, "all-linear" is every linear layer but
the head. peft runs any expression it is given; here it comes from strangers, so only expressions
that cannot take long are run.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from vramgate.costmodel.architecture import ModelArchitecture, ModuleKind, Part

ALL_LINEAR = "all-linear"
MAX_REPEATS = 4
"""Unbounded repeats in one branch of an expression; each multiplies the time by a name's length."""
BUDGET_SECONDS = 0.05

_QUERY_VALUE = ("q_proj", "v_proj")

# peft 0.21.2 utils/constants.py, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.
_BY_MODEL_TYPE: Mapping[str, str | tuple[str, ...]] = {
    "t5": ("q", "v"),
    "mt5": ("q", "v"),
    "bart": _QUERY_VALUE,
    "gpt2": ("c_attn",),
    "bloom": ("query_key_value",),
    "opt": _QUERY_VALUE,
    "gptj": _QUERY_VALUE,
    "gpt_neox": ("query_key_value",),
    "gpt_neo": _QUERY_VALUE,
    "bert": ("query", "value"),
    "roberta": ("query", "value"),
    "xlm-roberta": ("query", "value"),
    "electra": ("query", "value"),
    "deberta-v2": ("query_proj", "value_proj"),
    "deberta": ("in_proj",),
    "llama": _QUERY_VALUE,
    "llama4": _QUERY_VALUE,
    "chatglm": ("query_key_value",),
    "gpt_bigcode": ("c_attn",),
    "mpt": ("Wqkv",),
    "RefinedWebModel": ("query_key_value",),
    "RefinedWeb": ("query_key_value",),
    "falcon": ("query_key_value",),
    "codegen": ("qkv_proj",),
    "mistral": _QUERY_VALUE,
    "mixtral": _QUERY_VALUE,
    "stablelm": _QUERY_VALUE,
    "phi": ("q_proj", "v_proj", "fc1", "fc2"),
    "gemma": _QUERY_VALUE,
    "gemma2": _QUERY_VALUE,
    "gemma3_text": _QUERY_VALUE,
    "gemma4": r".*language_model\..*\.(q_proj|v_proj)",
    "qwen2": _QUERY_VALUE,
    "qwen3": _QUERY_VALUE,
    "nemotron_h": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "rwkv": ("key", "value", "receptance", "output"),
}

# Where transformers' models keep layer {}: their names decide what an expression matches.
_LAYER_PREFIXES = (
    "model.layers.{}.",
    "model.language_model.layers.{}.",
    "transformer.h.{}.",
    "transformer.blocks.{}.",
    "gpt_neox.layers.{}.",
    "model.decoder.layers.{}.",
    "model.encoder.layers.{}.",
    "encoder.block.{}.",
    "decoder.block.{}.",
    "bert.encoder.layer.{}.",
    "",
)


class UnsafePatternError(ValueError):
    """An expression that is not one, or that could take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternMatch:
    """What an expression adapts."""

    modules: tuple[str, ...]
    """Paths inside a block, and names outside the blocks."""
    layers: int
    """In how many of the layers it matches anything."""


def peft_targets(model_type: str) -> str | tuple[str, ...] | None:
    """Return the modules peft adapts where none are named; None: peft asks for them.

    >>> peft_targets("gpt2")
    ('c_attn',)
    """
    return _BY_MODEL_TYPE.get(model_type)


def block_paths(architecture: ModelArchitecture, *, stacked_experts: bool) -> tuple[str, ...]:
    """Return the paths inside the blocks that can be adapted, each once."""
    kinds = {ModuleKind.LINEAR, ModuleKind.CONV1D, ModuleKind.EMBEDDING}
    if not stacked_experts:
        kinds.add(ModuleKind.EXPERTS)
    return tuple(
        dict.fromkeys(
            module.path
            for stack in architecture.stacks
            for block in stack.blocks
            for module in block.modules
            if module.kind in kinds
        )
    )


def outside_paths(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Return the names outside the blocks that can be adapted: head, embedding, projector."""
    return tuple(
        module.path
        for module in architecture.outside
        if module.is_linear or module.kind is ModuleKind.EMBEDDING or module.part is Part.HEAD
    )


def is_named(path: str, names: tuple[str, ...]) -> bool:
    """Return whether a list of names adapts the module at a path, as peft matches ends.

    >>> is_named("self_attn.q_proj", ("q_proj",)), is_named("self_attn.qq_proj", ("q_proj",))
    (True, False)
    """
    full = f"model.layers.0.{path}"
    return any(path == name or full.endswith(f".{name}") or full == name for name in names)


def checked_pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression that runs in a bounded time on short names.

    Refused: repeated groups, look-around, back-references, more than four unbounded repeats.

    Raises:
        UnsafePatternError: it is no expression, or one of those.
    """
    reason = _danger(text)
    if reason:
        raise UnsafePatternError(reason)
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UnsafePatternError(f"it is no regular expression: {error}") from None


def _danger(text: str) -> str:
    """Return why an expression could take long; empty where it cannot."""
    before = ""
    for token in _tokens(text):
        if token.startswith("(?") and token != "(?:":
            return "look-around, flags and named groups are not run here"
        if token.startswith("\\") and token[1:].isdigit():
            return "back-references are not run here"
        if before == ")" and _repeats(token):
            return "a repeated group could take very long; write the names out"
        before = token
    if _most_repeats(text) > MAX_REPEATS:
        return f"more than {MAX_REPEATS} repeats could take very long"
    return ""


def _most_repeats(text: str) -> int:
    """Return the most repeats that can stand one after another on a way through an expression."""
    # Each open group: the most of its finished branches, and the count of the branch being read.
    groups = [[0, 0]]
    for token in _tokens(text):
        if token.startswith("("):
            groups.append([0, 0])
        elif token == "|" or (token == ")" and len(groups) > 1):
            most, count = groups[-1]
            groups[-1] = [max(most, count), 0]
            if token == ")":
                inner = groups.pop()[0]
                groups[-1][1] += inner
        elif _repeats(token):
            groups[-1][1] += 1
    return sum(max(group) for group in groups)


def _repeats(token: str) -> bool:
    return token in {"*", "+"} or (token.startswith("{") and token != "{")


_TOKEN = re.compile(r"\\\d+|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?:|\(\?.?|\{\d*,?\d*\}|.", re.DOTALL)


def _tokens(text: str) -> Iterator[str]:
    return (match[0] for match in _TOKEN.finditer(text))


@lru_cache(maxsize=1024)
def matched_modules(
    text: str, blocks: tuple[str, ...], outside: tuple[str, ...], layers: int
) -> PatternMatch:
    """Return what a regular expression adapts of a model with these paths and this many layers.

    Raises:
        UnsafePatternError: it is no expression, or it takes too long.
    """
    pattern = checked_pattern(text)
    deadline = time.monotonic() + BUDGET_SECONDS
    found: dict[str, None] = {}
    prefixes: set[str] = set()
    for prefix in _LAYER_PREFIXES:
        for layer in (0, 1, layers - 1):
            for path in blocks:
                if pattern.fullmatch(f"{prefix.format(layer)}{path}"):
                    found[path] = None
                    prefixes.add(prefix)
            if time.monotonic() > deadline:
                raise UnsafePatternError("it takes too long; write the names out as a list")
    found |= dict.fromkeys(name for name in outside if pattern.fullmatch(name))
    hit = sum(
        any(
            pattern.fullmatch(f"{prefix.format(layer)}{path}")
            for prefix in prefixes
            for path in found
        )
        for layer in range(layers if time.monotonic() < deadline else 0)
    )
    return PatternMatch(modules=tuple(found), layers=hit)
