import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from vramgate.persistence.identifiers import time_ordered_id


def test_an_identifier_is_a_uuid_of_version_7_made_now() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(time_ordered_id())
    # RFC 9562, 5.7: 48 bits of milliseconds, version 7, variant 10. Counting up may run ahead.
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert before <= made.int >> 80 <= before + 1000


def test_identifiers_sort_as_they_were_made() -> None:
    made = [time_ordered_id() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_threads_never_make_the_same_identifier() -> None:
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: time_ordered_id(), range(20_000)))
    assert len(set(made)) == len(made)
