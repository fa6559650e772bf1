"""How a model's name in the wild is read: which model it is, and how that was packed.

``unsloth/Qwen2.5-Coder-7B-Instruct-bnb-4bit`` is the identity ``qwen 2.5 coder 7b``, tuned, in
4-bit NF4. Two names mean one model only if their identities are equal word by word: sizes (7b,
8x7b), generations (3, 3.1) and every word not known to be packaging belong to it. Reading is pure
text; ``models.py`` knows the models.
"""

import re
from dataclasses import dataclass

from vramgate.catalog.weight_formats import WeightFormat, is_format_word, stated_weight_format

NAME_LIMIT = 400
"""Characters of a name that are read; a repository's has at most 96, a path may be longer."""

_HUB_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/|hf://", re.IGNORECASE
)
_HUB_CACHE = re.compile(r"(?:^|/)models--([^/]+?)--([^/]+)")
_AFTER_NAME = re.compile(r"/(?:tree|blob|resolve)/.*$")
_REVISION = re.compile(r"@[\w.-]+$")
_GENERIC_FOLDER = re.compile(
    r"checkpoint-\d+|snapshots|[0-9a-f]{40}|original|final|hf|hf_model|model|weights|latest",
    re.IGNORECASE,
)
_PATH_START = re.compile(r"[/~.$]|[a-zA-Z]:/|file:")

_GGUF_QUANT = re.compile(r"(?<![a-z0-9])i?q[1-8](?:_[0-9a-z]+){1,2}(?![a-z0-9])")
_BITS = re.compile(r"(?<![\d.])([2-8])[-_ ]?bits?(?![a-z0-9])")
_MONTH_AND_YEAR = re.compile(r"(?<!\d)(0[1-9]|1[0-2])[-_](20\d\d)(?!\d)")
_UNDERSCORE_POINT = re.compile(r"(?<=\d)_(?=\d)")
_SEPARATOR = re.compile(r"[^a-z0-9.]+|\.(?!\d)|(?<!\d)\.")
_PIECE = re.compile(r"\d+(?:\.\d+)*(?:x\d+(?:\.\d+)*)?[a-z]*|[a-z]+")
_VERSION = re.compile(r"v(\d+(?:\.\d+)*)")
_DATE = re.compile(r"(?:2[3-9](?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))")
_SIZE = re.compile(r"\d+(?:\.\d+)*(?:x\d+(?:\.\d+)*)?[bm]")

_TUNED = frozenset(
    {
        "instruct",
        "inst",
        "instruction",
        "chat",
        "it",
        "sft",
        "dpo",
        "ppo",
        "rlhf",
        "orpo",
        "kto",
        "thinking",
        "think",
        "reasoning",
    }
)
_PRETRAINED = frozenset({"pt", "pretrained"})
_CONVERTED = frozenset({"hf", "ms", "safetensors"})
_SIZE_WORDS = frozenset(
    {
        "nano",
        "micro",
        "tiny",
        "mini",
        "small",
        "medium",
        "large",
        "xl",
        "xxl",
        "huge",
        "giant",
        "xsmall",
        "xlarge",
        "lite",
    }
)
_OWNERS = {"meta": "llama", "nvidia": "nemotron", "c4ai": "command", "ai21": "jamba"}
"""An owner's name that some write before the family's: Meta-Llama-3-8B is Llama-3-8B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a name points: a repository on a hub, or a folder whose last part names the model."""

    organisation: str | None
    bare: str
    is_path: bool

    @property
    def repository(self) -> str:
        """The name with its organisation, where it has one."""
        return self.bare if self.organisation is None else f"{self.organisation}/{self.bare}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """A bare name taken apart."""

    identity: tuple[str, ...]
    version: str | None
    date: str | None
    tuned: bool
    converted: bool
    weight_format: WeightFormat | None

    @property
    def has_size(self) -> bool:
        """Whether the identity holds a parameter count (7b, 8x7b, 135m)."""
        return any(_SIZE.fullmatch(word) for word in self.identity)


def locate(name: str) -> Location:
    """Return the repository or folder that text names.

    Understands hub addresses, revisions, the hub's cache folders and local paths; folders that name
    no model (``checkpoint-500``, ``snapshots/…``) are passed over.

    >>> locate("/scratch/hf/hub/models--google--gemma-2b/snapshots/main").repository
    'google/gemma-2b'
    >>> locate("./Llama-3.1-8B-Instruct/checkpoint-500").bare
    'Llama-3.1-8B-Instruct'
    """
    text = name.strip().replace("\\", "/")
    cached = _HUB_CACHE.search(text)
    if cached is not None:
        return Location(organisation=cached[1], bare=cached[2], is_path=False)
    address = _HUB_ADDRESS.match(text)
    if address is not None:
        text = _AFTER_NAME.sub("", text[address.end() :])
    text = _REVISION.sub("", text)
    parts = [part for part in text.split("/") if part not in {"", ".", ".."}]
    is_path = _PATH_START.match(text) is not None or len(parts) > len(("organisation", "name"))
    while len(parts) > 1 and is_path and _GENERIC_FOLDER.fullmatch(parts[-1]):
        parts.pop()
    if len(parts) > 1 and not any(character.isalpha() for character in parts[-1]):
        parts[-2:] = ["/".join(parts[-2:])]  # "vit-b/16" is one name
    if not parts:
        return Location(organisation=None, bare="", is_path=is_path)
    organisation = parts[-2] if len(parts) > 1 else None
    return Location(organisation=organisation, bare=parts[-1], is_path=is_path)


def read_model_name(bare: str, *, organisation: str | None = None) -> ModelName:
    """Take a bare name apart; the organisation matters where it packs one format (mlx-community).

    >>> name = read_model_name("Qwen2.5-Coder-7B-Instruct-bnb-4bit")
    >>> name.identity, name.tuned, name.weight_format.quantization
    (('qwen', '2.5', 'coder', '7b'), True, 'nf4')
    """
    text = bare[:NAME_LIMIT].lower()
    gguf = _GGUF_QUANT.search(text)
    text = _GGUF_QUANT.sub(" gguf ", text)
    text = _BITS.sub(r"\1bit", text)
    month = _MONTH_AND_YEAR.search(text)
    text = _MONTH_AND_YEAR.sub(" ", text)
    if "-" in text:
        # Beside hyphens an underscore between digits is a point: Qwen-1_8B, phi-1_5, t5-v1_1.
        text = _UNDERSCORE_POINT.sub(".", text)
    words = [word for word in _SEPARATOR.split(text) if word]
    if organisation is not None and organisation.lower().startswith("mlx"):
        words.append("mlx")
    weight_format = stated_weight_format(words, gguf[0].upper() if gguf else None)
    rest = [word for word in words if not is_format_word(word, stated=weight_format is not None)]
    version, dates = None, [f"{month[1]}-{month[2]}"] if month else []
    kept: list[str] = []
    for index, word in enumerate(rest):
        stated = _VERSION.fullmatch(word)
        if stated is not None and index > 0:
            version = stated[1]
        elif _DATE.fullmatch(word) and index > 0:
            dates.append(word)
        else:
            kept.append(word)
    return ModelName(
        identity=_identity(kept),
        version=version,
        date=" ".join(dates) or None,
        tuned=not _TUNED.isdisjoint(kept),
        converted=not _CONVERTED.isdisjoint(kept),
        weight_format=weight_format,
    )


def _identity(words: list[str]) -> tuple[str, ...]:
    """Return the words that say which model it is, split where letters meet digits.

    "base" is a size where no other size stands (bert-base), else it means untuned (gemma-2b-base).
    """
    dropped = _TUNED | _PRETRAINED | _CONVERTED
    kept = [word for word in words if word not in dropped]
    if any(_SIZE.fullmatch(word) or word in _SIZE_WORDS for word in kept):
        kept = [word for word in kept if word != "base"]
    if len(kept) > 1 and kept[1].startswith(_OWNERS.get(kept[0], "\0")):
        kept = kept[1:]
    return tuple(piece for word in kept for piece in _PIECE.findall(word))
