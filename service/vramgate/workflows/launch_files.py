"""Files that launches name by their digest: sent ahead, kept for a time, put in their place."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from vramgate.errors import DomainError, FieldError
from vramgate.persistence import launch_files as rows
from vramgate.persistence.engine import Database
from vramgate.wire.launch import MAX_LAUNCH_TEXT, is_digest

KEPT_FOR = timedelta(days=90)
"""After a file was last sent; sending it again is cheap."""
MOST_BYTES = 256 * 2**20
"""Of a tenant's files together; configurations take a few thousand each."""
_SHOWN_DIGEST = 16


class InvalidFileError(DomainError):
    """The body is not the text that its digest says."""

    code = "invalid_file"


class FileTooLargeError(DomainError):
    """The file is longer than a configuration may be."""

    code = "body_too_large"


class FilesFullError(DomainError):
    """The tenant keeps as much as one may."""

    code = "files_full"


class UnknownFileError(DomainError):
    """The tenant has no file of this digest."""

    code = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """A file that is there."""

    sha256: str
    bytes: int
    kept_until: datetime
    is_new: bool = False


async def put_file(database: Database, tenant: str, sha256: str, body: bytes) -> KeptFile:
    """Keep a file of the tenant's under its digest; one that is there is kept anew.

    Raises:
        InvalidFileError: the body has another digest, or is not text.
        FileTooLargeError: it is longer than a file of a launch may be.
        FilesFullError: the tenant keeps too much already.
    """
    text = _checked_text(sha256, body)
    now = datetime.now(UTC)
    async with database.writing() as connection:
        before = await rows.size_of(connection, tenant, sha256)
        if before is None:
            _check_room(await rows.bytes_of(connection, tenant), len(body))
        await rows.keep(connection, tenant, sha256, text, now)
    return KeptFile(
        sha256=sha256, bytes=len(body), kept_until=now + KEPT_FOR, is_new=before is None
    )


async def find_file(database: Database, tenant: str, sha256: str) -> KeptFile:
    """Return what is known of a file of the tenant's.

    Raises:
        UnknownFileError: there is none of this digest.
    """
    async with database.reading() as connection:
        size = await rows.size_of(connection, tenant, sha256)
        sent_at = await rows.sent_at(connection, tenant, sha256)
    if size is None or sent_at is None:
        raise UnknownFileError(
            f"There is no file {sha256[:64]}.", hint="Send its text: PUT to the same address."
        )
    return KeptFile(sha256=sha256, bytes=size, kept_until=sent_at + KEPT_FOR)


async def files_named(database: Database, tenant: str, body: object) -> dict[str, str]:
    """Return the texts of the tenant's files that a request names by digest, by digest."""
    digests = set(digests_in(body))
    if not digests:
        return {}
    async with database.reading() as connection:
        return await rows.texts_of(connection, tenant, digests)


def digests_in(body: object) -> Iterator[str]:
    """Yield the digests that launches in a body name, whatever else is in it.

    >>> digest = "ab" * 32
    >>> list(digests_in({"launch": {"files": {"ds.json": {"sha256": digest}}}})) == [digest]
    True
    """
    for items in _members(body, "items", "reports"):
        if isinstance(items, list):
            for item in items:
                yield from digests_in(item)
    for launch in _members(body, "launch"):
        for files in _members(launch, "files"):
            for file in files.values() if isinstance(files, Mapping) else ():
                for digest in _members(file, "sha256"):
                    if is_digest(digest):
                        yield str(digest)


def _members(value: object, *names: str) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from (value[name] for name in names if name in value)


def _checked_text(sha256: str, body: bytes) -> str:
    if len(body) > MAX_LAUNCH_TEXT:
        raise FileTooLargeError(
            f"A file may have {MAX_LAUNCH_TEXT:,} bytes; this one has {len(body):,}.",
            hint="Send the configuration alone.",
        )
    found = hashlib.sha256(body).hexdigest()
    if found != sha256:
        raise _invalid(
            f"the body's SHA-256 is {found[:_SHOWN_DIGEST]}…, not {sha256[:_SHOWN_DIGEST]}…",
            hint="Put it under its own digest, in lower case: `sha256sum FILE`.",
        )
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _invalid(
            f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}",
            hint="A configuration is text.",
        ) from None
    if "\0" in text:
        raise _invalid("the body holds NUL characters", hint="A configuration is text.")
    return text


def _invalid(detail: str, *, hint: str) -> InvalidFileError:
    field = FieldError(pointer="", code="invalid_file", detail=detail)
    return InvalidFileError(f"{detail[0].upper()}{detail[1:]}.", hint=hint, fields=[field])


def _check_room(kept_bytes: int, more_bytes: int) -> None:
    if kept_bytes + more_bytes > MOST_BYTES:
        raise FilesFullError(
            f"The tenant's files take {kept_bytes:,} of {MOST_BYTES:,} bytes.",
            hint=f"Files leave {KEPT_FOR.days} days after they were last sent; "
            "send small ones with the launch itself.",
        )
