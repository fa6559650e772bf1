"""Policies in files, as an administrator writes them: YAML or JSON."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vramgate.admission.policy import AdmissionPolicy
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.cli.launch_sources import UnreadableFileError, name_of, read_text
from vramgate.launch.documents import read_json, read_yaml
from vramgate.wire.policies import PolicyIn, checked_policy
from vramgate.wire.validation import ValidationFailedError, validated


def read_policy(file: Path) -> PolicyIn:
    """Return the policy in a file.

    Raises:
        UnreadableFileError: it cannot be read, or is empty.
        UnreadableLaunchError: it is neither YAML nor JSON.
        ValidationFailedError: it is no policy.
    """
    text, name = read_text(file), name_of(file)
    if not text.strip():
        raise UnreadableFileError(
            f"{name} is empty.",
            hint="`vramgate policy show default` prints a policy to begin with.",
        )
    is_json = file.suffix.lower() == ".json"
    document = read_json(text, name) if is_json else with_off(read_yaml(text, name))
    with _named(file):
        return validated(PolicyIn, document)


def usable_policy(given: PolicyIn, file: Path, accelerators: AcceleratorCatalog) -> AdmissionPolicy:
    """Return the policy that a file holds, if it can be kept.

    Raises:
        ValidationFailedError: its fields contradict each other, or a card is not in the catalog.
    """
    with _named(file):
        return checked_policy(given, accelerators)


def with_off(document: Any) -> Any:  # noqa: ANN401 whatever YAML holds
    """Return a YAML document in which a mode written as off is a word again: YAML reads false.

    >>> with_off({"mode": False, "rules": [{"caller_may_choose": [False, "warn"]}]})
    {'mode': 'off', 'rules': [{'caller_may_choose': ['off', 'warn']}]}
    """
    if not isinstance(document, dict):
        return document
    words = dict(document)
    if words.get("mode") is False:
        words["mode"] = "off"
    if isinstance(words.get("caller_may_choose"), list):
        chosen = words["caller_may_choose"]
        words["caller_may_choose"] = ["off" if one is False else one for one in chosen]
    if isinstance(words.get("rules"), list):
        words["rules"] = [with_off(rule) for rule in words["rules"]]
    return words


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file in what is wrong with the policy that it holds."""
    try:
        yield
    except ValidationFailedError as error:
        what = error.message.replace("The body:", "The policy", 1)
        raise ValidationFailedError(
            f"{name_of(file)}: {what}", hint=error.hint, fields=error.fields
        ) from None
