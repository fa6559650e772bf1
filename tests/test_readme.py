import pytest
from typer.testing import CliRunner

from tests.readme import README, SECTIONS, section
from vramgate.cli.main import cli


@pytest.mark.parametrize("name", SECTIONS)
def test_the_computed_sections_are_current(name: str) -> None:
    kept = section(name, README.read_text(encoding="utf-8"))
    assert kept == SECTIONS[name](), "run `make readme`"


def test_the_command_prints_the_accuracy_section() -> None:
    shown = CliRunner().invoke(cli, ["accuracy", "--markdown"])
    assert section("accuracy", README.read_text(encoding="utf-8")) == shown.stdout
