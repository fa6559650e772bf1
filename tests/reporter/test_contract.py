"""What the reporter sends is what the service takes: its own shapes, and the service itself."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.cli.processes import serving
from tests.factories import a_job
from tests.reporter.standin import StandIn
from tests.reporter.test_disclosure import FakeArguments
from tests.reporter.test_session import Meter
from vramgate.reporter import report_peaks
from vramgate.reporter.callbacks.transformers import TransformersHooks
from vramgate.reporter.spool import Spool
from vramgate.wire.reports import ReportIn

CARD = {"max_allocated_bytes": 20 * 2**30, "max_reserved_bytes": 22 * 2**30}


class Parameter:
    """As much of a parameter as counting asks for."""

    dtype = "torch.bfloat16"
    device = "meta"
    requires_grad = True

    def numel(self) -> int:
        return 12

    def element_size(self) -> int:
        return 2

    def storage_offset(self) -> int:
        return 0

    def untyped_storage(self) -> Any:
        return SimpleNamespace(data_ptr=lambda: 0, _cdata=id(self))


class Model:
    config = SimpleNamespace(to_dict=lambda: {"hidden_size": 8, "dropout": float("nan")})

    def modules(self) -> list[object]:
        return []

    def parameters(self) -> list[Parameter]:
        return [Parameter()]


def test_every_report_of_a_run_fits_the_services_shape(
    service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train.py", "--note", "line\nline\x07", "\ud800", "--empty", ""]
    monkeypatch.setattr(sys, "argv", arguments)
    hooks = TransformersHooks(
        run_id="run\nwith a \0 break",
        url=service.url,
        memory=Meter(7),
        labels={
            "team\n": "x" * 999,
            "e\u0301": "combining",
            "": "nothing",
            **{f"l{i}": "v" for i in range(50)},
        },
    )
    hooks.on_train_begin(FakeArguments(), object(), object(), model=Model())
    for _ in range(4):
        hooks.on_step_end(FakeArguments(), object(), object())
    service.wait_for(1)
    assert hooks.reporter is not None
    hooks.reporter.finish(RuntimeError("CUDA out of memory." + "x\0\ud800" * 20_000))
    reports = service.wait_for(2)
    assert [report["outcome"] for report in reports] == ["running", "oom"]
    for report in reports:
        read = ReportIn.model_validate(report)
        assert read.live_model is not None
        assert (read.live_model.parameters, read.live_model.parameter_bytes) == (12, 24)


def test_the_service_itself_takes_a_run_of_four_ranks(tmp_path: Path, spool_folder: Path) -> None:
    job = a_job(hardware={"accelerator": "a100-sxm4-80gb", "devices": 4})
    with serving(tmp_path) as served:
        for rank in range(4):
            options: dict[str, Any] = {"rank": rank, "url": served.address, "memory": Meter(1)}
            with report_peaks("r1", job=job, **options) as peaks:
                peaks.measured(**CARD)
                for _ in range(3):
                    peaks.step(tokens=4096)
        until = time.monotonic() + 10
        while Spool(spool_folder).entries() and time.monotonic() < until:
            time.sleep(0.05)
        assert list(spool_folder.iterdir()) == []
        items = httpx.get(f"{served.address}/v1/reports").json()["items"]
    told = sorted((item["run_id"], item["rank"], item["outcome"]) for item in items)
    assert told == [("r1", rank, "completed") for rank in range(4)]
