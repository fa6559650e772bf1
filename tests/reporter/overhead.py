"""What the reporter costs a training on the CPU: ``python -m tests.reporter.overhead [SECONDS]``.

Runs with and without it take turns, so that a noisy machine disturbs both alike. Printed are the
ratio of the medians of wall time, the waiting at the end included, beside how far the runs without
us differ among themselves; the share of wall time that our hooks took in the training's own thread;
and the CPU time of all other threads as such a share (ours, and the stand-in service's, which is
in this process): the most they can have taken from the training.
"""

import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reporter.standin import free_port, standing_in
from tests.reporter.trainings import StepMeter, a_trainer, plain_loop
from vramgate.reporter import report_peaks

ROUNDS = 2
MODES: tuple[Any, ...] = ("ok", "down", "slow", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One run: its seconds, and ours among them."""

    wall_seconds: float
    beside_seconds: float
    own_seconds: float


class Clock:
    """Wall seconds, and CPU seconds of all threads but this one, since it was made."""

    def __init__(self) -> None:
        self._wall, self._beside = time.perf_counter(), _beside()

    def stop(self, own_seconds: float) -> Timed:
        """Return what went by."""
        return Timed(
            wall_seconds=time.perf_counter() - self._wall,
            beside_seconds=_beside() - self._beside,
            own_seconds=own_seconds,
        )


def _beside() -> float:
    return time.process_time() - time.thread_time()


def plain(url: str | None, steps: int, folder: Path) -> Timed:
    """Train in a plain loop, watched where an address is given."""
    clock = Clock()
    if url is None:
        plain_loop(None, steps=steps)
        return clock.stop(0.0)
    spool = tempfile.mkdtemp(dir=folder)
    with report_peaks("r1", job={}, url=url, memory=StepMeter(), spool=spool) as peaks:
        plain_loop(peaks, steps=steps)
    return clock.stop(peaks.overhead_seconds)


def trainer(url: str | None, steps: int, folder: Path) -> Timed:
    """Train with transformers' Trainer, watched where an address is given."""
    # Not above: collecting this file must not need them.
    import transformers  # noqa: PLC0415

    from vramgate.reporter import VramgateCallback  # noqa: PLC0415

    seen: list[Any] = []

    class Remembers(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if not seen and callbacks:
                seen.append(callbacks[0].reporter)

    options: dict[str, Any] = {"run_id": "r1", "url": url, "memory": StepMeter()}
    options["spool"] = tempfile.mkdtemp(dir=folder)
    callbacks = [] if url is None else [VramgateCallback(**options)]
    made = a_trainer(folder / "out", [*callbacks, Remembers()], steps=steps)
    clock = Clock()
    made.train()
    return clock.stop(seen[0].overhead_seconds if seen else 0.0)


def compare(name: str, train: Any, mode: Any, seconds: float) -> None:
    """Print the cost of one way to train with the service in one state."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        folder = Path(made)
        # Not the first ones: they also load and warm up the libraries.
        each = min(train(None, 100, folder).wall_seconds for _ in range(3)) / 100
        steps = max(int(seconds / each), 200)
        port = free_port()
        pairs = []
        with nullcontext() if mode == "down" else standing_in(mode, port):
            for turn in range(ROUNDS):
                order = (None, f"http://127.0.0.1:{port}")
                runs = {url: train(url, steps, folder) for url in order[:: (-1) ** turn]}
                pairs.append((runs[order[0]], runs[order[1]]))
    bare = [run.wall_seconds for run, _ in pairs]
    watched = [run for _, run in pairs]
    ratio = statistics.median(run.wall_seconds for run in watched) / statistics.median(bare)
    own = max(run.own_seconds / run.wall_seconds for run in watched)
    beside = max(run.beside_seconds / run.wall_seconds for run in watched)
    print(
        f"{name:8} {mode:6} {steps:5} steps, {statistics.median(bare):5.1f} s  "
        f"wall ratio {ratio:.4f} (runs without differ by {max(bare) / min(bare):.2f})  "
        f"own share at most {own:.3%}  CPU beside at most {beside:.3%}",
        flush=True,
    )


def main() -> None:
    """Compare both ways to train in every state of the service."""
    import torch  # noqa: PLC0415 as above
    import transformers  # noqa: PLC0415

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    for mode in MODES:
        compare("plain", plain, mode, seconds)
        compare("trainer", trainer, mode, seconds)


if __name__ == "__main__":
    main()
