"""The number format that published weights are stored in: what ``dtype="auto"`` loads them in.

A config that was saved since transformers 4.0 says it (``torch_dtype``, ``dtype`` from 4.56 on). Those
published before hold no such key, and their files have 4 bytes a parameter: gpt2 548 MB for 124 million,
bert-base 440 MB for 110, roberta-base 501 MB for 125, t5-base 892 MB for 223, gpt-neo-1.3B 5.3 GB,
gpt-j-6B 24.2 GB (main), vit-base 346 MB for 86. All others are taken as bf16.
"""

from collections.abc import Mapping

from vramgate.costmodel.job import Dtype

_FP32_FAMILIES = frozenset(
    {
        "albert",
        "bart",
        "bert",
        "distilbert",
        "electra",
        "gpt2",
        "gpt_neo",
        "gptj",
        "mt5",
        "roberta",
        "t5",
        "vit",
        "xlm-roberta",
    }
)
_NAMES: Mapping[str, Dtype] = {
    "float32": Dtype.FP32,
    "bfloat16": Dtype.BF16,
    "float16": Dtype.FP16,
}


def checkpoint_dtype(model_type: str, config: Mapping[str, object] | None = None) -> Dtype:
    """Return the dtype of a model's published weights, by its config where it says so.

    >>> checkpoint_dtype("gpt2").value, checkpoint_dtype("llama").value
    ('fp32', 'bf16')
    >>> checkpoint_dtype("llama", {"torch_dtype": "float16"}).value
    'fp16'
    """
    for name in ("dtype", "torch_dtype"):
        said = (config or {}).get(name)
        if isinstance(said, str) and said.removeprefix("torch.") in _NAMES:
            return _NAMES[said.removeprefix("torch.")]
    return Dtype.FP32 if model_type in _FP32_FAMILIES else Dtype.BF16
