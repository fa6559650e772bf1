"""The reporter around real trainings on the CPU."""

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.reporter.standin import StandIn, free_port, standing_in
from tests.reporter.test_spool import drained
from tests.reporter.trainings import StepMeter, a_trainer, plain_loop, tiny_llama
from vramgate.reporter import report_peaks
from vramgate.reporter.spool import Spool

pytestmark = [
    pytest.mark.torch,
    # Other people's deprecations are not ours to fail on.
    pytest.mark.filterwarnings("default"),
]
torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")

# One thread: two cores that others use too make spinning threads wait for each other.
torch.set_num_threads(1)
SECONDS = 20.0
ALLOWED_SHARE = 0.01
_PATH = os.pathsep.join([str(Path.cwd()), str(Path("service").absolute())])


def _callback(**options: Any) -> Any:
    from vramgate.reporter import VramgateCallback  # noqa: PLC0415 needs transformers

    return VramgateCallback(memory=StepMeter(), **options)


def test_a_trainer_reports_its_arguments_and_its_live_model(
    service: StandIn, tmp_path: Path
) -> None:
    a_trainer(tmp_path, [_callback(url=service.url, run_id="t1")], steps=6).train()
    report = service.wait_for(2)[-1]
    assert report["outcome"] == "completed"
    launch = report["launch"]
    assert launch["framework"] == "transformers"
    assert launch["config"]["per_device_train_batch_size"] == 4
    assert launch["config"]["max_steps"] == 6
    assert launch["config"]["learning_rate"] == 1e-3
    assert "output_dir" not in launch["config"]
    assert "hub_token" not in launch["config"]
    model = tiny_llama(transformers)
    assert report["live_model"]["class_name"] == "LlamaForCausalLM"
    assert report["live_model"]["parameters"] == model.num_parameters()
    assert report["live_model"]["by_dtype"]["float32"]["bytes"] == 4 * model.num_parameters()
    assert report["live_model"]["config"]["hidden_size"] == 64
    assert report["software"]["transformers"] == transformers.__version__
    assert report["step_seconds"] > 0
    assert report["tokens_per_second"] > 0


def test_adapters_are_told_in_pefts_own_words(service: StandIn, tmp_path: Path) -> None:
    peft: Any = pytest.importorskip("peft")
    adapted = peft.get_peft_model(
        tiny_llama(transformers), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"])
    )
    callback = _callback(url=service.url, run_id="t1")
    a_trainer(tmp_path, [callback], steps=3, model=adapted).train()
    report = service.wait_for(1)[-1]
    told = report["launch"]["config"]["peft_config"]["default"]
    assert (told["r"], told["target_modules"]) == (4, ["q_proj", "v_proj"])
    # Per layer: q 64 → 64 and v 64 → 32, each with an A of 4 × in and a B of out × 4.
    by_hand = 2 * (4 * 64 + 64 * 4 + 4 * 64 + 32 * 4)
    assert report["live_model"]["trainable_parameters"] == by_hand


def test_inside_a_block_the_callback_joins_it_and_a_caught_error_is_told(
    service: StandIn, tmp_path: Path
) -> None:
    class Explodes(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *given: Any, **_: Any) -> None:
            if given[1].global_step == 4:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB.")

    trainer = a_trainer(tmp_path, [_callback(url="http://unused.example"), Explodes()], steps=9)
    block = report_peaks("t1", url=service.url, memory=StepMeter())
    with pytest.raises(torch.OutOfMemoryError) as caught, block:
        trainer.train()
    assert "1.50 GiB" in str(caught.value)
    report = service.wait_for(1)[-1]
    assert (report["outcome"], report["run_id"]) == ("oom", "t1")
    assert report["oom_message"] == str(caught.value)
    assert report["launch"]["framework"] == "transformers"
    assert report["live_model"]["class_name"] == "LlamaForCausalLM"


_DYING = """
import sys
from pathlib import Path
import torch, transformers
from tests.reporter.trainings import StepMeter, a_trainer
from vramgate.reporter import VramgateCallback

class Dies(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == 3:
            if sys.argv[3] == "oom":
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.")
            sys.exit(4)

callback = VramgateCallback(url=sys.argv[1], run_id="dying", memory=StepMeter())
a_trainer(Path(sys.argv[2]), [callback, Dies()], steps=9).train()
"""


@pytest.mark.parametrize(("way", "code", "outcome"), [("oom", 1, "oom"), ("exit", 4, "killed")])
def test_an_error_that_ends_the_process_is_told_by_the_callback_alone(
    service: StandIn, tmp_path: Path, way: str, code: int, outcome: str
) -> None:
    arguments = [sys.executable, "-W", "ignore", "-c", _DYING, service.url, str(tmp_path), way]
    run = subprocess.run(
        arguments, env={**os.environ, "PYTHONPATH": _PATH}, capture_output=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert run.returncode == code
    assert (b"OutOfMemoryError" in run.stderr) == (way == "oom")
    assert service.wait_for(1)[-1]["outcome"] == outcome


def test_two_trainings_in_one_process_are_two_runs(service: StandIn, tmp_path: Path) -> None:
    callback = _callback(url=service.url, run_id="twice")
    trainer = a_trainer(tmp_path, [callback], steps=2)
    trainer.train()
    trainer.train()
    ended = [one for one in service.wait_for(2) if one["outcome"] == "completed"]
    assert [report["run_id"] for report in ended] == ["twice", "twice-2"]


@pytest.mark.parametrize("home", ["lightning.pytorch", "pytorch_lightning"])
@pytest.mark.parametrize("fails", [False, True])
def test_lightning_reports_under_either_name(
    service: StandIn, tmp_path: Path, home: str, fails: bool
) -> None:
    pytest.importorskip(home)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LIGHTNING, home, service.url, str(fails)],
        env={**os.environ, "PYTHONPATH": _PATH},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (run.returncode != 0) == fails, run.stderr[-2000:]
    report = service.wait_for(1)[-1]
    assert report["outcome"] == ("oom" if fails else "completed")
    config = report["launch"]["config"]
    assert report["launch"]["framework"] == "lightning"
    assert (config["accumulate_grad_batches"], config["precision"]) == (2, "32-true")
    assert config["max_length"] == 16
    assert "api_key" not in config
    assert report["live_model"]["parameters"] == 4 * 2 + 2


_LIGHTNING = """
import importlib, sys, torch
L = importlib.import_module(sys.argv[1])
from tests.reporter.trainings import StepMeter
from vramgate.reporter import LightningVramgateCallback

class Net(L.LightningModule):
    def __init__(self, max_length=16, api_key="planted"):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(4, 2)
    def training_step(self, batch, index):
        if sys.argv[3] == "True" and index == 6:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

callback = LightningVramgateCallback(url=sys.argv[2], run_id="l1", memory=StepMeter())
assert isinstance(callback, L.Callback)
trainer = L.Trainer(
    max_steps=5, accelerator="cpu", devices=1, accumulate_grad_batches=2, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, callbacks=[callback],
)
trainer.fit(Net(), torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=2))
"""


@pytest.mark.parametrize("mode", ["down", "slow", "error"])
@pytest.mark.parametrize("kind", ["trainer", "plain"])
@pytest.mark.timeout(240)
def test_training_is_not_held_up_by_a_service_in_trouble(
    kind: str, mode: Any, tmp_path: Path, spool_folder: Path
) -> None:
    """Sum what our hooks take of the training's own thread: at most 1 % of its wall time.

    The wall time against the same run without us is noise on a shared machine; the benchmark
    ``python -m tests.reporter.overhead`` prints it.
    """
    port = free_port()
    serving = nullcontext(None) if mode == "down" else standing_in(mode, port)
    url = f"http://127.0.0.1:{port}"
    with serving as troubled:
        overhead, wall = _trained(kind, url, tmp_path)
        assert mode == "down" or (troubled is not None and troubled.requests >= 1)
    sys.stdout.write(f"{kind} {mode}: {overhead:.4f} s of {wall:.1f} s, {overhead / wall:.3%}\n")
    assert wall >= SECONDS * 0.8
    assert overhead / wall <= ALLOWED_SHARE
    # The end is kept; the floor before it is dropped, at the latest when the spool drains.
    assert 1 <= len(Spool(spool_folder).entries()) <= 2
    with standing_in("ok", port) as service:
        # The run's own thread may be waiting for the slow service still, with its file locked.
        until = time.monotonic() + 10
        while Spool(spool_folder).entries() and time.monotonic() < until:
            drained(spool_folder, url)
        drained(spool_folder, url)
        assert [report["outcome"] for report in service.acknowledged] == ["completed"]
    assert Spool(spool_folder).entries() == []


def _trained(kind: str, url: str, tmp_path: Path) -> tuple[float, float]:
    """Train for some twenty seconds and return our share and the whole."""
    began = time.perf_counter()
    plain_loop(None, steps=10)
    each = (time.perf_counter() - began) / 10
    steps = max(int(SECONDS / each), 200)
    began = time.perf_counter()
    if kind == "plain":
        with report_peaks("r1", job={}, url=url, memory=StepMeter()) as peaks:
            while time.perf_counter() - began < SECONDS:
                plain_loop(peaks, steps=50)
        return peaks.overhead_seconds, time.perf_counter() - began
    callback = _callback(url=url, run_id="r1")
    trainer = a_trainer(tmp_path, [callback, _StopAfter(SECONDS)], steps=steps * 100)
    seen: list[Any] = []
    trainer.add_callback(_Remembers(callback, seen))
    trainer.train()
    return seen[0].overhead_seconds, time.perf_counter() - began


class _StopAfter(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self, seconds: float) -> None:
        self._until = time.perf_counter() + seconds

    def on_step_end(self, *given: Any, **_: Any) -> None:
        given[2].should_training_stop = time.perf_counter() > self._until


class _Remembers(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self, callback: Any, seen: list[Any]) -> None:
        self._callback, self._seen = callback, seen

    def on_step_end(self, *_: Any, **__: Any) -> None:
        if not self._seen:
            self._seen.append(self._callback.reporter)
