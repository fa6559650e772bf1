"""Reports put into a database as the service puts them there."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from vramgate.access import LOCAL_CALLER, Caller, Scope, Tenant
from vramgate.persistence.engine import Database
from vramgate.persistence.idempotency import StoredAnswer
from vramgate.persistence.report_lists import Selection, Stretch, select_reports
from vramgate.persistence.reports import Recorded, Submission, write_submissions
from vramgate.persistence.tables import report_keys, reports
from vramgate.workflows.load_catalogs import load_catalogs
from vramgate.workflows.read_report import ReportReader

TENANT = LOCAL_CALLER.tenant.name


def a_caller(tenant: str = TENANT, name: str = "trainer", *scopes: Scope) -> Caller:
    """Return somebody of a tenant; without scopes named, with every one."""
    return Caller(name=name, tenant=Tenant(name=tenant), scopes=frozenset(scopes or {Scope.ADMIN}))


@cache
def reader() -> ReportReader:
    """Return the reader of reports; it remembers what jobs come to, so that tests are quick."""
    return ReportReader(load_catalogs())


def a_submission(
    items: Sequence[Mapping[str, Any]], caller: Caller, recorded: list[Recorded]
) -> Submission:
    """Return the items as one request; what becomes of them is added to ``recorded``."""

    def answer(outcomes: Sequence[Recorded]) -> StoredAnswer:
        recorded.extend(outcomes)
        return StoredAnswer(status=202, body="{}")

    return Submission(
        reports=tuple(reader().read(dict(one), caller) for one in items), answer=answer
    )


async def keep(
    database: Database, *items: Mapping[str, Any], caller: Caller = LOCAL_CALLER
) -> list[Recorded]:
    """Write the reports in one transaction; return what became of each."""
    recorded: list[Recorded] = []
    async with database.writing() as connection:
        await write_submissions(connection, [a_submission(items, caller, recorded)])
    return recorded


async def kept(database: Database, tenant: str = TENANT, **fields: Any) -> list[str]:  # noqa: ANN401 whatever a selection holds
    """Return the ids of a tenant's reports, the oldest change first."""
    async with database.reading() as connection:
        found = await select_reports(
            connection, Selection(tenant=tenant, **fields), Stretch(limit=100_000)
        )
    return [one.report_id for one in found.reports]


async def multiply(database: Database, times: int) -> None:
    """Add that many copies of the one report that is kept, as other ranks of its run."""
    copied = {"position": "position + i", "report_id": "report_id || '-' || i", "rank": "rank + i"}
    async with database.writing() as connection:
        for table in (reports, report_keys):
            names = [column.name for column in table.c]
            values = [copied.get(name, name) for name in names]
            await connection.execute(
                sa.text(
                    f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "  # noqa: S608 our own names
                    f"{times}) INSERT INTO {table.name} ({', '.join(names)}) "
                    f"SELECT {', '.join(values)} FROM {table.name}, n"
                )
            )
        await connection.execute(sa.text(f"UPDATE commit_clock SET position = {times + 1}"))  # noqa: S608 a number
    if not database.is_sqlite:
        async with database.engine.connect() as connection:
            settings = {"isolation_level": "AUTOCOMMIT"}
            await (await connection.execution_options(**settings)).execute(sa.text("ANALYZE"))


async def move_back(database: Database, report_id: str, moment: datetime) -> None:
    """Let a report have come at another time, as if the service had run then."""
    async with database.writing() as connection:
        for table in (reports, report_keys):
            await connection.execute(
                sa.update(table).where(table.c.report_id == report_id).values(received_at=moment)
            )
