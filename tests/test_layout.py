"""The import rules of ``pyproject.toml``, as a test so that nobody forgets them."""

from importlinter.cli import lint_imports


def test_imports_follow_the_layers() -> None:
    assert lint_imports() == 0
