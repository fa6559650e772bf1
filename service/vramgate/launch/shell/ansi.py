r"""``$'…'``, and the escapes of ``printf`` and ``echo -e``."""

import re

_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})"
    r"|U([0-9a-fA-F]{1,8})|c(.))",
    re.DOTALL,
)
_OCTAL, _HEX, _SHORT, _LONG, _CONTROL = 2, 3, 4, 5, 6
_NAMED = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_BYTE = 0xFF
_CONTROL_BITS = 0x1F
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def decoded(text: str) -> str:
    r"""Return the characters of ``$'…'``; what follows a NUL is cut off, as bash does.

    >>> decoded(r"a\tb\x41\u00e9")
    'a\tbAé'
    """
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_character, text).partition("\0")[0]


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED.get(match[1], match[1])
    if match[_OCTAL]:
        return chr(int(match[_OCTAL], 8) & _BYTE)
    if match[_CONTROL]:
        return chr(ord(match[_CONTROL]) & _CONTROL_BITS)
    code = int(match[_HEX] or match[_SHORT] or match[_LONG], 16)
    return match.group() if code > _LAST_CODE_POINT or code in _SURROGATES else chr(code)
