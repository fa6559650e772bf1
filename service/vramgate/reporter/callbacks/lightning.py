"""The callback for Lightning, under either of its names."""

import importlib
import importlib.util
import sys
from typing import Any

from vramgate.reporter import known_fields
from vramgate.reporter.callbacks.process_end import finish_with_process, finished
from vramgate.reporter.disclosure import framework_config, own_launch
from vramgate.reporter.notices import harmless
from vramgate.reporter.session import PeakReporter, report_peaks, reporter_in_use

_HOMES = ("lightning.pytorch", "pytorch_lightning")


class LightningHooks:
    """What ``LightningVramgateCallback`` does; its base class is Lightning's own."""

    def __init__(self, **options: Any) -> None:
        """Take the options of ``report_peaks``; nothing happens before the training begins."""
        super().__init__()
        self._options = options
        self._reporter: PeakReporter | None = None
        self._is_own = False
        self._steps_seen = 0

    @property
    def reporter(self) -> PeakReporter | None:
        """The run under watch, where one is."""
        return self._reporter

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch, described by the trainer's own settings."""
        with harmless("beginning to watch"):
            joined = reporter_in_use()
            reporter = report_peaks(**self._options) if joined is None else joined
            self._reporter, self._is_own = reporter, joined is None
            self._steps_seen = int(trainer.global_step)
            reporter.describe(lambda: own_launch("lightning", _config(trainer, pl_module)))
            reporter.watch(pl_module)
            if self._is_own:
                reporter.begin()
                finish_with_process(reporter)

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Note an optimizer step; batches whose gradients accumulate are none."""
        if self._reporter is not None and trainer.global_step != self._steps_seen:
            self._steps_seen = trainer.global_step
            self._reporter.step()

    def on_exception(
        self,
        trainer: Any,  # noqa: ARG002 as the trainer calls it
        pl_module: Any,  # noqa: ARG002 as the trainer calls it
        exception: BaseException,
    ) -> None:
        """Report what ended the training."""
        self._end_own(exception)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 as the trainer calls it
        """Report that the training completed."""
        self._end_own(None)

    def _end_own(self, error: BaseException | None) -> None:
        reporter, self._reporter = self._reporter, None
        if reporter is not None and self._is_own:
            finished(reporter)
            reporter.finish(error)


def callback_class() -> type:
    """Return the callback, derived from the base class of the Lightning that is in use."""
    loaded = [home for home in _HOMES if home in sys.modules]
    installed = [home for home in _HOMES if importlib.util.find_spec(home.partition(".")[0])]
    home = [*loaded, *installed, _HOMES[0]][0]
    base = importlib.import_module(home).Callback
    members = {"__module__": "vramgate.reporter", "__doc__": LightningHooks.__doc__}
    return type("LightningVramgateCallback", (LightningHooks, base), members)


def _config(trainer: Any, pl_module: Any) -> dict[str, object]:
    """Return the known settings of a trainer, and of the module's hyperparameters."""
    hyperparameters = framework_config(dict(getattr(pl_module, "hparams", None) or {}))
    settings = {
        name: getattr(trainer, name, None)
        for name in known_fields.LIGHTNING - {"strategy", "accelerator"}
    }
    settings["strategy"] = type(trainer.strategy).__name__
    settings["accelerator"] = type(trainer.accelerator).__name__
    return {**hyperparameters, **framework_config(settings, known_fields.LIGHTNING)}
