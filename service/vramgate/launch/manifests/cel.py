"""What a CEL expression over a device says of it: the comparisons people write, nothing else.

Source: kubernetes-sigs/dra-driver-nvidia-gpu ``demo/specs``, ``cmd/gpu-kubelet-plugin/deviceinfo.go``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vramgate.launch.manifests.quantity import quantity

_DRIVER = r"""\[\s*['"][\w.-]{1,100}['"]\s*\]"""
_TEXT = r"""(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")"""
_LOWER = r"(?:\.lowerAscii\(\)|\.upperAscii\(\))?"
_ATTRIBUTE = rf"device\.attributes{_DRIVER}\.(?P<name>\w+){_LOWER}"
_EQUALS = re.compile(rf"{_ATTRIBUTE}\s*==\s*{_TEXT}")
_HOLDS = re.compile(rf"{_ATTRIBUTE}\.(?P<how>contains|startsWith|matches)\(\s*{_TEXT}\s*\)")
_IS_ONE_OF = re.compile(rf"{_ATTRIBUTE}\s+in\s+\[(?P<items>[^\]]*)\]")
_MEMORY = rf"device\.capacity{_DRIVER}\.memory"
_QUANTITY = rf"quantity\(\s*{_TEXT}\s*\)"
_COMPARED = re.compile(rf"{_MEMORY}\.compareTo\(\s*{_QUANTITY}\s*\)\s*(?P<operator>[<>=!]=?)\s*0")
_GREATER = re.compile(rf"{_MEMORY}\.(?P<operator>isGreaterThan|isLessThan)\(\s*{_QUANTITY}\s*\)")
_SAME = re.compile(rf"{_MEMORY}\s*==\s*{_QUANTITY}")
_ITEM = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_PLAIN_PATTERN = re.compile(r"\^?(?:\.\*)?([\w -]+)(?:\.\*)?\$?")
_MATTERS = re.compile(r"\.(?:productName|profile|memory|architecture|brand)\b")
_LONGEST = 4096
_OPENING, _CLOSING = "([", ")]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What a device must be."""

    products: tuple[str, ...] = ()
    """Names, or parts of names, of which one must hold."""
    profile: str = ""
    more_than_bytes: int | None = None
    is_understood: bool = True
    """Whether every part of the expression that speaks of the card could be read."""


def device_facts(expression: str) -> DeviceFacts:
    """Return what an expression demands; its parts hold together.

    >>> device_facts("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA L4'").products
    ('NVIDIA L4',)
    """
    if len(expression) > _LONGEST:
        return DeviceFacts(is_understood=False)
    products: tuple[str, ...] = ()
    profile, least, understood = "", None, True
    for part in _split(expression, "&&"):
        branches = [_facts_of(branch) for branch in _split(part, "||")]
        if not all(branch.is_understood for branch in branches):
            understood = False
        elif all(branch.products for branch in branches):
            products = tuple(dict.fromkeys(one for b in branches for one in b.products))
        elif len(branches) == 1:
            profile = branches[0].profile or profile
            least = branches[0].more_than_bytes or least
        elif any(_MATTERS.search(part) for part in _split(part, "||")):
            understood = False
    return DeviceFacts(
        products=products, profile=profile, more_than_bytes=least, is_understood=understood
    )


def _split(expression: str, operator: str) -> Iterator[str]:
    """Yield the parts between an operator outside parentheses and quotes; outer parentheses come off."""
    text = _without_parentheses(expression.strip())
    depth, quote, start, index = 0, "", 0, 0
    while index < len(text):
        letter = text[index]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif depth == 0 and text.startswith(operator, index):
            yield text[start:index].strip()
            start = index = index + len(operator)
            continue
        index += 1
    yield text[start:].strip()


def _without_parentheses(text: str) -> str:
    while text.startswith("(") and text.endswith(")") and _closes_at(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closes_at(text: str) -> int:
    """Return where the parenthesis closes that a text begins with."""
    depth, quote = 0, ""
    for index, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
            if depth == 0:
                return index
    return -1


def _facts_of(text: str) -> DeviceFacts:
    """Return what one comparison says; of what does not speak of the card, nothing."""
    text = _without_parentheses(text)
    said = _EQUALS.fullmatch(text) or _HOLDS.fullmatch(text)
    if said is not None:
        return _attribute(said)
    among = _IS_ONE_OF.fullmatch(text)
    if among is not None and among["name"] == "productName":
        items = tuple(first or second for first, second in _ITEM.findall(among["items"]))
        return DeviceFacts(products=items, is_understood=bool(items))
    memory = _COMPARED.fullmatch(text) or _GREATER.fullmatch(text) or _SAME.fullmatch(text)
    if memory is not None:
        return _memory(memory)
    return DeviceFacts(is_understood=_MATTERS.search(text) is None)


def _attribute(said: re.Match[str]) -> DeviceFacts:
    name, value = said["name"], said["single"] or said["double"] or ""
    if said.groupdict().get("how") == "matches":
        plain = _PLAIN_PATTERN.fullmatch(value)
        value = plain[1] if plain else ""
    if name == "productName":
        return DeviceFacts(products=(value,) if value else (), is_understood=bool(value))
    if name == "profile":
        return DeviceFacts(profile=value)
    return DeviceFacts(is_understood=name not in {"architecture", "brand"} or bool(value))


def _memory(said: re.Match[str]) -> DeviceFacts:
    amount = quantity(said["single"] or said["double"] or "")
    operator = said.groupdict().get("operator") or "=="
    if amount is None:
        return DeviceFacts(is_understood=False)
    if operator in {">", ">=", "==", "isGreaterThan"}:
        return DeviceFacts(more_than_bytes=int(amount))
    return DeviceFacts()
