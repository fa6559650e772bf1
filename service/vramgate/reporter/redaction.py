"""What must not leave the machine: tokens by their form, values by the name they stand under."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

MASK = "[masked]"

# Published forms of tokens: the vendor's prefix, and the least length that is no ordinary word.
_TOKEN_FORMS = re.compile(
    r"""
    \b(?:
        hf_[A-Za-z0-9]{10,} | api_org_[A-Za-z0-9]{10,}                    # Hugging Face
      | sk-[A-Za-z0-9_-]{10,} | sk_(?:live|test)_[A-Za-z0-9]{10,}         # OpenAI, Anthropic, Stripe
      | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[A-Za-z0-9_]{16,}         # GitHub
      | glpat-[A-Za-z0-9_-]{10,}                                          # GitLab
      | (?:AKIA|ASIA)[A-Z0-9]{12,}                                        # AWS
      | xox[abeoprs]-[A-Za-z0-9-]{8,}                                     # Slack
      | AIza[A-Za-z0-9_-]{20,} | ya29\.[A-Za-z0-9_-]{16,}                 # Google
      | pypi-[A-Za-z0-9_-]{16,} | npm_[A-Za-z0-9]{16,}                    # package registries
      | r8_[A-Za-z0-9]{16,} | nvapi-[A-Za-z0-9_-]{16,}                    # Replicate, NVIDIA
      | vgr_[0-9a-f-]{36}_[A-Za-z0-9_-]{16,} | vg_[a-z2-7]{16}_[a-z2-7]{16,}   # vramgate
      | wandb_v1_[A-Za-z0-9_]{16,}
      | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?      # JSON web tokens
      | [0-9a-f]{40}(?![0-9a-f])                                          # Weights & Biases
    )
    """,
    re.VERBOSE,
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_BEARER = re.compile(r"\b(bearer|basic)(\s+)[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE)
# Also where a message was cut in the middle of the password.
_URL_CREDENTIALS = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/@\"']+@|[^\s/@\"':]+:[^\s/@\"'…]*(?=\.\.\.|…))"
)
_QUERY_SECRET = re.compile(
    r"([?&](?:[\w.-]*(?:token|key|secret|password|signature|sig|credential)[\w.-]*)=)[^&\s\"']+",
    re.IGNORECASE,
)
_MASKS = (
    (_PRIVATE_KEY, "-----BEGIN", MASK),
    (_URL_CREDENTIALS, "://", rf"\1{MASK}@"),
    (_QUERY_SECRET, "=", rf"\1{MASK}"),
    (_BEARER, "", rf"\1\2{MASK}"),
    (_TOKEN_FORMS, "", MASK),
)
"""Each form, a text that is in whatever has it, and what stands in its place."""

_WORD_BREAKS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_SECRET_WORDS = frozenset(
    {
        "password", "passwd", "passphrase", "passcode", "pwd", "pass", "secret", "secrets",
        "credential", "credentials", "cred", "creds", "apikey", "apikeys", "bearer", "cookie",
        "cookies", "jwt", "dsn", "authorization", "accesskey", "secretkey", "privatekey", "sas",
        "pat",
    }
)  # fmt: skip
# Secret where the name ends in them: num_key_value_heads and eos_token_id are not.
_SECRET_ENDINGS = frozenset({"token", "key", "keys", "auth", "signature"})
_SECRET_PAIRS = frozenset(
    {
        ("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"),
        ("access", "token"), ("auth", "token"), ("hub", "token"), ("hf", "token"),
        ("refresh", "token"), ("connection", "string"),
    }
)  # fmt: skip
_LINE_SECRET = re.compile(
    r"^(\s*(?:export\s+)?[\"']?([\w.-]+)[\"']?\s*[:=]\s*)(\S.*)$", re.MULTILINE
)


def masked(text: str) -> str:
    """Return the text with everything masked that has the form of a token or of a login.

    >>> masked("loading from https://me:pw@hub.example/x with hf_abcdefghijklmnop")
    'loading from https://[masked]@hub.example/x with [masked]'
    """
    for form, sign, mask in _MASKS:
        # Nearly every text has none of them, and to find that out takes less than to replace nothing.
        if sign in text and form.search(text):
            text = form.sub(mask, text)
    return text


def masked_everywhere(value: object) -> object:
    """Return a JSON value with every text in it masked, names of fields too."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {_masked_name(str(name)): masked_everywhere(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [masked_everywhere(inner) for inner in value]
    return value


@lru_cache(maxsize=1024)
def _masked_name(name: str) -> str:
    """Return a field's name masked: there are few, and they come again and again."""
    return masked(name)


def names_a_secret(name: str) -> bool:
    """Return whether what stands under this name is likely a secret.

    >>> [names_a_secret(name) for name in ("hub_token", "--api-key", "wandbApiKey", "DB_PASSWORD")]
    [True, True, True, True]
    >>> [names_a_secret(name) for name in ("num_key_value_heads", "max_tokens", "eos_token_id")]
    [False, False, False]
    """
    words = [word.lower() for word in _WORD_BREAKS.split(name) if word]
    if not words:
        return False
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or words[-1] in _SECRET_ENDINGS
        or any(pair in _SECRET_PAIRS for pair in pairwise(words))
    )


def without_secret_names(value: object) -> object:
    """Return a JSON value without the fields whose names speak of secrets, and masked.

    Numbers and switches stay: ``pad_token_id`` is no secret, and neither is ``use_auth``.
    """
    if isinstance(value, Mapping):
        return {
            masked(str(name)): without_secret_names(inner)
            for name, inner in value.items()
            if not names_a_secret(str(name)) or _is_switch_or_id(str(name), inner)
        }
    if isinstance(value, list | tuple):
        return [without_secret_names(inner) for inner in value]
    return masked(value) if isinstance(value, str) else value


def _is_switch_or_id(name: str, value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return True
    is_password = not _SECRET_WORDS.isdisjoint(_WORD_BREAKS.split(name.lower()))
    return isinstance(value, int | float) and not is_password


def masked_lines(text: str) -> str:
    r"""Return a configuration file's text without the values that stand under secret names.

    >>> masked_lines("hub_token: abc\nlearning_rate: 1e-4")
    'hub_token: [masked]\nlearning_rate: 1e-4'
    """

    def line(found: re.Match[str]) -> str:
        return f"{found[1]}{MASK}" if names_a_secret(found[2]) else found[0]

    return masked(_LINE_SECRET.sub(line, text))


def filtered_arguments(arguments: Sequence[str]) -> list[str]:
    """Return a command line whose flags with secret names have lost their values.

    >>> filtered_arguments(["train.py", "--hub_token", "abc", "--lr=1e-4", "+wandb.api_key=x"])
    ['train.py', '--hub_token', '[masked]', '--lr=1e-4', '+wandb.api_key=[masked]']
    """
    kept: list[str] = []
    hides_next = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        is_flag = argument.startswith("-")
        if hides_next and not (is_flag and _is_flag_name(argument)):
            kept.append(MASK)
            hides_next = False
        elif equals and names_a_secret(name):
            kept.append(f"{masked(name)}={MASK}")
            hides_next = False
        else:
            kept.append(masked_lines(argument) if "\n" in argument else masked(argument))
            hides_next = is_flag and not equals and names_a_secret(argument)
    return kept


def _is_flag_name(argument: str) -> bool:
    """Return whether an argument is the next flag rather than a secret that begins with a dash."""
    return re.fullmatch(r"--[A-Za-z][\w.-]*(?:=.*)?", argument, re.DOTALL) is not None
