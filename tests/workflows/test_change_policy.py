"""Policies drafted, activated, retired: one wins, nothing is lost, everything is on record."""

import asyncio
from typing import Any

import pytest

from tests.databases import rows_of
from vramgate.admission.decision import Mode
from vramgate.admission.documents import policy_document
from vramgate.admission.policy import DEFAULT_POLICY, AdmissionPolicy
from vramgate.json_text import canonical, digest_of
from vramgate.persistence import tables
from vramgate.persistence.audit import AuditEntry, entries_of
from vramgate.persistence.engine import Database
from vramgate.workflows import change_policy
from vramgate.workflows.change_catalog import PreconditionFailedError, PreconditionRequiredError
from vramgate.workflows.change_policy import (
    Drafted,
    NotADraftError,
    PoliciesFullError,
    activate_policy,
    create_policy,
    retire_policy,
)
from vramgate.workflows.show_policy import (
    PolicyState,
    UnknownPolicyError,
    active_state,
    find_state,
    tag_of,
)

TENANT = "team-a"


def _policy(risk: float = 0.01, **fields: Any) -> AdmissionPolicy:  # noqa: ANN401 whatever a policy holds
    return AdmissionPolicy(risk=risk, **fields)


async def _draft(
    database: Database, risk: float = 0.02, *, tenant: str = TENANT, note: str = ""
) -> Drafted:
    return await create_policy(database, _policy(risk), tenant=tenant, actor="ann", note=note)


async def _activate(
    database: Database, version: str, *tags: str, tenant: str = TENANT
) -> PolicyState:
    return await activate_policy(
        database, tenant=tenant, actor="bob", version=version, match=frozenset(tags or {"*"})
    )


async def _retire(database: Database, version: str, *tags: str) -> PolicyState:
    return await retire_policy(
        database, tenant=TENANT, actor="bob", version=version, match=frozenset(tags or {"*"})
    )


async def _acts(database: Database) -> list[AuditEntry]:
    async with database.reading() as connection:
        found = await entries_of(connection, tenant=TENANT, before=None, limit=100)
    return list(reversed(found))


async def test_a_draft_is_named_after_its_document_and_changes_nothing(database: Database) -> None:
    drafted = await _draft(database, note="tighter")
    digest = digest_of(canonical(policy_document(_policy(0.02))))
    assert drafted.is_new
    assert drafted.state.version == f"p-{digest[:12]}"
    assert (drafted.state.status, drafted.state.note, drafted.state.created_by) == (
        "draft",
        "tighter",
        "ann",
    )
    assert drafted.state.policy == policy_document(_policy(0.02))
    assert (await active_state(database, TENANT)).version == "default"


async def test_the_same_document_is_the_same_version_while_it_is_in_use(
    database: Database,
) -> None:
    first = await _draft(database)
    again = await _draft(database, note="another note")
    assert (again.is_new, again.state) == (False, first.state)
    await _activate(database, first.state.version)
    active = await _draft(database)
    assert (active.is_new, active.state.status) == (False, "active")
    other = await _draft(database, tenant="team-b")
    assert (other.is_new, other.state.version) == (True, first.state.version)


async def test_a_document_drafted_anew_gets_a_name_of_its_own(database: Database) -> None:
    first = (await _draft(database)).state.version
    names = [first]
    for _ in range(2):
        await _retire(database, names[-1])
        names.append((await _draft(database)).state.version)
    assert names == [first, f"{first}-2", f"{first}-3"]


async def test_of_many_who_draft_the_same_one_does(database: Database) -> None:
    drafted = await asyncio.gather(*(_draft(database) for _ in range(5)))
    assert sorted(one.is_new for one in drafted) == [False] * 4 + [True]
    assert len({one.state.version for one in drafted}) == 1


async def test_activating_puts_one_into_the_place_of_the_other(database: Database) -> None:
    one, two = [(await _draft(database, risk)).state for risk in (0.02, 0.03)]
    active = await _activate(database, one.version, tag_of(one))
    assert (active.status, active.active_version, active.activated_by) == (
        "active",
        one.version,
        "bob",
    )
    await _activate(database, two.version)
    before = await find_state(database, TENANT, one.version)
    assert (before.status, before.active_version) == ("retired", two.version)
    assert before.retired_at is not None
    # Rollback.
    again = await _activate(database, one.version)
    assert (again.status, again.retired_at) == ("active", None)
    assert (await find_state(database, TENANT, two.version)).status == "retired"


async def test_default_returns_to_the_built_in_policy(database: Database) -> None:
    one = (await _draft(database)).state.version
    built_in = await find_state(database, TENANT, "default")
    assert (built_in.status, built_in.policy) == ("active", policy_document(DEFAULT_POLICY))
    await _activate(database, one)
    assert (await find_state(database, TENANT, "default")).status == "retired"
    state = await _activate(database, "default")
    assert (state.version, state.status, state.active_version) == ("default", "active", "default")
    assert (await find_state(database, TENANT, one)).status == "retired"


async def test_either_tag_holds_until_somebody_activates_another(database: Database) -> None:
    one, two = [(await _draft(database, risk)).state for risk in (0.02, 0.03)]
    shown, active = tag_of(one), tag_of(await active_state(database, TENANT))
    assert shown != active
    await _activate(database, two.version, active)
    for tag in (shown, active, tag_of(two)):
        with pytest.raises(PreconditionFailedError):
            await _activate(database, one.version, tag)
    now = tag_of(await active_state(database, TENANT))
    assert (await _activate(database, one.version, "other", now)).status == "active"


async def test_what_was_activated_left_and_activated_again_is_another_state(
    database: Database,
) -> None:
    one, two, three = [(await _draft(database, risk)).state.version for risk in (0.02, 0.03, 0.04)]
    await _activate(database, one)
    seen = tag_of(await find_state(database, TENANT, three))
    await _activate(database, two)
    await _activate(database, one)
    with pytest.raises(PreconditionFailedError):
        await _activate(database, three, seen)


async def test_of_two_who_activate_at_once_one_wins(database: Database) -> None:
    drafts = [(await _draft(database, risk)).state for risk in (0.02, 0.03, 0.04, 0.05)]
    for _ in range(3):
        tag = tag_of(await active_state(database, TENANT))
        others = [one.version for one in drafts]
        current = (await active_state(database, TENANT)).version
        told = await asyncio.gather(
            *(_activate(database, one, tag) for one in others if one != current),
            return_exceptions=True,
        )
        winners = [one for one in told if isinstance(one, PolicyState)]
        losers = [one for one in told if isinstance(one, PreconditionFailedError)]
        assert (len(winners), len(losers)) == (1, len(told) - 1)
        assert (await active_state(database, TENANT)).version == winners[0].version


async def test_of_two_administrators_who_return_to_default_and_activate_one_wins(
    database: Database,
) -> None:
    one, two = [(await _draft(database, risk)).state.version for risk in (0.02, 0.03)]
    await _activate(database, one)
    tag = tag_of(await active_state(database, TENANT))
    told = await asyncio.gather(
        _activate(database, "default", tag),
        _activate(database, two, tag),
        return_exceptions=True,
    )
    assert sum(isinstance(one, PreconditionFailedError) for one in told) == 1


async def test_activating_what_is_active_changes_nothing(database: Database) -> None:
    one = (await _draft(database)).state.version
    active = await _activate(database, one)
    assert await _activate(database, one, tag_of(active)) == active
    assert [act.action for act in await _acts(database)] == ["policy.create", "policy.activate"]


async def test_nothing_changes_without_saying_what_is_meant(database: Database) -> None:
    one = (await _draft(database)).state.version
    for change in (activate_policy, retire_policy):
        with pytest.raises(PreconditionRequiredError):
            await change(database, tenant=TENANT, actor="bob", version=one, match=None)
        with pytest.raises(PreconditionFailedError):
            await change(database, tenant=TENANT, actor="bob", version=one, match=frozenset())
        with pytest.raises(UnknownPolicyError):
            await change(
                database, tenant="team-b", actor="bob", version=one, match=frozenset({"*"})
            )
    assert (await find_state(database, TENANT, one)).status == "draft"


async def test_only_drafts_are_taken_back(database: Database) -> None:
    one, two = [(await _draft(database, risk)).state.version for risk in (0.02, 0.03)]
    await _activate(database, one)
    with pytest.raises(NotADraftError, match="is active") as caught:
        await _retire(database, one)
    assert "Activate another" in caught.value.hint
    assert (await _retire(database, two)).status == "retired"
    for version in (two, "default"):
        with pytest.raises(NotADraftError):
            await _retire(database, version)


async def test_acts_are_on_record_with_what_was_before_and_after(database: Database) -> None:
    one = (await _draft(database, note="why")).state
    two = (await _draft(database, 0.03)).state.version
    await _activate(database, one.version)
    await _activate(database, two)
    await _activate(database, "default")
    await _retire(database, (await _draft(database, 0.04)).state.version)
    acts = [(one.action, one.actor, one.subject, one.detail) for one in await _acts(database)]
    digest = digest_of(canonical(one.policy))
    assert acts[0] == ("policy.create", "ann", one.version, {"digest": digest, "note": "why"})
    assert [(act[0], act[3]) for act in acts[2:5]] == [
        ("policy.activate", {"before": "default", "after": one.version}),
        ("policy.activate", {"before": one.version, "after": two}),
        ("policy.activate", {"before": two, "after": "default"}),
    ]
    assert acts[-1][0] == "policy.retire"


async def test_the_oldest_that_was_never_active_makes_room(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_policy, "MOST_VERSIONS", 3)
    one, two, three = [(await _draft(database, risk)).state.version for risk in (0.02, 0.03, 0.04)]
    with pytest.raises(PoliciesFullError) as caught:
        await _draft(database, 0.05)
    assert "Retire drafts" in caught.value.hint
    # One that was active stays for whoever asks what a decision was made by.
    await _activate(database, one)
    await _activate(database, "default")
    with pytest.raises(PoliciesFullError):
        await _draft(database, 0.05)
    await _retire(database, three)
    await _retire(database, two)
    assert (await _draft(database, 0.05)).is_new
    kept = {row["version"] for row in await rows_of(database, tables.policies)}
    assert (one in kept, two in kept, three in kept) == (True, True, False)
    # Another tenant has its own room.
    assert (await _draft(database, 0.05, tenant="team-b")).is_new


async def test_documents_are_bounded_together(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = (await _draft(database)).state
    characters = len(canonical(one.policy))
    monkeypatch.setattr(change_policy, "MOST_CHARACTERS", 2 * characters)
    two = (await _draft(database, 0.03)).state.version
    with pytest.raises(PoliciesFullError):
        await _draft(database, 0.04)
    await _retire(database, two)
    assert (await _draft(database, 0.04)).is_new


async def test_a_mode_is_kept_as_a_word(database: Database) -> None:
    policy = AdmissionPolicy(mode=Mode.ENFORCE)
    drafted = await create_policy(database, policy, tenant=TENANT, actor="ann", note="")
    (row,) = await rows_of(database, tables.policies)
    assert '"mode":"enforce"' in row["document"]
    assert row["digest"] == digest_of(row["document"])
    assert row["status"] == drafted.state.status.value == "draft"
