"""YAML, JSON and TOML from strangers: bounded, and refused with line and column."""

import re
import tomllib
from collections.abc import Iterator
from functools import partial
from typing import Any

import yaml

from vramgate.errors import DomainError
from vramgate.json_text import MalformedJsonError, UnstorableTextError, parse_json
from vramgate.launch.yaml_values import MAX_DEPTH, Builder

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableLaunchError(DomainError):
    """A text is not what it should be; ``data`` has ``file``, and ``line`` and ``column`` from 1."""

    code = "unreadable_launch"


def unreadable(
    file: str, what: str, *, line: int | None = None, column: int | None = None, hint: str = ""
) -> UnreadableLaunchError:
    """Return the error of a text that cannot be read."""
    place = f", line {line}, column {column}" if line is not None else ""
    return UnreadableLaunchError(
        f"{file}{place}: {what}.", hint=hint, file=file, line=line, column=column
    )


def read_yaml(text: str, name: str) -> Any:  # noqa: ANN401 whatever it holds
    """Return the value of a YAML text of one document.

    Raises:
        UnreadableLaunchError: it is not YAML, not one document, too deep, or has a key twice.

    >>> read_yaml("micro_batch_size: 2", "train.yaml")
    {'micro_batch_size': 2}
    """
    documents = read_yaml_documents(text, name)
    if len(documents) > 1:
        raise unreadable(name, f"it holds {len(documents)} documents", hint="Send one of them.")
    return documents[0] if documents else None


def read_yaml_documents(text: str, name: str) -> list[Any]:
    """Return the values of a YAML text, document by document; empty ones are left out.

    Raises:
        UnreadableLaunchError: it is not YAML, too deep, or has a key twice.
    """
    builder = Builder(partial(_at, name))
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise unreadable(name, "it holds halves of surrogate pairs")
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        raise unreadable(
            name,
            f"not YAML: {what or 'malformed'}",
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
            hint=_TAB_HINT if mark and _is_indented_by_tab(text, mark.line) else "",
        ) from None
    except yaml.YAMLError as error:
        raise unreadable(name, f"not YAML: {_first_line(error)}") from None
    return [document for document in builder.documents if document is not None]


def _at(name: str, event: yaml.Event, what: str) -> UnreadableLaunchError:
    mark = event.start_mark
    if mark is None:
        return unreadable(name, what)
    return unreadable(name, what, line=mark.line + 1, column=mark.column + 1)


_TAB_HINT = "YAML indents with blanks, never with tabs."


def _is_indented_by_tab(text: str, line: int) -> bool:
    lines = text.splitlines()
    if line >= len(lines):
        return False
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    return "\t" in indent


def read_json(text: str, name: str) -> Any:  # noqa: ANN401 whatever it holds
    """Return the value of a JSON text.

    Raises:
        UnreadableLaunchError: it is not JSON (comments are not), too deep, or has a key twice.
    """
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"), max_depth=MAX_DEPTH)
    except (MalformedJsonError, UnstorableTextError) as error:
        comment = _comment_line(text)
        hint = f"JSON has no comments; one stands in line {comment}." if comment else ""
        what = error.message.partition(", at line ")[0].rstrip(".")
        line, column = error.data.get("line"), error.data.get("column")
        raise unreadable(name, what, line=line, column=column, hint=hint) from None


def read_toml(text: str, name: str) -> Any:  # noqa: ANN401 whatever it holds
    """Return the value of a TOML text.

    Raises:
        UnreadableLaunchError: it is not TOML, or too deep.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise unreadable(name, f"not TOML: {_first_line(error)}") from None
    except RecursionError:
        raise unreadable(name, "it is nested too deeply") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _comment_line(text: str) -> int | None:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith(("//", "/*", "#")):
            return number
    return None


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 any value
    """Yield what is not an object, with its dotted path.

    >>> list(leaves({"a": {"b": 1}, "c": [2]}))
    [('a.b', 1), ('c', [2])]
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
