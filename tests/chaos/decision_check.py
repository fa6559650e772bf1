"""What the database and the journal hold, against what was answered."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from tests.chaos.questions import Fate
from tests.chaos.schedulers import UNCHECKED, AdmissionLedger, Key, Told
from tests.databases import rows_of
from vramgate.persistence.decision_codec import decode_decision
from vramgate.persistence.decisions import BREAK_GLASS
from vramgate.persistence.engine import Database
from vramgate.persistence.journal_segments import unframed
from vramgate.persistence.tables import (
    admission_answers,
    admission_subjects,
    audit,
    decision_keys,
    decisions,
)

Row = sa.RowMapping
Documents = Mapping[Key, str]
"""By tenant and digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecisions:
    """All that the database holds of decisions."""

    decisions: Sequence[Row]
    keys: Sequence[Row]
    subjects: Documents
    answers: Documents
    broken_glass: Sequence[Row]
    """Of the audit trail."""

    @property
    def ids(self) -> set[Key]:
        """Return whose rows are there."""
        return {key_of(row) for row in self.decisions}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionVerdict:
    """What was found, each in a sentence; all empty where nothing was lost."""

    rows: int
    untold: int
    """Rows of questions whose answer did not arrive."""
    lost: Sequence[str]
    """Answered, and not there, or not as they were answered."""
    doubled: Sequence[str]
    contradicting: Sequence[str]
    """Two verdicts under one id of a scheduler."""
    half: Sequence[str]
    """Rows that contradict themselves or that another row should go with and does not."""
    stray: Sequence[str]
    """Rows of nothing that was asked, or of a dry run."""

    @property
    def findings(self) -> list[str]:
        """Return everything that must not be."""
        return [*self.lost, *self.doubled, *self.contradicting, *self.half, *self.stray]


def key_of(row: Row) -> Key:
    """Return what a row is known by."""
    return row["tenant"], row["decision_id"]


async def stored_decisions(database: Database) -> StoredDecisions:
    """Return what a database holds, read table by table.

    Raises:
        AssertionError: SQLite finds its own file damaged.
    """
    if database.is_sqlite:
        async with database.reading() as connection:
            found = (await connection.execute(sa.text("PRAGMA integrity_check"))).scalar_one()
        assert found == "ok", found
    documents = [
        {(row["tenant"], row[name]): row["document"] for row in await rows_of(database, table)}
        for table, name in (
            (admission_subjects, "subject_digest"),
            (admission_answers, "answer_digest"),
        )
    ]
    trail = await rows_of(database, audit)
    return StoredDecisions(
        decisions=await rows_of(database, decisions),
        keys=await rows_of(database, decision_keys),
        subjects=documents[0],
        answers=documents[1],
        broken_glass=[row for row in trail if row["action"] == BREAK_GLASS],
    )


def journalled_ids(segments: Iterable[Path]) -> set[Key]:
    """Return the decisions in the segments of every process; what is torn or damaged is not there."""
    found = set()
    for segment in segments:
        for line in segment.read_bytes().splitlines(keepends=True):
            record = unframed(line) if line.endswith(b"\n") else None
            if record is not None:
                decision = decode_decision(record)
                found.add((decision.tenant, decision.decision_id))
    return found


def missing_now(
    ledger: AdmissionLedger, rows: Collection[Key], journalled: Collection[Key]
) -> Iterator[str]:
    """Yield what a crash of every service at this moment would lose, though it was answered."""
    for key in ledger.told:
        if key in ledger.recorded and key not in rows:
            yield f"{key} was told to be recorded and is no row before the last replay"
        elif key not in rows and key not in journalled:
            yield f"{key} was answered and is neither a row nor in the journal"


def decision_verdict(stored: StoredDecisions, ledger: AdmissionLedger) -> DecisionVerdict:
    """Hold what is stored against what was answered, and against itself."""
    untold = [row for row in stored.decisions if key_of(row) not in ledger.told]
    return DecisionVerdict(
        rows=len(stored.decisions),
        untold=len(untold),
        lost=list(_lost(stored, ledger.told)),
        doubled=list(_doubled(stored)),
        contradicting=list(_contradicting(stored)),
        half=[*_half(stored), *_orphans(stored)],
        stray=list(_stray(untold, ledger)),
    )


def _lost(stored: StoredDecisions, told: Mapping[Key, Told]) -> Iterator[str]:
    rows = {key_of(row): row for row in stored.decisions}
    for key, one in told.items():
        row = rows.get(key)
        if row is None:
            where = "as a row" if one.is_recorded else "as journalled"
            yield f"{key} was answered {where} and is not there"
            continue
        kept = {name: row[name] for name in one.shown}
        if kept != one.shown:
            yield f"{key} was answered {one.shown} and is {kept}"
        elif one.question.external_id is None:
            yield from _otherwise(key, one, json.loads(_document(stored.answers, row, "answer")))


def _otherwise(key: Key, one: Told, kept: Mapping[str, object]) -> Iterator[str]:
    """Yield where the document of a decision that was answered once is not its answer."""
    for name in ("message", "reasons", "peak", "suggestions"):
        if kept.get(name) != one.answer[name]:
            yield f"{key}: {name} was answered {one.answer[name]} and is {kept.get(name)}"


def _doubled(stored: StoredDecisions) -> Iterator[str]:
    for name, rows in (("decisions", stored.decisions), ("decision_keys", stored.keys)):
        counts = Counter(map(key_of, rows))
        yield from (f"{key} is {n} times in {name}" for key, n in counts.items() if n > 1)
    counts = Counter((row["tenant"], row["subject"]) for row in stored.broken_glass)
    yield from (f"{key} is audited {n} times" for key, n in counts.items() if n > 1)


def _contradicting(stored: StoredDecisions) -> Iterator[str]:
    """Yield the ids of schedulers under which there are two verdicts, beside having had no time for one."""
    verdicts = defaultdict(set)
    for row in stored.decisions:
        if row["external_id"] is not None and row["verdict"] != UNCHECKED:
            verdicts[row["tenant"], row["external_id"]].add(row["verdict"])
    yield from (f"{key} has {sorted(found)}" for key, found in verdicts.items() if len(found) > 1)


def _half(stored: StoredDecisions) -> Iterator[str]:
    """Yield rows that another should go with and does not, or that contradict themselves."""
    moments = {key_of(row): row["decided_at"] for row in stored.keys}
    audited = {(row["tenant"], row["subject"]) for row in stored.broken_glass}
    for row in stored.decisions:
        key = key_of(row)
        if moments.pop(key, None) != row["decided_at"]:
            yield f"{key} has no key, or one of another moment"
        for name, documents in (("subject", stored.subjects), ("answer", stored.answers)):
            document = _document(documents, row, name)
            if hashlib.sha256(document.encode()).hexdigest() != row[f"{name}_digest"]:
                yield f"{key} has not its {name}"
        if (row["reason_code"] == "break_glass") != (key in audited):
            yield f"{key} broke the glass and is not audited, or the other way round"
    yield from (f"{key} is a key without a decision" for key in moments)


def _orphans(stored: StoredDecisions) -> Iterator[str]:
    """Yield documents that came without the decision they came with."""
    for name, documents in (("subject", stored.subjects), ("answer", stored.answers)):
        used = {(row["tenant"], row[f"{name}_digest"]) for row in stored.decisions}
        yield from (f"{name} {one} belongs to no decision" for one in documents.keys() - used)


def _document(documents: Documents, row: Row, name: str) -> str:
    return documents.get((row["tenant"], row[f"{name}_digest"]), "null")


def _stray(untold: Sequence[Row], ledger: AdmissionLedger) -> Iterator[str]:
    """Yield rows that no question without an answer explains."""
    for row in untold:
        if key_of(row) in ledger.dry_runs:
            yield f"{key_of(row)} was a dry run and is stored"
    asked = Counter(_asked(one.tenant, one.external_id) for one in ledger.unanswered)
    # A question that nobody could check has an id of its own beside the one that was told.
    found = Counter(_asked(row["tenant"], row["external_id"]) for row in untold)
    for (tenant, external_id), count in found.items():
        if count > asked[tenant, external_id]:
            yield f"{count} rows of {tenant} under {external_id} that nobody was told of"


def _asked(tenant: str, external_id: str | None) -> tuple[str, str | None]:
    return tenant, external_id


def withheld(ledger: AdmissionLedger) -> Iterator[str]:
    """Yield that refusals were not given where the database worked, or only there.

    A process that starts while the database is away knows no policy, and checks nothing until then.
    """
    checked = [
        one
        for one in ledger.told.values()
        if one.question.fate is Fate.DOOMED
        and one.is_recorded
        and one.answer["verdict"] != "unchecked"
    ]
    denied = sum(one.answer["decision"] == "deny" for one in checked)
    if not denied or denied < len(checked):
        yield f"only {denied} of {len(checked)} hopeless jobs that were checked were denied"
    if not ledger.counts.denied_unrecorded:
        yield "nothing was denied while the database was away"
