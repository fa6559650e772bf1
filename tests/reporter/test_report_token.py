"""A job with nothing but the ``report_token`` of its admission in its environment."""

import asyncio
import io
import json
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.processes import serving
from tests.databases import rows_of
from tests.factories import a_job
from tests.kept_decisions import a_decision, keep_decisions
from tests.reporter.standin import StandIn
from tests.reporter.test_report_command import Run, run
from tests.reporter.test_session import Meter
from tests.reporter.test_spool import a_report
from vramgate.authentication.bearer_tokens import SecretKey
from vramgate.authentication.report_tokens import new_report_token
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import signing_keys
from vramgate.reporter import report_peaks
from vramgate.reporter.drain import drain
from vramgate.reporter.send import Sender
from vramgate.reporter.settings import Destination, destination
from vramgate.reporter.spool import Spool

DECISION = "01900000-0000-7000-8000-000000000001"
OTHER = "01900000-0000-7000-8000-000000000002"
CARD = {"max_allocated_bytes": 22 * 2**30, "max_reserved_bytes": 24 * 2**30}

__all__ = ["run"]


def a_token(decision_id: str = DECISION, key: bytes = b"\x0b" * 32, tenant: str = "team-a") -> str:
    """Return a report token as the service makes it."""
    return new_report_token(
        tenant=tenant,
        decision_id=decision_id,
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        key=SecretKey(key_id="own", key=key),
    )


@pytest.mark.parametrize(
    "token", [None, "", "secret", "vg_abc", "vgr_", "vgr_x", f"vgr_{DECISION}", f"x{a_token()}"]
)
def test_other_tokens_stand_for_no_decision(token: str | None) -> None:
    assert Destination(url="http://h", token=token).decision_id is None


def test_the_decision_is_read_from_the_token_of_the_service() -> None:
    given = {"VRAMGATE_URL": "http://h", "VRAMGATE_TOKEN": f" {a_token()}\n"}
    to = destination(None, None, given)
    assert to is not None
    assert to.decision_id == DECISION


@pytest.mark.parametrize("said", [None, OTHER])
def test_the_token_alone_tells_what_the_run_is_of(
    service: StandIn, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.setenv("VRAMGATE_URL", service.url)
    monkeypatch.setenv("VRAMGATE_TOKEN", a_token())
    if said is not None:
        # Left over from the job around this one: the token would not be taken with it.
        monkeypatch.setenv("VRAMGATE_DECISION_ID", said)
    with report_peaks("r1", memory=Meter(1)):
        pass
    (report,) = service.wait_for(1)
    assert report["decision_id"] == DECISION
    assert not {"job", "launch"} & report.keys()


def test_a_job_that_is_described_is_told_beside_the_decision(service: StandIn) -> None:
    options: dict[str, Any] = {"url": service.url, "token": a_token(), "memory": Meter(1)}
    with report_peaks("r1", job={"model": {"name": "gpt2"}}, **options):
        pass
    with report_peaks("r2", launch={"command": "python train.py"}, **options):
        pass
    first, second = service.wait_for(2)
    assert (first["decision_id"], first["job"]) == (DECISION, {"model": {"name": "gpt2"}})
    assert (second["decision_id"], second["launch"]["command"]) == (DECISION, "python train.py")


def test_what_other_runs_left_is_not_sent_as_this_decisions(
    service: StandIn, spool_folder: Path
) -> None:
    spool = Spool(spool_folder)
    spool.put(a_report("theirs"), service.url)
    spool.put(a_report("others", decision_id=OTHER), service.url)
    spool.put(a_report("ours", decision_id=DECISION), service.url)
    to = Destination(url=service.url, token=a_token())
    with closing(Sender(to)) as sender:
        assert drain(spool, sender, to.url, decision_id=to.decision_id).sent == 1
    assert [one["run_id"] for one in service.acknowledged] == ["ours"]
    with report_peaks("r1", memory=Meter(1), url=service.url, token=a_token()):
        pass
    service.wait_for(2)
    # A token of the site's takes the rest along.
    with closing(Sender(Destination(url=service.url, token="site"))) as sender:  # noqa: S106 none
        assert drain(spool, sender, service.url).sent == 2
    assert [one["run_id"] for one in service.acknowledged] == ["ours", "r1", "theirs", "others"]


def test_an_epilog_needs_the_token_alone(
    run: Run, service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = io.TextIOWrapper(io.BytesIO(b'{"run_id":"slurm-8","outcome":"killed"}'))
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setenv("VRAMGATE_TOKEN", a_token())
    assert run("--file", "-", "--url", service.url)[0] == 0
    (report,) = service.acknowledged
    assert report == {"run_id": "slurm-8", "outcome": "killed", "decision_id": DECISION}


def test_a_filed_report_tells_one_job_at_most(run: Run, service: StandIn, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    both = a_report(launch={"command": "python train.py"})
    path.write_text(json.dumps(both))
    code, _, err = run("--file", path, "--url", service.url)
    assert (code, service.requests) == (2, 0)
    assert "both a job and a launch" in err
    path.write_text(json.dumps(a_report(decision_id=DECISION)))
    assert run("--file", path, "--url", service.url)[0] == 0


async def _decided(file: Path) -> str:
    """Store a decision in the database of a running service; return the token of its answer."""
    database = Database(f"sqlite:///{file}")
    made = a_decision(decision_id=DECISION, subject={"job": a_job(), "launch": None})
    await keep_decisions(database, made)
    (row,) = await rows_of(database, signing_keys)
    await database.close()
    return a_token(made.decision_id, key=bytes(row["key"]), tenant=made.tenant)


def test_the_service_takes_the_report_of_a_job_with_its_token(
    tmp_path: Path, spool_folder: Path
) -> None:
    with serving(tmp_path) as served:
        (file,) = tmp_path.rglob("*.db")
        token = asyncio.run(_decided(file))
        with report_peaks("r1", url=served.address, token=token, memory=Meter(1)) as peaks:
            peaks.measured(**CARD)
            peaks.step()
            peaks.step()
        until = time.monotonic() + 10
        while Spool(spool_folder).entries() and time.monotonic() < until:
            time.sleep(0.05)
        assert list(spool_folder.iterdir()) == []
        answer = httpx.get(
            f"{served.address}/v1/reports", headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 403
        # A second run with the same token is refused, and kept for a person to see.
        with report_peaks("r2", url=served.address, token=token, memory=Meter(1)) as peaks:
            peaks.measured(**CARD)
        until = time.monotonic() + 10
        while not list(spool_folder.glob("*.rejected")) and time.monotonic() < until:
            time.sleep(0.05)
    (rejected,) = spool_folder.glob("*.rejected")
    assert json.loads(rejected.read_text())["problem"]["code"] == "other_run"
