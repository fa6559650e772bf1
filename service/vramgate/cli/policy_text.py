"""Policies as the command line reads and prints them."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import typer
import yaml
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vramgate.admission.differences import Difference
from vramgate.admission.lint import Finding
from vramgate.cli.bill import PIPE_WIDTH
from vramgate.persistence.policies import PolicyStatus
from vramgate.wire.policies import PolicyOut, PolicySummaryOut
from vramgate.workflows.show_policy import PolicyState

_SHOWN_VALUE = 200


def print_differences(active: PolicyState, found: Sequence[Difference]) -> None:
    """Print how a policy differs from the active one, a line a field."""
    if not found:
        typer.echo(f"The same as {active.version}, which is active.")
        return
    typer.echo(f"Against {active.version}, which is active:")
    for one in found:
        typer.echo(f"  {_in_words(one)}")


def outcome_of(state: PolicyState, tenant: str) -> str:
    """Return what became of a policy that was applied."""
    if state.status is PolicyStatus.ACTIVE:
        return f"{state.version} of {tenant} is active."
    return f"{state.version} of {tenant} is a draft; --activate takes it into use."


def as_yaml(state: PolicyState) -> str:
    """Return a version as a file that can be applied again, with what is known of it above."""
    lines = [f"# {state.version}, {state.status}"]
    if state.created_at is not None:
        lines.append(f"# made {_moment(state.created_at)} by {state.created_by}")
    if state.activated_at is not None:
        lines.append(f"# last activated {_moment(state.activated_at)} by {state.activated_by}")
    if state.note:
        lines.append(f"# {state.note}")
    document = yaml.safe_dump(dict(state.policy), sort_keys=False, allow_unicode=True)
    return "\n".join([*lines, document])


def as_json(state: PolicyState, found: Sequence[Finding]) -> str:
    """Return a version as the API gives it."""
    shown = {**asdict(state), "warnings": [asdict(one) for one in found]}
    return PolicyOut.model_validate(shown).model_dump_json(indent=2)


def list_as_json(states: Sequence[PolicyState]) -> str:
    """Return versions as the API lists them."""
    shown = [PolicySummaryOut.model_validate(one).model_dump(mode="json") for one in states]
    return json.dumps(shown, indent=2, ensure_ascii=False)


def print_table(states: Sequence[PolicyState]) -> None:
    """Print versions, a line each."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("version", "status", "made", "by", "activated", "note"):
        table.add_column(header, overflow="fold", no_wrap=header == "version")
    for one in states:
        moments = [_moment(at) for at in (one.created_at, one.activated_at)]
        cells = (one.version, one.status, moments[0], one.created_by or "", moments[1], one.note)
        table.add_row(*map(Text, cells))
    console.print(table)


def _in_words(one: Difference) -> str:
    if one.before is None:
        return f"+ {one.field}{_value(': ', one.after)}"
    if one.after is None:
        return f"- {one.field}{_value(': ', one.before)}"
    return f"~ {one.field}: {_value('', one.before)} -> {_value('', one.after)}"


def _value(before: str, value: Any) -> str:  # noqa: ANN401 JSON
    """Return a value on one line; nothing for the name of a part."""
    if value == "":
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return before + (text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}…")


def _moment(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"
