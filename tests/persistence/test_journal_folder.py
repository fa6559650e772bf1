"""Each database has its own journal, in a folder that is checked before anything is kept in it."""

from pathlib import Path

import pytest

from vramgate.persistence.engine import database_url
from vramgate.persistence.journal import Journal
from vramgate.persistence.journal_folder import (
    InvalidJournalFolderError,
    folder_for,
    left_behind,
    prepare_folder,
)

ONE = "postgresql://a:secret@db.example/vramgate"


def folder_of(url: str) -> Path:
    return folder_for(Path("/journals"), database_url(url))


@pytest.mark.parametrize(
    "other",
    [
        "postgresql://a:secret@db.example/staging",
        "postgresql://a:secret@other.example/vramgate",
        "postgresql://a:secret@db.example:5433/vramgate",
        "postgresql://a:secret@/vramgate?host=/run/postgresql",
        "sqlite:////vramgate",
    ],
)
def test_another_database_has_another_journal(other: str) -> None:
    assert folder_of(other) != folder_of(ONE)


def test_two_files_of_sqlite_have_two_journals() -> None:
    assert folder_of("sqlite:////a/v.db") != folder_of("sqlite:////b/v.db")


@pytest.mark.parametrize(
    "same",
    [
        "postgresql+asyncpg://b:rotated@db.example/vramgate",
        "postgresql://a@db.example/vramgate?sslmode=require",
    ],
)
def test_who_signs_in_and_how_makes_no_difference(same: str) -> None:
    assert folder_of(same) == folder_of(ONE)


def test_a_relative_path_is_the_file_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder_of("sqlite:///v.db") == folder_of(f"sqlite:///{tmp_path}/v.db")


def test_the_folder_is_made_for_its_owner_alone_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "journal" / "one"
    prepare_folder(folder)
    prepare_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidJournalFolderError) as refused:
        prepare_folder(tmp_path / "file" / "one")
    assert f"VRAMGATE_JOURNAL_FOLDER is {tmp_path / 'file'}" in refused.value.message


async def test_what_other_databases_wait_for_is_found(tmp_path: Path) -> None:
    for name in ("one", "empty", "other"):
        prepare_folder(tmp_path / name)
    for name in ("one", "other"):
        journal = Journal(tmp_path / name, most_bytes=2**20)
        await journal.append([b"{}"])
        await journal.close()
    assert left_behind(tmp_path / "one") == [tmp_path / "other"]
