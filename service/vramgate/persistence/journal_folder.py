"""Where the journal of a database lies.

Each database has a folder of its own: what was decided for one must never be replayed into another.
"""

import hashlib
from pathlib import Path

from sqlalchemy.engine import URL

from vramgate.errors import DomainError
from vramgate.persistence.journal_segments import Segment, segments_in

_DIGEST_CHARACTERS = 16


class InvalidJournalFolderError(DomainError):
    """The journal cannot be kept where the settings say."""

    code = "invalid_journal_folder"


def folder_for(journals: Path, url: URL) -> Path:
    """Return the folder, under that of all journals, of the database at an address.

    How the service signs in there makes no difference.
    """
    place = (
        [str(Path(str(url.database)).resolve())]
        if url.get_backend_name() == "sqlite"
        else [str(url.host), str(url.port), str(url.query.get("host")), str(url.database)]
    )
    digest = hashlib.sha256("\n".join(place).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return journals / f"{url.get_backend_name()}-{digest}"


def prepare_folder(folder: Path) -> None:
    """Make the folder, for its owner alone, and try whether it can be written.

    Raises:
        InvalidJournalFolderError: it cannot.
    """
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        trial = Segment.create(folder)
        trial.append(b"", records=0)
        trial.remove()
    except OSError as error:
        raise InvalidJournalFolderError(
            f"VRAMGATE_JOURNAL_FOLDER is {folder.parent}, which cannot be written: "
            f"{error.strerror or error}. Decisions are kept there while the database is away.",
            hint="Name a folder on a local disk that the service may write.",
        ) from error


def left_behind(folder: Path) -> list[Path]:
    """Return the journals of other databases beside this one that hold something."""
    others = (one for one in sorted(folder.parent.iterdir()) if one != folder and one.is_dir())
    return [one for one in others if segments_in(one)]
