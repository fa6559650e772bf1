"""How the weights of a copy are stored, as its name states it: GPTQ, AWQ, NF4, GGUF, FP8."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FORMAT_HINT = re.compile(
    r"\d[-_ ]?bit|int\d|[fw]p?\d|q\d_|gptq|awq|bnb|gg[mu][lf]|exl\d|hqq|aqlm|eetq|autoround|mlx|"
    r"torchao",
    re.IGNORECASE,
)
_METHODS = {
    "gptq": "GPTQ",
    "awq": "AWQ",
    "bnb": "bitsandbytes",
    "gguf": "GGUF",
    "ggml": "GGML",
    "exl2": "EXL2",
    "exl3": "EXL3",
    "hqq": "HQQ",
    "aqlm": "AQLM",
    "eetq": "EETQ",
    "autoround": "AutoRound",
    "mlx": "MLX",
    "torchao": "torchao",
}
_WIDTHS = {
    "int4": 4, "4bit": 4, "w4a16": 4, "int8": 8, "8bit": 8, "w8a16": 8, "w8a8": 8,
    "2bit": 2, "3bit": 3, "5bit": 5, "6bit": 6,
}  # fmt: skip
BITS_OF_INT4, BITS_OF_INT8 = 4, 8
_NUMBER_FORMATS = {
    "nf4": "NF4", "fp4": "FP4", "nvfp4": "NVFP4", "mxfp4": "MXFP4", "fp8": "FP8", "mxfp8": "MXFP8",
}  # fmt: skip
_PLAIN = frozenset({"bf16", "fp16", "f16", "fp32", "f32"})
_FORMAT_DETAILS = frozenset(
    {
        "dynamic",
        "static",
        "kv",
        "e4m3",
        "block",
        "128g",
        "64g",
        "32g",
        "g128",
        "actorder",
        "act",
        "order",
        "true",
        "false",
        "marlin",
        "sym",
        "ud",
        "imatrix",
        "i1",
        "quantized",
    }
)
"""Words that mean something only beside a weight format, and nothing to us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """How the weights of a named copy are stored.

    ``quantization`` is the value ``method.quantization`` takes for it; None where no training
    method of ours loads it as it is (GGUF, FP8, EXL2): the copy is then trained from its unpacked
    weights.
    """

    words: str
    quantization: str | None
    assumed: bool = False
    """The name states a width only; the method that usually stands behind it was taken."""


def states_weight_format(name: str) -> bool:
    """Return whether a name may state a weight format; quick, and wrong only on the yes side."""
    return _FORMAT_HINT.search(name) is not None


def is_format_word(word: str, *, stated: bool) -> bool:
    """Return whether a word is about packing; details only where a format is stated."""
    if word in _METHODS or word in _WIDTHS or word in _NUMBER_FORMATS or word in _PLAIN:
        return True
    return word == "unsloth" or (stated and word in _FORMAT_DETAILS)


def stated_weight_format(words: Sequence[str], gguf: str | None) -> WeightFormat | None:
    """Return the weight format that the words state, None where they state none."""
    method = next((word for word in words if word in _METHODS), None)
    width = next((_WIDTHS[word] for word in words if word in _WIDTHS), None)
    number = next((word for word in words if word in _NUMBER_FORMATS), None)
    if method is not None:
        return _format_of_method(method, width=width, number=number, gguf=gguf)
    if number is not None:
        trained_as_is = number if number in {"nf4", "mxfp4"} else None
        return WeightFormat(words=_NUMBER_FORMATS[number], quantization=trained_as_is)
    if width is None:
        return None
    if width == BITS_OF_INT8:
        return WeightFormat(words="8 bits", quantization="int8", assumed=True)
    if width == BITS_OF_INT4:
        # Qwen calls its GPTQ copies -Int4; "-4bit" without a method is bitsandbytes' word.
        usual = "nf4" if "4bit" in words else "gptq-int4"
        return WeightFormat(words="4 bits", quantization=usual, assumed=True)
    return WeightFormat(words=f"{width} bits", quantization=None)


def _format_of_method(
    method: str, *, width: int | None, number: str | None, gguf: str | None
) -> WeightFormat:
    bits = 4 if width is None else width
    quantization = {
        ("gptq", 4): "gptq-int4",
        ("gptq", 8): "gptq-int8",
        ("awq", 4): "awq-int4",
        ("bnb", 4): "fp4" if number == "fp4" else "nf4",
        ("bnb", 8): "int8",
    }.get((method, bits))
    detail = gguf or (f"{bits} bits" if quantization or width else "")
    return WeightFormat(words=f"{_METHODS[method]} {detail}".strip(), quantization=quantization)
