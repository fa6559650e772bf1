import base64
import os
from pathlib import Path

import pytest

from tests.clocks import Clock
from vramgate.authentication.secret_keys import (
    SecretKeys,
    SecretKeysError,
    parse_secret_keys,
)

KEY_A = base64.b64encode(b"a" * 32).decode()
KEY_B = base64.b64encode(b"b" * 32).decode()


def test_the_first_line_is_the_key_for_new_hashes() -> None:
    keys = parse_secret_keys(f"# ours\n2026-11:{KEY_A}\n\n2026-05: {KEY_B}\n", name="file")
    assert [(one.key_id, one.key) for one in keys] == [
        ("2026-11", b"a" * 32),
        ("2026-05", b"b" * 32),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds 0 keys"),
        ("# nothing\n", "holds 0 keys"),
        (f"a:{KEY_A}\nb:{KEY_B}\nc:{KEY_A}", "holds 3 keys"),
        (f"a:{KEY_A}\na:{KEY_B}", "same id twice"),
        (f"a:{KEY_A}\nb:{KEY_A}", "same key"),
        (KEY_A, "line 1: does not begin with an id"),
        (f"a b:{KEY_A}", "line 1: does not begin with an id"),
        ("a:not base64!", "line 1: what follows the id is not base64"),
        ("\na:c2hvcnQ=", "line 2: the key has 5 bytes, and needs 32"),
    ],
)
def test_a_bad_file_is_refused_with_its_line_and_without_its_key(text: str, words: str) -> None:
    with pytest.raises(SecretKeysError) as refused:
        parse_secret_keys(text, name="file")
    assert words in refused.value.message
    assert KEY_A not in refused.value.message + refused.value.hint


def test_a_missing_binary_or_endless_file_is_refused_at_the_start(tmp_path: Path) -> None:
    binary, endless = tmp_path / "binary", tmp_path / "endless"
    binary.write_bytes(b"\xff" * 40)
    endless.write_text("#" * 5000)
    for file, words in [
        (tmp_path / "nothing", "cannot be read: No such file"),
        (binary, "is not plain text"),
        (endless, "longer than"),
    ]:
        with pytest.raises(SecretKeysError, match=words):
            SecretKeys(file)


def test_without_a_file_there_are_no_keys() -> None:
    assert SecretKeys(None).current() == ()


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys", Clock()
    file.write_text(f"old:{KEY_B}\n")
    keys = SecretKeys(file, clock=clock)
    new = tmp_path / "new"
    new.write_text(f"new:{KEY_A}\nold:{KEY_B}\n")
    new.replace(file)
    clock.now += 2
    assert [one.key_id for one in keys.current()] == ["new", "old"]
    # Same length, other moment: written in place.
    file.write_text(f"neu:{KEY_A}\nold:{KEY_B}\n")
    os.utime(file, ns=(1, 1))
    clock.now += 2
    assert [one.key_id for one in keys.current()] == ["neu", "old"]


def test_a_file_that_became_bad_or_went_away_changes_nothing(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys", Clock()
    file.write_text(f"old:{KEY_B}\n")
    keys = SecretKeys(file, clock=clock)
    file.write_text("rubbish, half written")
    clock.now += 2
    assert [one.key_id for one in keys.current()] == ["old"]
    file.unlink()
    clock.now += 2
    assert [one.key_id for one in keys.current()] == ["old"]
    file.write_text(f"new:{KEY_A}\n")
    clock.now += 2
    assert [one.key_id for one in keys.current()] == ["new"]
