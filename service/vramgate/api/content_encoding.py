"""Bodies that came compressed, read within the same limit as others."""

import zlib

from vramgate.errors import DomainError

_GZIP = 16 + zlib.MAX_WBITS


class BodyTooLargeError(DomainError):
    """The body is longer than the service reads."""

    code = "body_too_large"


class MalformedGzipError(DomainError):
    """The body says gzip and is not."""

    code = "malformed_gzip"


def gunzipped(body: bytes, *, max_bytes: int) -> bytes:
    """Return the uncompressed body; never more than ``max_bytes`` are made of it.

    Raises:
        BodyTooLargeError: it would be longer.
        MalformedGzipError: it is cut short, damaged, or something follows it.

    >>> import gzip
    >>> gunzipped(gzip.compress(b"{}"), max_bytes=2)
    b'{}'
    """
    reader = zlib.decompressobj(wbits=_GZIP)
    try:
        text = reader.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise MalformedGzipError(f"The body is not gzip: {error}.") from error
    if len(text) > max_bytes:
        raise BodyTooLargeError(
            f"A body may have {max_bytes:,} bytes; this one is longer once it is unpacked.",
            hint="Send it in several requests.",
        )
    if not reader.eof:
        raise MalformedGzipError("The gzip body ends too early.", hint="Send it whole.")
    if reader.unused_data:
        raise MalformedGzipError("Something follows the gzip body.", hint="Send one gzip member.")
    return text
