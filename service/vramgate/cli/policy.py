"""``vramgate policy``: what a tenant wants of admissions, from a file to the service's database."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vramgate.access import LOCAL_CALLER, is_tenant_name
from vramgate.errors import DomainError, shortened

if TYPE_CHECKING:
    from vramgate.admission.lint import Finding
    from vramgate.catalog.accelerators import AcceleratorCatalog
    from vramgate.persistence.engine import Database
    from vramgate.workflows.show_policy import PolicyState

policy = typer.Typer(
    name="policy",
    help="Policies of admissions: check, store, activate and show them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

WARNED = 1
"""The exit code of `lint --strict` where something is probably not meant."""
_ACTIVE = "active"

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The policy as YAML or JSON; - is standard input.")
]
TenantOption = Annotated[str, typer.Option(help="Whose policy it is.")]
SiteCatalog = Annotated[
    Path | None,
    typer.Option(envvar="VRAMGATE_SITE_CATALOG", help="The site's own models and cards."),
]


class UnusablePolicyError(DomainError):
    """What was asked for cannot be done."""

    code = "unusable_policy"


@policy.command()
def lint(
    file: File,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings make the exit code 1.")] = (
        False
    ),
    site_catalog: SiteCatalog = None,
) -> None:
    """Check a policy file, without a database.

    What is wrong makes the exit code 2. What is probably not meant is a warning. Cards that a tenant
    keeps in its own catalog are known to `policy apply --dry-run` alone.
    """
    from vramgate.admission.lint import findings_in
    from vramgate.cli.launch_sources import name_of
    from vramgate.cli.policy_files import read_policy, usable_policy
    from vramgate.cli.policy_findings import print_findings
    from vramgate.workflows.load_catalogs import load_catalogs

    cards = load_catalogs(site_catalog).accelerators
    found = findings_in(usable_policy(read_policy(file), file, cards), datetime.now(UTC))
    print_findings(found)
    if not found:
        typer.echo(f"{name_of(file)}: nothing to say.")
    elif strict:
        raise typer.Exit(WARNED)


@policy.command()
def apply(
    file: File,
    *,
    activate: Annotated[
        bool,
        typer.Option("--activate", help="Take it into use; every replica follows in 5 seconds."),
    ] = False,
    note: Annotated[str, typer.Option(help="Why, for whoever reads the history.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")
    ] = False,
    tenant: TenantOption = LOCAL_CALLER.tenant.name,
) -> None:
    """Keep a policy file as a draft, or activate it.

    How it differs from the active version is printed first. To go back, apply what an older version
    was: `vramgate policy show VERSION | vramgate policy apply - --activate`.
    """
    from vramgate.admission.differences import differences
    from vramgate.admission.documents import policy_document
    from vramgate.cli.environment import on_the_database, user_of_this_command
    from vramgate.cli.policy_files import read_policy, usable_policy
    from vramgate.cli.policy_findings import print_findings
    from vramgate.cli.policy_text import outcome_of, print_differences
    from vramgate.wire.policies import PolicyRequest
    from vramgate.wire.validation import validated
    from vramgate.workflows.change_policy import create_policy
    from vramgate.workflows.show_policy import active_state
    from vramgate.workflows.show_policy import lint as look_at

    _check_tenant(tenant)
    validated(PolicyRequest, {"policy": {}, "note": note})
    given = read_policy(file)

    async def act(database: "Database") -> None:
        cards = await _cards_of(database, tenant)
        wanted = usable_policy(given, file, cards)
        active = await active_state(database, tenant)
        print_findings(await look_at(wanted, cards))
        print_differences(active, differences(active.policy, policy_document(wanted)))
        if dry_run:
            return
        actor = user_of_this_command()
        drafted = await create_policy(database, wanted, tenant=tenant, actor=actor, note=note)
        state = drafted.state
        if activate and state.version != active.version:
            state = await _activated(database, state, active, tenant=tenant, actor=actor)
        if note and not drafted.is_new:
            typer.echo("It was kept before, with the note of then.", err=True)
        typer.echo(outcome_of(state, tenant))

    on_the_database(act)


@policy.command()
def show(
    version: Annotated[
        str, typer.Argument(help="As `policy list` names it; `default` is the built-in one.")
    ] = _ACTIVE,
    *,
    tenant: TenantOption = LOCAL_CALLER.tenant.name,
    json: Annotated[bool, typer.Option("--json", help="Print it as the API gives it.")] = False,
) -> None:
    """Print a version, by default the active one.

    As YAML it is what `vramgate policy apply` takes again.
    """
    from vramgate.cli.environment import on_the_database
    from vramgate.cli.policy_findings import print_findings
    from vramgate.cli.policy_text import as_json, as_yaml
    from vramgate.workflows.show_policy import active_state, find_state, warnings_about

    _check_tenant(tenant)
    _check_version(version)

    async def act(database: "Database") -> "tuple[PolicyState, list[Finding]]":
        if version == _ACTIVE:
            state = await active_state(database, tenant)
        else:
            state = await find_state(database, tenant, version)
        return state, await warnings_about(state, await _cards_of(database, tenant))

    state, found = on_the_database(act)
    if json:
        typer.echo(as_json(state, found))
        return
    print_findings(found)
    typer.echo(as_yaml(state), nl=False)


@policy.command("list")
def list_policies(
    *,
    tenant: TenantOption = LOCAL_CALLER.tenant.name,
    json: Annotated[bool, typer.Option("--json", help="Print all that is known of them.")] = False,
) -> None:
    """List the versions of a tenant, the newest first."""
    from vramgate.cli.environment import on_the_database
    from vramgate.cli.policy_text import list_as_json, print_table
    from vramgate.workflows.change_policy import MOST_VERSIONS
    from vramgate.workflows.show_policy import list_states

    _check_tenant(tenant)

    async def act(database: "Database") -> "list[PolicyState]":
        return await list_states(database, tenant, after=None, limit=MOST_VERSIONS)

    found = on_the_database(act)
    if json:
        typer.echo(list_as_json(found))
    elif found:
        print_table(found)
    else:
        typer.echo(f"{tenant} has no policies; the built-in one holds.", err=True)


async def _cards_of(database: "Database", tenant: str) -> "AcceleratorCatalog":
    """Return the cards that a tenant may name: its own, the site's, the built-in ones."""
    from vramgate.cli.environment import settings_from_environment
    from vramgate.workflows.load_catalogs import load_catalogs
    from vramgate.workflows.tenant_catalogs import TenantCatalogs

    catalogs = TenantCatalogs(load_catalogs(settings_from_environment().site_catalog))
    async with catalogs.reading(database):
        return (await catalogs.refreshed(tenant)).catalogs.accelerators


async def _activated(
    database: "Database", draft: "PolicyState", seen: "PolicyState", *, tenant: str, actor: str
) -> "PolicyState":
    """Activate a version in the place of the one that was seen.

    Raises:
        UnusablePolicyError: somebody activated another meanwhile.
    """
    from vramgate.workflows.change_catalog import PreconditionFailedError
    from vramgate.workflows.change_policy import activate_policy
    from vramgate.workflows.show_policy import tag_of

    try:
        return await activate_policy(
            database,
            tenant=tenant,
            actor=actor,
            version=draft.version,
            match=frozenset({tag_of(seen)}),
        )
    except PreconditionFailedError as error:
        raise UnusablePolicyError(
            f"Somebody activated another policy of {tenant} meanwhile; {draft.version} is a draft.",
            hint="Say the same again to see what it would change now.",
        ) from error


def _check_tenant(tenant: str) -> None:
    if not is_tenant_name(tenant):
        raise UnusablePolicyError(
            f"{shortened(tenant, 80)!r} cannot be a tenant.",
            hint="`vramgate token list` shows the tenants that have tokens.",
        )


def _check_version(version: str) -> None:
    from vramgate.wire.policies import MAX_VERSION, VERSION_PATTERN

    if len(version) > MAX_VERSION or re.fullmatch(VERSION_PATTERN, version) is None:
        raise UnusablePolicyError(
            f"{shortened(version, 80)!a} cannot be a version.",
            hint="`vramgate policy list` shows them.",
        )
