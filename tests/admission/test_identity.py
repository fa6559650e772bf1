"""Ids that follow from their parts."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from vramgate.admission.identity import digest_id

PARTS = st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.none(), max_size=4)


@given(one=PARTS, other=PARTS)
def test_ids_are_equal_exactly_where_the_parts_are(
    one: dict[str, str | None], other: dict[str, str | None]
) -> None:
    assert (digest_id(one) == digest_id(other)) == (one == other)


@given(parts=PARTS)
def test_an_id_is_a_uuid_of_version_8_and_of_the_variant_of_rfc_9562(
    parts: dict[str, str | None],
) -> None:
    found = uuid.UUID(digest_id(parts))
    assert (found.version, found.variant) == (8, uuid.RFC_4122)
