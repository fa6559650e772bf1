"""``$(…)`` where what it prints follows from its words: ``$(basename x)``, ``$(seq 1 4)``."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.shell.parse import parse_script
from vramgate.launch.shell.syntax import HereDocument, Node, Pipeline, Redirect, Simple, Written
from vramgate.launch.shell.texts import output_of
from vramgate.launch.shell.values import Pieces, known_text

_PRINTS = re.compile(
    r"\s*(?:echo|printf|expr|basename|dirname|seq)\s|\s*(?:tr|wc|cut|head)\s[^<]*<<<"
)

Expand = Callable[[Written], Sequence[Pieces]]


def known_output(inner: str, fields: Expand) -> str | None:
    """Return what a substitution gives, line ends taken off; None where it cannot be told."""
    if not _PRINTS.match(inner):
        return None
    script = _parsed(inner)
    if script is None:
        return None
    output = _output(script, fields)
    return None if output is None else output.rstrip("\n")


@lru_cache(maxsize=256)
def _parsed(inner: str) -> Sequence[Simple] | None:
    """Return the commands of one pipeline."""
    try:
        items = parse_script(inner, "substitution").items
    except UnreadableLaunchError:
        return None
    if len(items) != 1:
        return None
    node: Node = items[0].command
    commands = node.commands if isinstance(node, Pipeline) and not node.negated else (node,)
    simple = [one for one in commands if isinstance(one, Simple) and not one.assignments]
    return simple if len(simple) == len(commands) else None


def _output(commands: Sequence[Simple], fields: Expand) -> str | None:
    given: str | None = None
    for command in commands:
        for redirection in command.redirections:
            text = _here_string(redirection, fields)
            if text is None:
                return None
            given = text
        words: list[str] = []
        for word in command.words:
            for pieces in fields(word) if isinstance(word, Written) else ():
                text = known_text(pieces)
                if text is None:
                    return None
                words.append(text)
        given = output_of(words, given)
        if given is None:
            return None
    return given


def _here_string(redirection: Redirect | HereDocument, fields: Expand) -> str | None:
    if not isinstance(redirection, Redirect) or redirection.operator != "<<<":
        return None
    texts = [known_text(pieces) for pieces in fields(redirection.target)]
    known = [text for text in texts if text is not None]
    return " ".join(known) + "\n" if len(known) == len(texts) else None
