"""The examples of the reporter's README run as they stand there."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.reporter.standin import StandIn

_README = Path(__file__).parents[2] / "service/vramgate/reporter/README.md"
_BLOCK = re.compile(r"(?:<!-- needs (\w+) -->\n)?```python\n(.*?)```", re.DOTALL)


def _examples(needed: str) -> list[str]:
    found = _BLOCK.findall(_README.read_text(encoding="utf-8"))
    return [code for needs, code in found if needs == needed]


class _Parameterless:
    def parameters(self) -> list[object]:
        return []

    def modules(self) -> list[object]:
        return []


def _nothing(*_: object) -> None:
    """Train on nothing."""


@pytest.mark.parametrize("code", _examples(""))
def test_examples_without_a_framework_run(
    code: str, service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAMGATE_URL", service.url)
    train: Callable[..., None] = _nothing
    names = {
        "model": _Parameterless(),
        "batches": [SimpleNamespace(numel=lambda: 8)] * 3,
        "train_on": train,
        "train_elsewhere": train,
    }
    exec(code, names)  # noqa: S102 the README's own words
    if "measured(" in code:
        (report,) = service.wait_for(1)
        assert report["measured"]["device_used_bytes"] == 33_500_000_000


@pytest.mark.torch
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("code", _examples("transformers"))
def test_examples_with_transformers_run(
    code: str, service: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.reporter.trainings import a_trainer  # noqa: PLC0415 needs transformers

    monkeypatch.setenv("VRAMGATE_URL", service.url)
    names: dict[str, Any] = {"trainer": a_trainer(tmp_path, [], steps=3)}
    exec(code, names)  # noqa: S102 the README's own words
    assert names["trainer"].state.global_step == 3


@pytest.mark.torch
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("code", _examples("lightning"))
def test_examples_with_lightning_run(code: str) -> None:
    lightning: Any = pytest.importorskip("lightning.pytorch")
    names: dict[str, Any] = {"Trainer": lightning.Trainer}
    exec(code, names)  # noqa: S102 the README's own words
    assert isinstance(names["trainer"].callbacks[0], lightning.Callback)
