"""The callback for transformers' ``Trainer``, and so for TRL's trainers."""

import importlib
from collections.abc import Mapping
from typing import Any

from vramgate.reporter import known_fields
from vramgate.reporter.callbacks.process_end import finish_with_process, finished
from vramgate.reporter.disclosure import framework_config, own_launch
from vramgate.reporter.notices import harmless
from vramgate.reporter.outcome import Ending
from vramgate.reporter.session import PeakReporter, report_peaks, reporter_in_use
from vramgate.reporter.settings import run_id_of


class TransformersHooks:
    """What ``VramgateCallback`` does; its base class is transformers' own.

    Inside an open ``report_peaks`` block it joins that block, which then also sees exceptions that
    somebody catches. On its own it reports an exception when that ends the process.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of ``report_peaks``; nothing happens before the training begins."""
        super().__init__()
        self._options = options
        self._reporter: PeakReporter | None = None
        self._is_own = False
        self._trainings = 0
        self._tokens_seen = 0

    @property
    def reporter(self) -> PeakReporter | None:
        """The run under watch, where one is."""
        return self._reporter

    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,  # noqa: ARG002 as the trainer calls it
        model: Any = None,
        **_: Any,
    ) -> None:
        """Begin to watch, described by the training's own arguments."""
        with harmless("beginning to watch"):
            # A training that began and never ended raised: transformers tells nobody.
            self._end_own(Ending(outcome="killed"))
            joined = reporter_in_use()
            reporter = self._new() if joined is None else joined
            self._reporter, self._is_own = reporter, joined is None
            self._tokens_seen = _tokens(state)
            reporter.describe(lambda: _launch(args, model))
            if model is not None:
                reporter.watch(model)
            if self._is_own:
                reporter.begin()
                finish_with_process(reporter)

    def on_step_end(
        self,
        args: Any,  # noqa: ARG002 as the trainer calls it
        state: Any,
        control: Any,  # noqa: ARG002 as the trainer calls it
        **_: Any,
    ) -> None:
        """Note an optimizer step."""
        if self._reporter is not None:
            seen = _tokens(state)
            self._reporter.step(max(seen - self._tokens_seen, 0))
            self._tokens_seen = seen

    def on_train_end(
        self,
        args: Any,  # noqa: ARG002 as the trainer calls it
        state: Any,  # noqa: ARG002 as the trainer calls it
        control: Any,  # noqa: ARG002 as the trainer calls it
        **_: Any,
    ) -> None:
        """Report that the training completed."""
        self._end_own(Ending(outcome="completed"))

    def _new(self) -> PeakReporter:
        """Return the reporter of one training; a second one in this process is a run of its own."""
        self._trainings += 1
        options = dict(self._options)
        if self._trainings > 1:
            options["run_id"] = f"{options.get('run_id') or run_id_of()}-{self._trainings}"
        return report_peaks(**options)

    def _end_own(self, ending: Ending) -> None:
        reporter, self._reporter = self._reporter, None
        if reporter is not None and self._is_own:
            finished(reporter)
            reporter.end(ending)


def callback_class() -> type:
    """Return the callback, derived from transformers' base class."""
    base = importlib.import_module("transformers").TrainerCallback
    members = {"__module__": "vramgate.reporter", "__doc__": TransformersHooks.__doc__}
    return type("VramgateCallback", (TransformersHooks, base), members)


def _launch(args: object, model: object) -> dict[str, Any]:
    is_trl = any(kind.__module__.partition(".")[0] == "trl" for kind in type(args).__mro__)
    config = framework_config(args)
    adapters = getattr(model, "peft_config", None)
    if isinstance(adapters, Mapping):
        config["peft_config"] = {
            str(name): framework_config(adapter, known_fields.NESTED)
            for name, adapter in adapters.items()
        }
    return own_launch("trl" if is_trl else "transformers", config)


def _tokens(state: object) -> int:
    """Return the tokens seen so far; 0 where the arguments do not ask for the count."""
    seen = getattr(state, "num_input_tokens_seen", 0)
    return int(seen) if isinstance(seen, int | float) else 0
