"""What the service is compared with: FastAPI, the same shapes, one row inserted a request."""

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel

from vramgate.wire.admissions import AdmitRequest
from vramgate.wire.job import JobIn
from vramgate.wire.reports import ReportIn

POOL_SIZE = 10


class BareReport(ReportIn):
    """A report whose job is validated with it."""

    job: JobIn


class BareRequest(BaseModel):
    """A list of reports."""

    reports: list[BareReport]


class BareQuestion(AdmitRequest):
    """A question whose job is validated with it."""

    job: JobIn


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["BARE_DATABASE"], min_size=POOL_SIZE) as pool:
        await pool.execute("CREATE TABLE IF NOT EXISTS bare (id uuid PRIMARY KEY, body text)")
        app.state.pool = pool
        yield


app = FastAPI(lifespan=_lifespan)


@app.post("/v1/reports", status_code=202)
async def create(request: Request, body: BareRequest) -> dict[str, Any]:
    """Insert one row and answer."""
    report_id = await _inserted(request, body)
    return {"items": [{"report_id": report_id, "status": "accepted"}]}


@app.post("/v1/admit")
async def admit(request: Request, body: BareQuestion) -> dict[str, Any]:
    """Insert one row and answer, without looking at the job."""
    return {"decision_id": await _inserted(request, body), "decision": "allow"}


async def _inserted(request: Request, body: BaseModel) -> str:
    row_id = uuid.uuid4()
    await request.app.state.pool.execute(
        "INSERT INTO bare VALUES ($1, $2)", row_id, body.model_dump_json()
    )
    return str(row_id)


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ["BARE_PORT"]), log_level="warning", access_log=False)
