"""How many rows Megatron's embedding has: the tokenizer's tokens, padded.

Sources: Megatron-LM ``core/tokenizers/utils/build_tokenizer.py`` (d98e8a64): padded to a multiple
of make-vocab-size-divisible-by × tensor parallel size; the length is the tokenizer's own except for
NullTokenizer and TikTokenizer, which take ``--vocab-size``. NullTokenizer counted one token more
before core 0.18.
"""

from dataclasses import dataclass

from vramgate.catalog.models import builtin_models
from vramgate.errors import DomainError
from vramgate.launch.frameworks.megatron.arguments import Arguments
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.units import ceil_div

PROGRAM_TOKENIZERS = {
    "pretrain_gpt": "GPT2BPETokenizer",
    "pretrain_hybrid": "GPT2BPETokenizer",
    "pretrain_mamba": "GPT2BPETokenizer",
    "pretrain_bert": "BertWordPieceLowerCase",
    "pretrain_t5": "BertWordPieceLowerCase",
}
"""``args_defaults`` of the programs."""

_TOKENS = {
    "GPT2BPETokenizer": 50_257,
    "BertWordPieceLowerCase": 30_522,
    "BertWordPieceCase": 28_996,
    "Llama2Tokenizer": 32_000,
}
"""Of the files these are made for: gpt2-vocab.json, bert-large-(un)cased-vocab.txt, Llama 2's."""

_NULL = {"NullTokenizer", "NullMultimodalTokenizer"}
_NULL_COUNTS_ITS_OWN = (0, 18)
_TIKTOKEN_TOKENS = 2**17
_FROM_NAME = {
    "HuggingFaceTokenizer",
    "SFTTokenizer",
    "SentencePieceTokenizer",
    "GPTSentencePieceTokenizer",
}
_DIVISIBLE_BY = 128
_HINT = "say it with --padded-vocab-size, or in model.config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The rows of the embedding; ``assumed`` says what they rest on where the launch does not say them."""

    rows: int
    assumed: str = ""


def vocabulary(arguments: Arguments) -> Vocabulary | Unseen:
    """Return the rows of the embedding, or why they cannot be seen."""
    settings = arguments.settings
    hidden = arguments.unseen("padded_vocab_size")
    if hidden is not None:
        return hidden
    padded = settings.whole("padded_vocab_size")
    if isinstance(padded, Found):
        return Vocabulary(rows=padded.value)
    tokens = _tokens(arguments)
    if isinstance(tokens, Unseen):
        return tokens
    padding = arguments.unseen("make_vocab_size_divisible_by", "tensor_model_parallel_size")
    if padding is not None:
        return padding
    pads = arguments.switch("pad_vocab_size", "no_pad_vocab_size")
    if isinstance(pads, Found) and not pads.value:
        return tokens
    multiple = arguments.size("make_vocab_size_divisible_by", default=_DIVISIBLE_BY)
    multiple *= arguments.size("tensor_model_parallel_size")
    if multiple < 1:
        return tokens
    return Vocabulary(rows=ceil_div(tokens.rows, multiple) * multiple, assumed=tokens.assumed)


def _tokens(arguments: Arguments) -> Vocabulary | Unseen:
    """Return the tokens before padding."""
    settings = arguments.settings
    said: Reading[int] = settings.whole("vocab_size")
    if isinstance(said, Unseen):
        return said
    kind = settings.text("tokenizer_type")
    if isinstance(kind, Unseen):
        return kind
    name = kind.value if isinstance(kind, Found) else _default_tokenizer(arguments)
    if isinstance(said, Found):
        return _said_tokens(said, name, arguments)
    if name == "TikTokenizer":
        return Vocabulary(rows=_TIKTOKEN_TOKENS, assumed=f"TikTokenizer: {_TIKTOKEN_TOKENS} tokens")
    if name in _TOKENS:
        return _known_tokens(arguments, name)
    return _named_tokens(arguments, name)


def _default_tokenizer(arguments: Arguments) -> str:
    return PROGRAM_TOKENIZERS.get(arguments.program.rpartition("/")[2].removesuffix(".py"), "")


def _said_tokens(said: Found[int], name: str, arguments: Arguments) -> Vocabulary:
    if name in _NULL:
        version = arguments.version
        one_more = version is not None and version < _NULL_COUNTS_ITS_OWN
        return Vocabulary(rows=said.value + (1 if one_more else 0))
    if name in {"TikTokenizer", ""}:
        return Vocabulary(rows=said.value)
    return Vocabulary(
        rows=said.value, assumed=f"{said.source}: the tokens of the {name}, which decides"
    )


def _known_tokens(arguments: Arguments, name: str) -> Vocabulary | Unseen:
    hidden = arguments.unseen("vocab_extra_ids")
    if hidden is not None:
        return hidden
    extra = arguments.size("vocab_extra_ids", default=0)
    rows = _TOKENS[name] + extra
    return Vocabulary(rows=rows, assumed=f"{name}: {rows} tokens before padding")


def _named_tokens(arguments: Arguments, name: str) -> Vocabulary | Unseen:
    """Return the tokens of a tokenizer that a known model has, by its name."""
    path = arguments.settings.text("tokenizer_model")
    if isinstance(path, Unseen):
        return path
    source = "the tokenizer"
    if isinstance(path, Found):
        source = path.source
        rows = _catalog_vocabulary(path.value) if name in _FROM_NAME else None
        if rows is not None:
            said = f"{path.source}: {rows} tokens before padding, as {path.value}'s config.json"
            return Vocabulary(rows=rows, assumed=said)
    return Unseen(source, "the vocabulary is the tokenizer's, which is not among the files", _HINT)


def _catalog_vocabulary(name: str) -> int | None:
    bare = name.removesuffix("/tokenizer.model").removesuffix("/tokenizer.json")
    try:
        entry = builtin_models().resolve(bare).entry
    except DomainError:
        return None
    rows = (entry.config or {}).get("vocab_size")
    return rows if isinstance(rows, int) else None
