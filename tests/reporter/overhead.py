"""What the reporter costs a training on the CPU: ``python -m tests.reporter.overhead [SECONDS [ROUNDS]]``.

Each run with it stands between two without, so that a noisy machine disturbs both alike. Printed are
the median of the ratios of wall time, the waiting at the end included, with the interval that holds
the true median in 19 of 20 such series (order statistics, no assumption of its shape), and the same of
the two runs without us, which shows what the machine's noise alone makes of nothing.

Beside it what does not depend on noise: the share of wall time that our hooks took in the training's
own thread, and the CPU time of our other threads as such a share. Together they bound what the
reporter can have taken from the training. The service stands in a process of its own.
"""

import math
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reporter.standin import free_port, standing_in_apart
from tests.reporter.trainings import StepMeter, a_trainer, plain_loop
from vramgate.reporter import report_peaks

ROUNDS = 6
ALPHA = 0.05
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


def compare(name: str, train: Any, mode: Any, *, seconds: float, rounds: int) -> None:
    """Print the cost of one way to train with the service in one state."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        folder = Path(made)
        # Not the first ones: they also load and warm up the libraries.
        each = min(train(None, 100, folder).wall_seconds for _ in range(3)) / 100
        steps = max(int(seconds / each), 200)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with nullcontext() if mode == "down" else standing_in_apart(mode, port):
            sandwiches = [
                [train(one, steps, folder) for one in (None, url, None)] for _ in range(rounds)
            ]
    ratios = [
        watched.wall_seconds / ((first.wall_seconds + last.wall_seconds) / 2)
        for first, watched, last in sandwiches
    ]
    of_nothing = [first.wall_seconds / last.wall_seconds for first, _, last in sandwiches]
    own = max(run.own_seconds / run.wall_seconds for _, run, _ in sandwiches)
    beside = max(run.beside_seconds / run.wall_seconds for _, run, _ in sandwiches)
    print(
        f"{name:8} {mode:6} {steps:5} steps  wall ratio {_median(ratios)}  "
        f"without us {_median(of_nothing)}  own share at most {own:.3%}  "
        f"CPU beside at most {beside:.3%}",
        flush=True,
    )


def _median(values: list[float]) -> str:
    """Return the median with the interval of order statistics that holds it in 19 of 20 series."""
    ordered = sorted(values)
    count, low = len(ordered), 0
    # The true median lies outside ranks low..count-low-1 with twice this binomial tail.
    while 2 * sum(math.comb(count, k) for k in range(low + 1)) / 2**count <= ALPHA:
        low += 1
    low = max(low - 1, 0)
    return f"{statistics.median(values):.4f} ({ordered[low]:.3f} to {ordered[count - 1 - low]:.3f})"


def main() -> None:
    """Compare both ways to train in every state of the service."""
    import torch  # noqa: PLC0415 as above
    import transformers  # noqa: PLC0415

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    for mode in MODES:
        compare("plain", plain, mode, seconds=seconds, rounds=rounds)
        compare("trainer", trainer, mode, seconds=seconds, rounds=rounds)


if __name__ == "__main__":
    main()
