"""``report_peaks``: watches one process of a training run and reports its peaks."""

import datetime
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from vramgate.reporter import disclosure, settings
from vramgate.reporter.composition import composed
from vramgate.reporter.measure import MemorySource, Peaks, TorchMemory
from vramgate.reporter.notices import harmless, log, say_failed
from vramgate.reporter.outbox import Last, Outbox, without_service
from vramgate.reporter.outcome import Ending, ending_of
from vramgate.reporter.pace import Checks, Pace
from vramgate.reporter.parameters import count_parameters
from vramgate.reporter.redaction import without_secret_names
from vramgate.reporter.report import Measurement, Run, live_model
from vramgate.reporter.settings import EXIT_SECONDS

_open: list["PeakReporter"] = []


def report_peaks(
    run_id: str | None = None,
    *,
    job: Mapping[str, Any] | None = None,
    launch: Mapping[str, Any] | None = None,
    decision_id: str | None = None,
    model: object = None,
    url: str | None = None,
    token: str | None = None,
    labels: Mapping[str, str] | None = None,
    rank: int | None = None,
    ranks: Collection[int] | None = None,
    warmup_steps: int = 1,
    memory: MemorySource | None = None,
    spool: str | os.PathLike[str] | None = None,
    exit_seconds: float = EXIT_SECONDS,
) -> "PeakReporter":
    """Return a context manager that reports the peaks of the training inside it.

    Nothing in it raises into the training, and no step waits for it. What is not given comes from
    the environment: the service (``VRAMGATE_URL``, ``VRAMGATE_TOKEN``), the run and the rank (the
    launcher's own variables), the job (the decision of a report token or of
    ``VRAMGATE_DECISION_ID``, else this process's command line and the allow-listed part of its
    environment).

    Args:
        run_id: one name for all ranks of the run.
        job: the job as the service describes it.
        launch: the job in its framework's words.
        decision_id: the admission that the run is of. At most one of the three is given.
        model: a ``torch.nn.Module`` to count; may also be given later, to ``watch``.
        url: the service; without one nothing is reported, and that is logged once.
        token: a token with the scope ``report``, or the ``report_token`` of an admission, which
            stands for its decision.
        labels: what the site wants to find the run by.
        rank: of this process among all.
        ranks: the ranks that report; all of them if not given.
        warmup_steps: steps after which the peaks are measured anew.
        memory: what tells the peaks, where torch's allocator does not.
        spool: the folder in which reports wait for the service.
        exit_seconds: the longest that the end of the run waits for the service.
    """
    reporter = PeakReporter(warmup_steps=warmup_steps, memory=memory, exit_seconds=exit_seconds)
    with harmless("setting up the reporter"):
        own_rank = settings.rank_of() if rank is None else rank
        to = settings.destination(url, token)
        if to is None:
            without_service()
        elif ranks is None or own_rank in ranks:
            # A report token is for its own decision, whatever else was said.
            decided = to.decision_id or decision_id
            about = _about(job=job, launch=launch, decision_id=decided)
            if about is not None and to.decision_id is not None:
                about["decision_id"] = to.decision_id
            run = Run(
                run_id=run_id or settings.run_id_of(),
                rank=own_rank,
                about=about or {"launch": disclosure.own_launch()},
                labels={str(name): str(value) for name, value in (labels or {}).items()},
            )
            reporter.connect(
                run, Outbox(to, settings.spool_folder(spool)), is_described=about is not None
            )
            if model is not None:
                reporter.watch(model)
    return reporter


class PeakReporter:
    """One run under watch. Made by ``report_peaks``; used as a context manager, or by callbacks."""

    def __init__(
        self,
        *,
        warmup_steps: int = 1,
        memory: MemorySource | None = None,
        exit_seconds: float = EXIT_SECONDS,
    ) -> None:
        """Watch nothing yet: without ``connect`` every call does nothing."""
        self.overhead_seconds = 0.0
        """What the reporter has cost the training's own thread so far."""
        self._warmup_steps = max(warmup_steps, 0)
        self._memory: MemorySource = memory if memory is not None else TorchMemory()
        self._exit_seconds = max(exit_seconds, 0.0)
        self._run: Run | None = None
        self._outbox: Outbox | None = None
        self._is_described = False
        self._lock = threading.Lock()
        self._ended = False
        self._began = time.monotonic()
        self._steps = 0
        self._pace = Pace()
        self._checks = Checks()
        self._given = Peaks()
        self._peaks = Peaks()
        self._told = Peaks()
        self._warmup_excluded = False

    def connect(self, run: Run, outbox: Outbox, *, is_described: bool) -> None:
        """Say what runs, and where its reports go."""
        self._run, self._outbox, self._is_described = run, outbox, is_described

    def describe(self, launch: Callable[[], Mapping[str, Any]]) -> None:
        """Take a framework's own words for the job, unless somebody described it already."""
        with self._costs("describing the job"):
            if self._run is not None and not self._is_described:
                self._run = replace(self._run, about={"launch": launch()})

    @property
    def is_on(self) -> bool:
        """Whether this process reports."""
        return self._outbox is not None and not self._ended

    def __enter__(self) -> Self:
        """Begin to watch."""
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Report how it ended; the exception goes on untouched."""
        self.finish(error)

    def begin(self) -> None:
        """Begin to watch; ``finish`` ends it."""
        with self._costs("beginning to watch"):
            self._began = time.monotonic()
            self._pace.restart(self._began)
            if self._warmup_steps == 0:
                self._end_warmup(self._began)
            _open.append(self)

    def watch(self, model: object) -> None:
        """Count a model's parameters into the reports; nothing on the device is read."""
        with self._costs("counting parameters"):
            if self._run is not None:
                config = disclosure.model_config(model)
                counted = live_model(count_parameters(model), type(model).__name__, config)
                self._run = replace(self._run, live_model=counted)

    def step(self, tokens: int = 0) -> None:
        """Note that an optimizer step ended: no synchronisation, no network.

        Args:
            tokens: of this step, on this rank; for the tokens per second.
        """
        if self._outbox is None or self._ended:
            return
        # Spelled out, since it runs with every step: a context manager costs as much again.
        began = time.perf_counter()
        try:
            self._note_step(time.monotonic(), tokens)
        except Exception as error:  # noqa: BLE001 a reporter must not end the run it watches
            say_failed("watching a step", error)
        self.overhead_seconds += time.perf_counter() - began

    def _note_step(self, now: float, tokens: int) -> None:
        self._steps += 1
        if self._steps == self._warmup_steps:
            self._end_warmup(now)
            return
        self._pace.step_done(now, tokens)
        if self._steps > self._warmup_steps and self._checks.is_due(now):
            self._check()

    def measured(
        self,
        *,
        max_allocated_bytes: int | None = None,
        max_reserved_bytes: int | None = None,
        device_used_bytes: int | None = None,
        context_bytes: int | None = None,
    ) -> None:
        """Give peaks that something else measured; each counts where it is the larger one."""
        given = Peaks(
            max_allocated_bytes=max_allocated_bytes,
            max_reserved_bytes=max_reserved_bytes,
            device_used_bytes=device_used_bytes,
            context_bytes=context_bytes,
        )
        with self._costs("taking peaks"):
            self._given = self._given.raised_by(given)

    def finish(self, error: BaseException | None = None) -> None:
        """Report the end, once: ``completed``, ``oom`` or ``killed`` as the error says."""
        with harmless("ending the watch"):
            self.end(ending_of(error))

    def end(self, ending: Ending) -> None:
        """Report an ending that the caller knows, once."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        with self._costs("ending the watch"):
            if self in _open:
                _open.remove(self)
            if self._outbox is None:
                return
            with harmless("reading the peaks"):
                self._read()
            elapsed = time.monotonic() - self._began
            last = Last(
                make=self._maker(ending), wait_seconds=self._exit_seconds, elapsed_seconds=elapsed
            )
            self._outbox.close(last)

    @contextmanager
    def _costs(self, doing: str) -> Iterator[None]:
        began = time.perf_counter()
        with harmless(doing):
            yield
        self.overhead_seconds += time.perf_counter() - began

    def _end_warmup(self, now: float) -> None:
        self._pace.restart(now)
        self._peaks = Peaks()
        self._memory.reset_peaks()
        self._warmup_excluded = True

    def _read(self) -> None:
        seen = (self._memory.peaks() or Peaks()).raised_by(self._given)
        self._peaks = self._peaks.raised_by(seen)

    def _check(self) -> None:
        """Report that the run lives, where its peak rose since it last said so."""
        self._read()
        if self._outbox is not None and self._peaks != self._told:
            self._told = self._peaks
            self._outbox.submit(self._maker(Ending(outcome="running")))

    def _maker(self, ending: Ending) -> Callable[[], dict[str, Any] | None]:
        """Return what makes the report of this moment, in the reporter's own thread."""
        run, peaks, device = self._run, self._peaks, self._memory.device()
        measurement = Measurement(
            outcome=ending.outcome,
            peaks=peaks,
            device=device,
            warmup_excluded=self._warmup_excluded,
            oom_message=ending.oom_message,
            step_seconds=self._pace.step_seconds,
            tokens_per_second=self._pace.tokens_per_second,
            measured_at=datetime.datetime.now(datetime.UTC),
        )
        memory = self._memory if isinstance(self._memory, TorchMemory) else None
        return lambda: composed(run, measurement, memory) if run is not None else None


def reporter_in_use() -> PeakReporter | None:
    """Return the innermost ``report_peaks`` block that is open in this process."""
    return _open[-1] if _open else None


def _about(
    *, job: Mapping[str, Any] | None, launch: Mapping[str, Any] | None, decision_id: str | None
) -> dict[str, Any] | None:
    """Return the one description of the job that somebody gave; None where nobody did."""
    given = {"job": job, "launch": launch, "decision_id": decision_id}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        log.warning("vramgate: of %s only %s is reported", " and ".join(names), names[0])
    if job is not None:
        return {"job": without_secret_names(disclosure.as_json(job))}
    if launch is not None:
        return {"launch": disclosure.given_launch(launch)}
    decided = decision_id or os.environ.get("VRAMGATE_DECISION_ID")
    return {"decision_id": decided} if decided else None
