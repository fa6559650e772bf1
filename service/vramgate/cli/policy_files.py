"""Policies in files, as an administrator writes them: YAML or JSON."""

from pathlib import Path
from typing import Any

from vramgate.cli.launch_sources import read_text
from vramgate.launch.documents import read_json, read_yaml
from vramgate.wire.policies import PolicyIn
from vramgate.wire.validation import validated


def read_policy(file: Path) -> PolicyIn:
    """Return the policy in a file.

    Raises:
        UnreadableFileError: it cannot be read.
        UnreadableLaunchError: it is neither YAML nor JSON.
        ValidationFailedError: it is no policy.
    """
    text = read_text(file)
    if file.suffix.lower() == ".json":
        return validated(PolicyIn, read_json(text, file.name))
    return validated(PolicyIn, _with_off(read_yaml(text, file.name)))


def _with_off(document: Any) -> Any:  # noqa: ANN401 whatever YAML holds
    """Return a YAML document in which a mode written as off is a word again: YAML reads false.

    >>> _with_off({"mode": False, "rules": [{"caller_may_choose": [False, "warn"]}]})
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
        words["rules"] = [_with_off(rule) for rule in words["rules"]]
    return words
