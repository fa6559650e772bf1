"""What a program's name and words tell: whose it is, and whether it trains."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from vramgate.launch.files import Files
from vramgate.launch.reading import Found
from vramgate.launch.words import Word

_DEPTH = 4  # parts of trl/experimental/scripts/x.py
_SEEN = 65_536  # characters of a file that are looked through


class Confidence(IntEnum):
    """How sure it is that a program trains."""

    PERHAPS = 1
    """Some script of Python's."""
    SURELY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A program that trains, or may."""

    framework: str
    confidence: Confidence = Confidence.SURELY
    starts_processes: bool = False
    """Whether it starts itself once for each device, without a launcher."""


_CONSOLES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("llamafactory-cli", "lmf"), ("llama_factory", "train")),
    "axolotl": ("axolotl", "train"),
    "tune": ("torchtune", "run"),
    "trl": ("trl", "sft dpo kto reward grpo rloo"),
    "litgpt": (
        "litgpt",
        "finetune finetune_lora finetune_full finetune_adapter finetune_adapter_v2 pretrain",
    ),
    "swift": ("ms-swift", "sft pt rlhf"),
}
"""Programs with subcommands: their framework, and the subcommands that train."""

_CONSOLE_MODULES: Mapping[str, str] = {
    "llamafactory.cli": "llamafactory-cli",
    "axolotl.cli.main": "axolotl",
    "torchtune._cli.tune": "tune",
    "trl.cli": "trl",
    "trl.cli.main": "trl",
    "litgpt": "litgpt",
    "litgpt.__main__": "litgpt",
    "swift.cli.main": "swift",
}
"""The same programs as modules."""

_MODULES: Mapping[str, str] = {
    "llamafactory.launcher": "llama_factory",
    "axolotl.cli.train": "axolotl",
    **{f"trl.scripts.{name}": "trl" for name in ("sft", "dpo", "kto", "reward", "grpo", "rloo")},
    **{
        f"litgpt.{name}": "litgpt"
        for name in (
            "finetune.lora",
            "finetune.lora_legacy",
            "finetune.full",
            "finetune.adapter",
            "finetune.adapter_v2",
            "pretrain",
        )
    },
    "torchtitan.train": "torchtitan",
    **{f"swift.cli.{name}": "ms-swift" for name in ("sft", "pt", "rlhf")},
}
"""Modules, and scripts by the end of their path, that each rank runs."""

_SCRIPTS: Mapping[str, str] = {
    "src/train.py": "llama_factory",
    "train_bash.py": "llama_factory",
    **dict.fromkeys(("llm_sft.py", "llm_pt.py"), "ms-swift"),
    "run_train.sh": "torchtitan",
    **{
        f"examples/scripts/{name}.py": "trl"
        for name in (
            *("sft", "dpo", "kto", "grpo", "rloo", "reward_modeling", "sft_vlm", "dpo_vlm"),
            *("orpo", "cpo", "bco", "gkd", "prm", "online_dpo", "nash_md", "xpo"),
        )
    },
    **{f"run_{name}.py": "trl" for name in ("sft", "dpo", "orpo", "kto", "grpo")},
    **{f"{name}.py": "trl" for name in ("sft", "dpo", "kto", "grpo", "rloo", "reward_modeling")},
}
"""Scripts by the end of their path."""

_TORCHTUNE = re.compile(
    r"(?:qat_|early_exit_)?(?:full|lora|knowledge_distillation|ppo|dev/)\w*_(?:single_device|distributed)"
    r"|qat_distributed"
)
_MEGATRON = re.compile(
    r"pretrain_(?:gpt|bert|t5|llama\w*|mamba|hybrid|retro|vlm|ict|vision\w*)\.py"
)
_TRAINS = re.compile(
    r"(?:^|[_\W])(?:train|trainer|training|pretrain|finetune|finetuning|fine_tune|fine_tuning|sft|dpo|lora"
    r"|qlora|run_clm|run_mlm|run_\w*_no_trainer)(?:[_\W]|$)"
)
_PREPARES = re.compile(
    r"(?:^|[_\W])(?:preprocess|prepare|tokenize|convert|download|upload|merge|export|eval|evaluate|evaluation"
    r"|infer|inference|generate|serve|server|demo|setup|plot|dataset|data|chat|test|install|push|benchmark)(?:[_\W]|$)"
)
_TOOL_NAMES = """
pip venv http json pytest torch ray vllm sglang nltk spacy bitsandbytes deepspeed ipykernel jupyter
tensorboard wandb huggingface_hub lm_eval lighteval cProfile pdb timeit site sysconfig zipfile black
"""
_TOOLS = frozenset(_TOOL_NAMES.split())
"""Packages whose modules do not train."""
_HF_WORDS = frozenset(
    {
        *("--output_dir", "--per_device_train_batch_size", "--num_train_epochs"),
        *("--learning_rate", "--do_train", "--max_steps", "--report_to"),
    }
)


def recognise(
    program: str, words: Sequence[Word], files: Files, *, is_python: bool = False
) -> Recognised | None:
    """Return whose program it is; None where it does not train.

    ``program`` is a console program, a path, or a module as Python was given it.
    """
    console = _console(program)
    if console is not None:
        framework, subcommands = _CONSOLES[console]
        if not words or words[0].text not in subcommands.split():
            return None
        return Recognised(framework=framework, starts_processes=True)
    named = _by_name(program, words, files)
    if named is not None:
        return Recognised(framework=named)
    if not (is_python or program.endswith(".py")) or _root(program) in _TOOLS:
        return None
    worded = _by_words(words)
    return _plain_script(program) if worded is None else Recognised(framework=worded)


def _root(program: str) -> str:
    """Return a module's package: ``torch.utils.collect_env`` is of ``torch``."""
    return "" if program.endswith(".py") else program.partition(".")[0]


def _console(program: str) -> str | None:
    name = posixpath.basename(program)
    if name in _CONSOLES:
        return name
    return next(
        (_CONSOLE_MODULES[one] for one in dotted_ends(program) if one in _CONSOLE_MODULES), None
    )


def dotted_ends(program: str) -> Iterator[str]:
    """Yield the module names that a script's path may stand for, and a module's own name.

    >>> list(dotted_ends("/env/site-packages/trl/scripts/sft.py"))[2]
    'trl.scripts.sft'
    """
    if not program.endswith(".py"):
        yield program
        return
    parts = program.removesuffix(".py").split("/")
    for count in range(1, min(_DEPTH, len(parts)) + 1):
        yield ".".join(parts[-count:])


def _by_name(program: str, words: Sequence[Word], files: Files) -> str | None:
    module = next((one for one in dotted_ends(program) if "." in one and one in _MODULES), None)
    if module is not None:
        return _MODULES[module]
    path = f"/{program}"
    if path.endswith("/src/train.py") and not _is_llama_factory(words, files):
        return None
    for end, framework in _SCRIPTS.items():
        if path.endswith(f"/{end}"):
            return framework
    name = posixpath.basename(program)
    if _MEGATRON.fullmatch(name):
        return "megatron"
    if _TORCHTUNE.fullmatch(name.removesuffix(".py")):
        return "torchtune"
    return None


def _is_llama_factory(words: Sequence[Word], files: Files) -> bool:
    """Tell LLaMA-Factory's ``src/train.py`` from others': by its own options, or by its YAML."""
    texts = {word.text.partition("=")[0].lstrip("-").replace("-", "_") for word in words}
    if {"stage", "finetuning_type"} & texts:
        return True
    first = words[0] if words else None
    if first is None or not first.text.endswith((".yaml", ".yml", ".json")):
        return False
    found = files.find(first)
    if not isinstance(found, Found):
        return True
    text = found.value.text[:_SEEN]
    return "finetuning_type" in text or "cutoff_len" in text


def _by_words(words: Sequence[Word]) -> str | None:
    texts = {word.text.partition("=")[0] for word in words if word.text[:1] == "-"}
    names = {text.replace("_", "-") for text in texts}
    if {"--num-layers", "--micro-batch-size"} <= names:
        return "megatron"
    if {"--stage", "--finetuning-type"} <= names:
        return "llama_factory"
    if "--job.config-file" in names or {"--module", "--config"} <= names:
        return "torchtitan"
    if "--deepspeed-config" in names:
        return "deepspeed"
    if "--deepspeed" in names:
        return _deepspeed_or_trainer(words, texts)
    return None


def _deepspeed_or_trainer(words: Sequence[Word], texts: set[str]) -> str:
    """Tell DeepSpeed's own ``--deepspeed``, a switch, from the Trainer's, which names a file."""
    for index, word in enumerate(words):
        if word.text == "--deepspeed":
            behind = words[index + 1].text if index + 1 < len(words) else "-"
            if behind.startswith("-"):
                return "deepspeed"
    return "transformers" if texts & _HF_WORDS else "deepspeed"


def _plain_script(program: str) -> Recognised | None:
    """Return a script of one's own as one of transformers', unless its name says it prepares."""
    name = posixpath.basename(program).removesuffix(".py").lower()
    if _TRAINS.search(name):
        return Recognised(framework="transformers")
    if _PREPARES.search(name):
        return None
    return Recognised(framework="transformers", confidence=Confidence.PERHAPS)
