"""What reports are compared with: FastAPI, the same shape, one row inserted a request."""

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel

from vramgate.wire.job import JobIn
from vramgate.wire.reports import ReportIn

POOL_SIZE = 10


class BareReport(ReportIn):
    """A report whose job is validated with it."""

    job: JobIn


class BareRequest(BaseModel):
    """A list of reports."""

    reports: list[BareReport]


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
    report_id = uuid.uuid4()
    text = body.model_dump_json()
    await request.app.state.pool.execute("INSERT INTO bare VALUES ($1, $2)", report_id, text)
    return {"items": [{"report_id": str(report_id), "status": "accepted"}]}


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ["BARE_PORT"]), log_level="warning", access_log=False)
