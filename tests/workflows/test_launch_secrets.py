"""Secrets that a launch holds in its variables are repeated nowhere."""

import json
from typing import Any

import pytest

from vramgate.wire.admissions import AdmitRequest
from vramgate.wire.validation import validated
from vramgate.workflows.launch_secrets import hidden, secrets_in

HELD = "s3cr3t-of-the-site"
MANIFEST = f"""
apiVersion: v1
kind: Pod
spec:
  containers:
    - name: train
      env:
        - name: WANDB_API_KEY
          value: "{HELD}"
        - name: BATCH
          value: "eight"
"""


@pytest.mark.parametrize(
    "launch",
    [
        {"command": "python train.py", "env": {"HF_TOKEN": HELD, "BATCH": "eightfold"}},
        {"script": f"#!/bin/sh\nexport HF_TOKEN={HELD}\nBATCH=eightfold python train.py\n"},
        {"script": f"#!/bin/sh\nDB_PASSWORD='{HELD}'; python train.py\n"},
        {"command": f"HF_TOKEN={HELD} python train.py"},
        {"command": ["env", f"HF_TOKEN={HELD}", "python", "train.py"]},
        {"manifest": MANIFEST},
        {"manifest": {"spec": {"env": [{"name": "API_KEY", "value": HELD}]}}},
    ],
    ids=["env", "export", "quoted", "before a command", "words", "manifest", "object"],
)
def test_what_variables_of_secret_names_hold_is_found(launch: dict[str, Any]) -> None:
    request = validated(AdmitRequest, {"launch": launch})
    assert secrets_in(request) == [HELD]


def test_short_values_and_plain_names_are_left() -> None:
    launch = {"command": "python train.py", "env": {"API_KEY": "8", "BATCH": HELD}}
    assert secrets_in(validated(AdmitRequest, {"launch": launch})) == []


def test_they_are_masked_in_every_text_and_nowhere_else() -> None:
    answer = {
        "verdict": "warn",
        "problems": [{"detail": f"block_size {HELD!r} is no number", "line": 3}],
        "peak": {"phase": HELD},
    }
    shown = hidden(answer, [HELD])
    assert isinstance(shown, dict)
    assert shown["problems"] == [{"detail": "block_size '[masked]' is no number", "line": 3}]
    assert shown["peak"] == answer["peak"]
    assert json.dumps(shown["problems"]).count(HELD) == 0
