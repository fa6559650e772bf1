"""What the journal has acknowledged is replayed, whatever is killed and whatever the disk does."""

import asyncio
import errno
import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.persistence import journal_worker
from vramgate.persistence.journal import Journal, JournalError, JournalFullError
from vramgate.persistence.journal_segments import framed, segments_in

ROOMY = 64 * 2**20


class Table:
    """Takes what is replayed; on demand it fails, or refuses single records."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.batches: list[int] = []
        self.fails_after: int | None = None
        self.refuses: frozenset[bytes] = frozenset()

    async def write(self, records: Sequence[bytes]) -> Sequence[bytes]:
        if self.fails_after is not None and len(self.batches) >= self.fails_after:
            raise ConnectionError("away")
        # Others run meanwhile, as they do while a database works.
        await asyncio.sleep(0)
        self.batches.append(len(records))
        self.rows.extend(one for one in records if one not in self.refuses)
        return [one for one in records if one in self.refuses]


@asynccontextmanager
async def journal_in(folder: Path, *, most_bytes: int = ROOMY) -> AsyncIterator[Journal]:
    journal = Journal(folder, most_bytes=most_bytes)
    try:
        yield journal
    finally:
        await journal.close()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return what the journal logs, whatever other tests have made of logging."""
    lines: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: lines.append(record.getMessage()))
    log = logging.getLogger("vramgate.persistence")
    monkeypatch.setattr(log, "disabled", False)
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    yield lines
    log.removeHandler(handler)
    log.setLevel(before)


def named(*numbers: int) -> list[bytes]:
    return [f'{{"n":{number}}}'.encode() for number in numbers]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def abandoned(folder: Path, *numbers: int) -> Path:
    """Leave a segment that nobody owns, and return its path."""
    async with journal_in(folder) as journal:
        await journal.append(named(*numbers))
        return segments_in(folder)[-1]


async def test_what_was_appended_is_replayed_in_order_and_then_gone(tmp_path: Path) -> None:
    table = Table()
    async with journal_in(tmp_path) as journal:
        for number in range(5):
            await journal.append(named(number))
        assert journal.waiting == 5
        assert await journal.replay(table.write) == 5
        assert (journal.waiting, journal.waiting_bytes, journal.replayed) == (0, 0, 5)
        assert await journal.replay(table.write) == 0
    assert table.rows == named(0, 1, 2, 3, 4)
    assert names_in(tmp_path) == []


async def test_files_and_their_names_are_for_the_owner_alone(tmp_path: Path) -> None:
    path = await abandoned(tmp_path, 1)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_many_callers_share_one_write_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    to_disk = os.fdatasync

    def sync(file: int) -> None:
        syncs.append(file)
        to_disk(file)

    monkeypatch.setattr(os, "fdatasync", sync)
    async with journal_in(tmp_path) as journal:
        await asyncio.gather(*[journal.append(named(number)) for number in range(200)])
        assert journal.waiting == 200
    # The first goes alone at most; whoever came meanwhile goes together.
    assert len(syncs) <= 2


async def test_a_replay_hands_over_at_most_a_hundred_at_once(tmp_path: Path) -> None:
    table = Table()
    async with journal_in(tmp_path) as journal:
        await journal.append(named(*range(240)))
        await journal.replay(table.write)
    assert table.batches == [100, 100, 40]


async def test_what_the_writer_did_not_take_is_handed_over_again(tmp_path: Path) -> None:
    table = Table()
    table.fails_after = 2
    async with journal_in(tmp_path) as journal:
        await journal.append(named(*range(240)))
        with pytest.raises(ConnectionError):
            await journal.replay(table.write)
        assert journal.waiting == 40
        table.fails_after = None
        assert await journal.replay(table.write) == 40
    assert table.rows == named(*range(240))
    assert names_in(tmp_path) == []


async def test_what_comes_during_a_replay_is_kept_for_the_next(tmp_path: Path) -> None:
    table = Table()
    async with journal_in(tmp_path) as journal:
        await journal.append(named(1))

        async def write(records: Sequence[bytes]) -> Sequence[bytes]:
            await journal.append(named(2))
            return await table.write(records)

        assert await journal.replay(write) == 1
        assert journal.waiting == 1
        assert await journal.replay(table.write) == 1
    assert table.rows == named(1, 2)


async def test_segments_of_a_process_that_ended_are_taken_over(tmp_path: Path) -> None:
    await abandoned(tmp_path, 1, 2)
    table = Table()
    async with journal_in(tmp_path) as journal:
        await journal.adopt()
        assert journal.waiting == 2
        await journal.append(named(3))
        await journal.replay(table.write)
    assert table.rows == named(1, 2, 3)


async def test_segments_of_a_process_that_lives_are_left_to_it(tmp_path: Path) -> None:
    table = Table()
    async with journal_in(tmp_path) as theirs, journal_in(tmp_path) as ours:
        await theirs.append(named(1))
        await ours.append(named(2))
        assert await ours.replay(table.write) == 1
        assert table.rows == named(2)
        assert theirs.waiting == 1


async def test_two_processes_never_replay_one_segment_at_once(tmp_path: Path) -> None:
    for number in range(20):
        await abandoned(tmp_path, number)
    table = Table()
    async with journal_in(tmp_path) as one, journal_in(tmp_path) as other:
        handed = await asyncio.gather(one.replay(table.write), other.replay(table.write))
    assert sum(handed) == 20
    assert sorted(table.rows) == sorted(named(*range(20)))


async def test_segments_roll_so_that_replayed_ones_can_be_deleted(tmp_path: Path) -> None:
    mebibyte = b'"' + b"x" * 2**20 + b'"'
    async with journal_in(tmp_path) as journal:
        for _ in range(9):
            await journal.append([mebibyte])
        # Four mebibytes and the checksums fill a segment.
        assert [path.stat().st_size // 2**20 for path in segments_in(tmp_path)] == [4, 4, 1]
        table = Table()
        # A batch a mebibyte: the first segment is written whole, the second is not.
        table.fails_after = 5
        with pytest.raises(ConnectionError):
            await journal.replay(table.write)
        assert len(segments_in(tmp_path)) == 2


async def test_a_full_journal_refuses_counts_and_takes_again_once_it_is_replayed(
    tmp_path: Path,
) -> None:
    record = b'"' + b"x" * 1_000 + b'"'
    async with journal_in(tmp_path, most_bytes=10_000) as journal:
        # Of 1,012 bytes each, with the checksum.
        for _ in range(9):
            await journal.append([record])
        with pytest.raises(JournalFullError, match="holds 9,108 bytes"):
            await journal.append([record])
        assert journal.dropped == 1
        await journal.replay(Table().write)
        await journal.append([record])


async def test_the_bound_holds_for_all_processes_together(tmp_path: Path) -> None:
    record = b'"' + b"x" * 1_000 + b'"'
    async with (
        journal_in(tmp_path, most_bytes=10_000) as one,
        journal_in(tmp_path, most_bytes=10_000) as other,
    ):
        await one.append([record] * 8)
        await other.append([record])
        with pytest.raises(JournalFullError):
            await other.append([record])


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def _flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[12] ^= 0x01
    path.write_bytes(whole)


def _merge(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b" ", 1))


def _zeros(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 4096)


@pytest.mark.parametrize(
    ("harm", "left", "damaged"),
    [
        (_cut, [1, 2], 0),
        (_zeros, [1, 2, 3], 0),
        (_flip, [2, 3], 1),
        (_merge, [3], 1),
        (Path.touch, [1, 2, 3], 0),
    ],
    ids=["cut", "zeros", "flipped", "merged", "sound"],
)
async def test_of_a_damaged_segment_the_rest_is_replayed_and_the_file_kept(
    tmp_path: Path, harm: Callable[[Path], object], left: list[int], damaged: int
) -> None:
    harm(await abandoned(tmp_path, 1, 2, 3))
    table = Table()
    async with journal_in(tmp_path) as journal:
        assert await journal.replay(table.write) == len(left)
        assert (journal.damaged, journal.waiting) == (damaged, 0)
    assert table.rows == named(*left)
    # Only what holds something unread is kept, under a name that is not replayed again.
    assert [Path(name).suffix for name in names_in(tmp_path)] == [".damaged"] * damaged


async def test_a_torn_last_line_is_told_with_its_length(tmp_path: Path, told: list[str]) -> None:
    path = await abandoned(tmp_path, 1)
    with path.open("ab") as file:
        file.write(b"12345")
    async with journal_in(tmp_path) as journal:
        assert await journal.replay(Table().write) == 1
    assert any("5 bytes" in line for line in told)


async def test_what_the_writer_cannot_take_stays_for_the_next_process(tmp_path: Path) -> None:
    table = Table()
    table.refuses = frozenset(named(2))
    async with journal_in(tmp_path) as journal:
        await journal.append(named(1, 2, 3))
        assert await journal.replay(table.write) == 2
        assert (journal.refused, journal.waiting) == (1, 0)
        # This process does not try again and again.
        assert await journal.replay(table.write) == 0
    table.refuses = frozenset()
    async with journal_in(tmp_path) as journal:
        await journal.replay(table.write)
    assert named(2)[0] in table.rows
    assert names_in(tmp_path) == []


async def test_after_a_failed_sync_the_segment_is_not_written_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_disk = os.fdatasync
    failing: list[OSError] = []

    def sync(file: int) -> None:
        # The disk alone is played: nothing here can make a real one fail.
        if failing:
            raise failing.pop()
        to_disk(file)

    monkeypatch.setattr(os, "fdatasync", sync)
    table = Table()
    async with journal_in(tmp_path) as journal:
        await journal.append(named(1))
        (first,) = segments_in(tmp_path)
        failing.append(OSError(errno.EIO, os.strerror(errno.EIO)))
        with pytest.raises(JournalError, match="Input/output error"):
            await journal.append(named(2))
        assert journal.dropped == 1
        before = first.read_bytes()
        await journal.append(named(3))
        assert len(segments_in(tmp_path)) == 2
        assert first.read_bytes() == before
        await journal.replay(table.write)
    assert {*named(1), *named(3)} <= set(table.rows)


async def test_a_disk_that_takes_nothing_leaves_no_files_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_file: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with journal_in(tmp_path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            for number in range(3):
                with pytest.raises(JournalError, match="No space left"):
                    await journal.append(named(number))
        assert names_in(tmp_path) == []
        await journal.append(named(4))
        assert journal.waiting == 1


_OUT_OF_SPACE = """
import asyncio, resource, sys
from pathlib import Path
from vramgate.persistence.journal import Journal, JournalError

async def main(folder):
    journal = Journal(folder, most_bytes=2**26)
    await journal.append([b"x" * 900])
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
    for _ in range(2):
        try:
            await journal.append([b"y" * 1_500])
        except JournalError as error:
            print(error.message)
        else:
            print("kept")
    await journal.close()

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_a_write_that_the_kernel_cuts_short_is_refused_and_the_next_one_goes_on(
    tmp_path: Path,
) -> None:
    # A limit on the size of files: the kernel writes a part of the line, then refuses.
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _OUT_OF_SPACE, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    first, second = out.decode().splitlines()
    assert "File too large" in first
    assert second == "kept"
    table = Table()
    async with journal_in(tmp_path) as journal:
        await journal.replay(table.write)
    assert table.rows == [b"x" * 900, b"y" * 1_500]


async def test_a_folder_that_is_gone_is_told_and_harms_nothing_else(tmp_path: Path) -> None:
    async with journal_in(tmp_path / "gone") as journal:
        with pytest.raises(JournalError, match="No such file"):
            await journal.append(named(1))
        with pytest.raises(JournalError):
            await journal.replay(Table().write)
        assert journal.dropped == 1


async def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        pass
    with pytest.raises(JournalError, match="closed"):
        await journal.append(named(1))


async def test_closing_keeps_what_was_taken(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        waiting = [asyncio.create_task(journal.append(named(n))) for n in range(5)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    table = Table()
    async with journal_in(tmp_path) as journal:
        assert await journal.replay(table.write) == 5


def test_a_record_with_a_line_feed_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="one line"):
        framed(b"a\nb")


def _killed_somewhere(folder: Path, rows: Path, after: list[float]) -> set[str]:
    """Run workers side by side, kill each after some seconds, and return what they were told."""
    command = [sys.executable, "-m", journal_worker.__name__, str(folder), str(rows)]
    words = [rows.with_name(f"told-{number}") for number in range(len(after))]
    workers = []
    for word in words:
        with word.open("wb") as file:
            workers.append(subprocess.Popen(command, stdout=file))  # noqa: S603 our own
    for word, worker, seconds in zip(words, workers, after, strict=True):
        # From the first word on: starting takes its time.
        while not word.stat().st_size:
            assert worker.poll() is None, "it ended by itself"
            time.sleep(0.01)
        time.sleep(seconds)
        worker.kill()
        worker.wait()
    return {name for word in words for name in word.read_text().split("\n")[:-1]}


async def _none_is_lost(tmp_path: Path, *, rounds: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 moments, not secrets
    folder, rows = tmp_path / "journal", tmp_path / "rows"
    folder.mkdir()
    told: set[str] = set()
    for _ in range(rounds):
        after = [chance.uniform(0.0, 0.3) for _ in range(2)]
        told |= await asyncio.to_thread(_killed_somewhere, folder, rows, after)
    table = Table()
    async with journal_in(folder) as journal:
        await journal.replay(table.write)
        assert journal.damaged == 0
    written = {row.decode() for row in [*rows.read_bytes().split(b"\n"), *table.rows]}
    assert len(told) > 100 * rounds
    assert told - written == set()
    assert names_in(folder) == []


async def test_killed_processes_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    await _none_is_lost(tmp_path, rounds=3, seed=5)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_processes_killed_many_times_lose_nothing(tmp_path: Path) -> None:
    await _none_is_lost(tmp_path, rounds=60, seed=1)
