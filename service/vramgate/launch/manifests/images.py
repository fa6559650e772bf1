"""Versions that an image's tag names exactly."""

import re
from collections.abc import Sequence

_V = r"(\d{1,4}(?:\.\d{1,4}){1,2})"

_AXOLOTL = r"(?:axolotlai|winglian)/axolotl(?:-cloud|-cloud-term)?(?:-uv)?"
_TAGS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    # Repository's last parts, the tag, the components of its groups.
    (r"pytorch/pytorch", rf"v?{_V}-(?:cuda|cpu|rocm).*", ("torch",)),
    (r"mosaicml/(?:pytorch|llm-foundry)", rf"{_V}_cu\d.*", ("torch",)),
    (r"rocm/pytorch", rf"rocm.*_(?:release_|rel_)?{_V}", ("torch",)),
    (r"huggingface/transformers-pytorch-gpu", rf"v?{_V}", ("transformers",)),
    (
        r"huggingface-pytorch-training(?:-neuronx)?",
        rf"{_V}-transformers{_V}-.*",
        ("torch", "transformers"),
    ),
    (r"pytorch-training", rf"{_V}-(?:gpu|cpu).*", ("torch",)),
    # docs/docker.qmd of axolotl; releases also carry Python, CUDA and torch (0.19.0 on Docker Hub).
    (_AXOLOTL, rf"v?{_V}", ("axolotl",)),
    (_AXOLOTL, rf"v?{_V}-py[\d.]+-cu\d+-{_V}(?:-.*)?", ("axolotl", "torch")),
    (_AXOLOTL, rf"[\w.-]*-py[\d.]+-cu\d+-{_V}(?:-.*)?", ("torch",)),
    (r"hiyouga/llamafactory", rf"v?{_V}(?:-.*)?", ("llamafactory",)),
    (
        r"modelscope",
        rf".*-torch{_V}-.*-?swift{_V}.*",
        ("torch", "ms-swift"),
    ),
    (r"unsloth/unsloth", rf"v?{_V}-pt{_V}-.*", ("unsloth", "torch")),
)
_IMAGE = re.compile(r"(?P<repository>[^@:]+(?::\d+/[^@:]+)?):(?P<tag>[^@]{1,128})(?:@.*)?")
_LONGEST = 512


def stack_of_image(image: str) -> str | None:
    """Return the versions that an image's tag names, as a stack's text; None where it names none.

    Mirrors keep the last parts of a repository's name, so only they are compared.

    >>> stack_of_image("registry.example:5000/docker.io/pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime")
    'torch 2.4.0'
    >>> stack_of_image("pytorch/pytorch:latest")
    """
    match = _IMAGE.fullmatch(image.strip()) if len(image) <= _LONGEST else None
    if match is None:
        return None
    for repository, tag, components in _TAGS:
        versions = re.fullmatch(tag, match["tag"])
        if versions and re.search(rf"(?:^|/){repository}$", match["repository"]):
            pairs = zip(components, versions.groups(), strict=True)
            return " / ".join(f"{component} {version}" for component, version in pairs)
    return None
