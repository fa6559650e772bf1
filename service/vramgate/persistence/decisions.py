"""Decisions written: each once a tenant and id, whoever sends it again; and one of them read whole.

Writers take no turns: nothing depends on the order in which decisions become visible. What two of
them may both bring is inserted in one order, so that they never wait for each other in a ring.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.record import KeptDecision
from vramgate.admission.stored import ListedDecision, StoredDecision
from vramgate.persistence.audit import entry_row
from vramgate.persistence.bulk_insert import Rows, insert_rows
from vramgate.persistence.decision_documents import ANSWERS, SUBJECTS, document_of_decision
from vramgate.persistence.tables import (
    KEPT_ONCE,
    admission_answers,
    admission_subjects,
    audit,
    decision_keys,
    decision_runs,
    decisions,
)

FORMAT_VERSION = 1
"""Of the documents in ``admission_subjects`` and ``admission_answers``."""
BREAK_GLASS = "admission.break_glass"
"""The action in the audit trail: somebody had a job let through by saying why."""

Key: TypeAlias = tuple[str, str]
"""A tenant and the id of one of its decisions."""

_GIVEN = tuple(column.name for column in decisions.c if column.name != "recorded_at")
"""The columns that are fields of a ``KeptDecision``."""
_BROUGHT = ("subjects", "answers", "trail")
_TABLES = {
    "new": decisions,
    "subjects": admission_subjects,
    "answers": admission_answers,
    "trail": audit,
}
LISTED = tuple(one.name for one in fields(ListedDecision))
"""The columns that are fields of a ``ListedDecision``: all of them."""


async def write_decisions(connection: AsyncConnection, given: Sequence[KeptDecision]) -> list[bool]:
    """Insert the decisions that are not there yet; return of each whether it was new.

    One that comes again, in the same batch too, leaves the first as it is.
    """
    batch: dict[Key, KeptDecision] = {}
    for one in given:
        batch.setdefault(_key(one), one)
    if not batch:
        return []
    write = _write_at_once if connection.dialect.name == "postgresql" else _write_by_table
    new = await write(connection, batch)
    return [_is_first(new, _key(one)) for one in given]


async def find_decision(
    connection: AsyncConnection, *, tenant: str, decision_id: str
) -> StoredDecision | None:
    """Return a decision of the tenant's own with all that belongs to it; None where there is none."""
    found = await connection.execute(_whole(), {"tenant": tenant, "decision_id": decision_id})
    row = found.mappings().one_or_none()
    if row is None:
        return None
    return StoredDecision(
        **listed_fields(row), subject=row["subject"], answer=row["answer"], run_id=row["run_id"]
    )


def listed_fields(row: sa.RowMapping) -> dict[str, Any]:
    """Return a row as the fields of a ``ListedDecision``."""
    return {
        **{name: row[name] for name in LISTED},
        "channel": Channel(row["channel"]),
        "mode": Mode(row["mode"]),
        "verdict": Verdict(row["verdict"]),
        "decision": Verdict(row["decision"]),
    }


def _key(one: KeptDecision) -> Key:
    return one.tenant, one.decision_id


def _is_first(new: set[Key], key: Key) -> bool:
    """Return whether the key is new, and take it out: what has it next is not."""
    is_new = key in new
    new.discard(key)
    return is_new


# ---------------------------------------------------------------- rows


def _rows(batch: Iterable[KeptDecision]) -> dict[str, Rows]:
    """Return what the decisions bring, in one order whoever brings it."""
    ordered = sorted(batch, key=_key)
    documents: tuple[dict[Key, dict[str, Any]], dict[Key, dict[str, Any]]] = ({}, {})
    for one in ordered:
        for kept, name in zip(documents, ("subject", "answer"), strict=True):
            digest = getattr(one, f"{name}_digest")
            kept[one.tenant, digest] = {
                "tenant": one.tenant,
                f"{name}_digest": digest,
                "format_version": FORMAT_VERSION,
                "document": getattr(one, name),
            }
    subjects, answers = ([kept[key] for key in sorted(kept)] for kept in documents)
    return {
        "new": [{name: getattr(one, name) for name in _GIVEN} for one in ordered],
        "subjects": subjects,
        "answers": answers,
        "trail": [_told(one) for one in ordered if one.break_glass is not None],
    }


def _told(one: KeptDecision) -> dict[str, Any]:
    detail = {
        "reason": one.break_glass,
        "submitter": one.submitter,
        "external_id": one.external_id,
    }
    return entry_row(
        tenant=one.tenant,
        actor=one.caller,
        action=BREAK_GLASS,
        subject=one.decision_id,
        detail=detail,
    )


# ---------------------------------------------------------------- SQLite


async def _write_by_table(
    connection: AsyncConnection, batch: Mapping[Key, KeptDecision]
) -> set[Key]:
    """Look which are there, then insert the others: SQLite has one writer, so that stays true."""
    given = {"wanted": json.dumps(list(batch))}
    there = {(row.tenant, row.decision_id) for row in await connection.execute(_taken(), given)}
    new = {key: one for key, one in batch.items() if key not in there}
    rows = _rows(new.values())
    now = datetime.now(UTC)
    await insert_rows(
        connection,
        {
            decision_keys: [_key_row(one) for one in rows["new"]],
            decisions: [{**one, "recorded_at": now} for one in rows["new"]],
            **{_TABLES[name]: rows[name] for name in _BROUGHT},
        },
    )
    return set(new)


def _key_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {column.name: row[column.name] for column in decision_keys.c}


@cache
def _taken() -> sa.Select[Any]:
    value = sa.func.json_each(sa.bindparam("wanted", type_=sa.Text)).table_valued("value").c.value
    tenant, decision_id = (
        sa.func.json_extract(value, f"$[{index}]", type_=sa.Text()) for index in range(2)
    )
    keys = decision_keys.c
    return sa.select(keys.tenant, keys.decision_id).where(
        keys.tenant == tenant, keys.decision_id == decision_id
    )


# ---------------------------------------------------------------- PostgreSQL


async def _write_at_once(
    connection: AsyncConnection, batch: Mapping[Key, KeptDecision]
) -> set[Key]:
    rows = _rows(batch.values())
    given: dict[str, Any] = {"recorded_at": datetime.now(UTC)}
    for name, table in _TABLES.items():
        for column in _columns(name, table):
            given[f"{name}_{column}"] = [row[column] for row in rows[name]]
    inserted = await connection.execute(_insert(), given)
    return {(row.tenant, row.decision_id) for row in inserted}


@cache
def _insert() -> sa.Executable:
    """Return the one statement: the keys that are free, and whatever belongs to those."""
    new = _unnested("new")
    names = [column.name for column in decision_keys.c]
    in_order = sa.select(*(new.c[name] for name in names)).order_by(*_key_of(new))
    keys = (
        postgres_insert(decision_keys)
        .from_select(names, in_order)
        .on_conflict_do_nothing()
        .returning(decision_keys.c.tenant, decision_keys.c.decision_id)
        .cte("keys")
    )
    moment = sa.bindparam("recorded_at", type_=decisions.c.recorded_at.type)
    kept = sa.insert(decisions).from_select(
        [*_GIVEN, "recorded_at"], sa.select(*new.c, moment).join(keys, _is_in(new, keys))
    )
    return sa.select(*_key_of(keys)).add_cte(
        kept.cte("kept"),
        _brought("subjects", _of_new(new, keys, "subject_digest")),
        _brought("answers", _of_new(new, keys, "answer_digest")),
        _brought("trail", sa.select(*_key_of(keys))),
    )


def _of_new(new: sa.CTE, keys: sa.CTE, digest: str) -> sa.SelectBase:
    """Return the digests of documents that the new decisions refer to."""
    return sa.select(new.c.tenant, new.c[digest]).join(keys, _is_in(new, keys))


def _is_in(new: sa.CTE, keys: sa.CTE) -> sa.ColumnElement[bool]:
    return sa.and_(*(one == other for one, other in zip(_key_of(new), _key_of(keys), strict=True)))


def _key_of(rows: sa.FromClause) -> tuple[sa.ColumnElement[str], ...]:
    return rows.c.tenant, rows.c.decision_id


def _brought(name: str, wanted: sa.SelectBase) -> sa.CTE:
    """Return the insertion of rows that are wanted and not there yet, in the order of their keys."""
    table = _TABLES[name]
    rows = _unnested(name)
    said_by = rows.c.subject if table is audit else list(rows.c)[1]
    chosen = (
        sa.select(*rows.c)
        .where(sa.tuple_(rows.c.tenant, said_by).in_(wanted))
        .order_by(rows.c.tenant, said_by)
    )
    insert = postgres_insert(table).from_select(rows.c.keys(), chosen)
    if table.info.get(KEPT_ONCE):
        insert = insert.on_conflict_do_nothing()
    return insert.cte(f"into_{name}")


def _unnested(name: str) -> sa.CTE:
    """Return the rows that are given as arrays, one a column."""
    table = _TABLES[name]
    kinds = {column: table.c[column].type for column in _columns(name, table)}
    arrays: list[sa.BindParameter[Any]] = [
        sa.bindparam(f"{name}_{column}", type_=sa.ARRAY(kind)) for column, kind in kinds.items()
    ]
    rows = (
        sa.func.unnest(*arrays)
        .table_valued(*(sa.column(column, kind) for column, kind in kinds.items()))
        .render_derived()
    )
    return sa.select(*rows.c).cte(name)


def _columns(name: str, table: sa.Table) -> Sequence[str]:
    return _GIVEN if name == "new" else table.c.keys()


@cache
def _whole() -> sa.Select[Any]:
    """Return one decision with its documents, found by its key."""
    keys = decision_keys
    is_there = sa.and_(
        decisions.c.decided_at == keys.c.decided_at,
        decisions.c.decision_id == keys.c.decision_id,
        decisions.c.tenant == keys.c.tenant,
    )
    return (
        sa.select(
            *(decisions.c[name] for name in LISTED),
            document_of_decision(SUBJECTS).label("subject"),
            document_of_decision(ANSWERS).label("answer"),
            decision_runs.c.run_id,
        )
        .select_from(keys)
        .join(decisions, is_there)
        .outerjoin(
            decision_runs,
            sa.and_(
                decision_runs.c.tenant == keys.c.tenant,
                decision_runs.c.decision_id == keys.c.decision_id,
            ),
        )
        .where(
            keys.c.tenant == sa.bindparam("tenant"),
            keys.c.decision_id == sa.bindparam("decision_id"),
        )
    )
