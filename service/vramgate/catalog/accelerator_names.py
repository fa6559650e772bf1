"""How an accelerator's name in the wild is read: labels, Slurm types, MIG, counts, spellings."""

import re
from dataclasses import dataclass

NAME_LIMIT = 400
"""Characters of a name that are read."""

_NOT_WORD = re.compile(r"[^a-z0-9]+")
_GRES = re.compile(r"(?:gres[/:])?gpu:([^:=,()]+)([:=]\d+)?(?:\(.*\))?")
_LABEL = re.compile(r"[\w.-]+/[\w./-]+\s*[=:]\s*|[\w./-]+\s*=\s*")
_RESOURCE = re.compile(r"(?:nvidia|amd|gpu\.intel|habana)\.(?:com|ai)/")
_COUNT_BEFORE = re.compile(r"(?:gpu[_-])?\d{1,4}\s*[x×][\s_-]*(?=[a-z])")
_COUNT_AFTER = re.compile(r"(?::|\s[x×]\s*)\d{1,4}$")
_SHARED = re.compile(r"[-_ ]shared$")
_MIG = re.compile(
    r"(?:(?<![a-z0-9])mig[-_. ]?)?(?<![a-z0-9])(?:\d+c\.)?([1-7]g)[._]?(\d+gb)"
    r"(?:[+.-](?:me(?:\.all)?|gfx))*(?![a-z0-9])"
)
_GLUED = re.compile(r"(rtx|gtx|ascend)([a-z]?\d.*)")
_FORM_FACTOR = re.compile(r"pcie|sxm\d?|nvl")
_MEMORY = re.compile(r"(\d{1,3})(?:g|gb|gib)")
_NOISE = frozenset(
    {
        "nvidia",
        "amd",
        "intel",
        "huawei",
        "google",
        "corporation",
        "inc",
        "tesla",
        "geforce",
        "radeon",
        "instinct",
        "ascend",
        "r",
        "tm",
        "gpu",
        "gpus",
        "graphics",
        "data",
        "center",
        "datacenter",
        "generation",
        "oam",
        "hbm2",
        "hbm2e",
        "hbm3",
        "hbm3e",
        "ac",
        "ls",
        "card",
        "accelerator",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A name without what schedulers put around it."""

    text: str
    mig_profile: str | None = None
    shared: bool = False
    """Time-sliced or shared by MPS: the memory is not isolated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """The words of a name, sorted by what they say."""

    model: str
    form_factor: str | None
    memory_gb: int | None

    def allows(self, form_factor: str | None) -> bool:
        """Return whether a card of that form can be meant; "sxm" alone means any of them."""
        asked = self.form_factor
        if asked is None or form_factor is None:
            return True
        return asked.rstrip("0123456789") == form_factor.rstrip("0123456789") and (
            asked == form_factor or not (asked[-1].isdigit() and form_factor[-1].isdigit())
        )


def name_key(text: str) -> str:
    """Return the spelling under which a name is kept: lower case, words joined by hyphens.

    >>> name_key("NVIDIA A100-SXM4-80GB"), name_key("nvidia_a100-sxm4-80gb")
    ('nvidia-a100-sxm4-80gb', 'nvidia-a100-sxm4-80gb')
    """
    return _NOT_WORD.sub("-", text.casefold()).strip("-")


def unwrap(name: str) -> Wrapped:
    """Take off label keys, Slurm's gres form, counts, -SHARED and the MIG profile.

    >>> unwrap("nvidia.com/gpu.product=A100-SXM4-40GB-MIG-1g.5gb-SHARED")
    Wrapped(text='a100-sxm4-40gb-', mig_profile='1g.5gb', shared=True)
    >>> unwrap("gres:gpu:a100:4").text
    'a100'
    """
    text = name[:NAME_LIMIT].strip().strip("\"'").casefold()
    if _GRES.fullmatch(text) is None:
        text = _LABEL.sub("", text, count=1) if _LABEL.match(text) else text
    gres = _GRES.fullmatch(text)
    if gres is not None:
        # Digits alone are a count ("gpu:4"), before a count a type ("gpu:3080:4").
        text = "" if gres[1].isdigit() and gres[2] is None else gres[1]
    text = _RESOURCE.sub("", text.strip("\"'"))
    text = _COUNT_AFTER.sub("", text)
    text = _COUNT_BEFORE.sub("", text) if _COUNT_BEFORE.match(text) else text
    unshared = _SHARED.sub("", text)
    mig = _MIG.search(unshared)
    if mig is None:
        return Wrapped(text=unshared, shared=unshared != text)
    rest = unshared[: mig.start()] + unshared[mig.end() :]
    profile = f"{mig[1]}.{mig[2]}"
    return Wrapped(text=rest, mig_profile=profile, shared=unshared != text)


def spelling(text: str) -> Spelling:
    """Sort the words of a name into model, form factor and memory.

    >>> spelling("NVIDIA H200-141GB-HBM3e")
    Spelling(model='h200', form_factor=None, memory_gb=141)
    """
    model: list[str] = []
    form_factor, memory_gb = None, None
    for written in name_key(text).split("-"):
        glued = _GLUED.fullmatch(written)
        for word in glued.groups() if glued else (written,):
            memory = _MEMORY.fullmatch(word)
            if memory is not None:
                memory_gb = int(memory[1])
            elif _FORM_FACTOR.fullmatch(word):
                form_factor = word
            elif word not in _NOISE:
                model.append(word)
    return Spelling(model="-".join(model), form_factor=form_factor, memory_gb=memory_gb)
