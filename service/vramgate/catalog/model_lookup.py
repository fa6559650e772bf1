"""Which of the known names a name in the wild stands for, once both are taken apart."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from vramgate.catalog.model_names import ModelName, locate, read_model_name

Entry = TypeVar("Entry")

_ID, _PLAIN_ALIAS, _REPOSITORY_ALIAS = range(3)


class Undecided(Exception):  # noqa: N818 an outcome, not an error
    """Several entries fit, and what would decide between them is not in the name."""

    def __init__(self, records: "Sequence[_Record[Entry]]", *, missing: str) -> None:
        """Keep one name of each model that fits, and what the name should have said."""
        super().__init__(missing)
        told_apart = {(id(r.entry), r.name.version, r.name.date): r.written for r in records[::-1]}
        self.names = tuple(told_apart.values())[::-1]
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Candidate(Generic[Entry]):
    """The entry found, and what was passed over to find it, as clauses of one sentence."""

    entry: Entry
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record(Generic[Entry]):
    written: str
    name: ModelName
    entry: Entry
    rank: int


class NameRecords(Generic[Entry]):
    """Known names by their identity, and by their last part as it is written."""

    def __init__(self) -> None:
        """Start empty; ``add`` fills it once."""
        self._by_identity: dict[tuple[str, ...], list[_Record[Entry]]] = {}
        self._by_bare: dict[str, list[_Record[Entry]]] = {}

    def add(self, written: str, entry: Entry, *, is_id: bool, is_site: bool) -> None:
        """Add one known name.

        A site's repository names are found by others' copies only where no built-in has the same
        name: a site's own Llama-3.1-8B must not take the place of everybody's.
        """
        where = locate(written)
        rank = _ID if is_id else _PLAIN_ALIAS if where.organisation is None else _REPOSITORY_ALIAS
        name = read_model_name(where.bare)
        record = _Record(written=written, name=name, entry=entry, rank=rank)
        bare = where.bare.casefold()
        if not is_site or where.organisation is None or bare not in self._by_bare:
            self._by_bare.setdefault(bare, []).append(record)
        if name.identity and (not is_site or name.identity not in self._by_identity):
            self._by_identity.setdefault(name.identity, []).append(record)

    def find(self, bare: str, name: ModelName) -> Candidate[Entry] | None:
        """Return the entry that fits, None if the identity is nobody's.

        Raises:
            Undecided: several entries fit.
        """
        same = _of_best_rank(self._by_bare.get(bare.casefold(), ()))
        if len(_entries(same)) == 1:
            return Candidate(same[0].entry)
        records = self._by_identity.get(name.identity, ())
        if not records:
            return None
        return _decide(name, records)


def _decide(name: ModelName, records: Sequence[_Record[Entry]]) -> Candidate[Entry] | None:
    """Narrow the records of one identity by what the name states, then by what it leaves open.

    Raises:
        Undecided: several entries are left.
    """
    left = _of_stated_date(name, _of_stated_version(name, records))
    if not left:
        return None
    reasons: list[str] = []
    if name.date is not None and left[0].name.date is None:
        reasons.append(f"its date {name.date} passed over")
    left = _preferring(left, lambda record: record.name.tuned == name.tuned)
    if left[0].name.tuned != name.tuned:
        reasons.append(f"a {'tuned' if name.tuned else 'base'} variant, assumed to have its shape")
    left = _preferring(left, lambda record: record.name.converted == name.converted)
    if name.version is None:
        left = _unless_several(
            _preferring(left, lambda record: record.name.version is None),
            open_if=lambda record: record.name.version is not None,
            missing="the version",
        )
        if left[0].name.version is not None:
            reasons.append(f"no version stated, v{left[0].name.version} is the one known")
    if name.date is None:
        left = _unless_several(
            _preferring(left, lambda record: record.name.date is None),
            open_if=lambda record: record.name.date is not None,
            missing="the date",
        )
    best = _of_best_rank(left)
    if len(_entries(best)) > 1:
        raise Undecided(best, missing="what tells them apart")
    return Candidate(best[0].entry, tuple(reasons))


def _of_stated_version(
    name: ModelName, records: Sequence[_Record[Entry]]
) -> Sequence[_Record[Entry]]:
    if name.version is None:
        return records
    return [record for record in records if record.name.version == name.version]


def _of_stated_date(name: ModelName, records: Sequence[_Record[Entry]]) -> Sequence[_Record[Entry]]:
    """Keep the records of the stated date.

    A date nobody has is passed over only where the size is stated and one entry without a date
    stands for all of them: Mistral-Small-2402 and -2409 are different models.
    """
    if name.date is None:
        return records
    same = [record for record in records if record.name.date == name.date]
    if same:
        return same
    undated = [record for record in records if record.name.date is None]
    return undated if name.has_size and len(_entries(records)) == 1 else []


def _unless_several(
    records: Sequence[_Record[Entry]],
    *,
    open_if: Callable[[_Record[Entry]], bool],
    missing: str,
) -> Sequence[_Record[Entry]]:
    """Return the records, unless they are of several entries told apart by what is missing."""
    if open_if(records[0]) and len(_entries(records)) > 1:
        raise Undecided(records, missing=missing)
    return records


def _preferring(
    records: Sequence[_Record[Entry]], fits: Callable[[_Record[Entry]], bool]
) -> Sequence[_Record[Entry]]:
    return [record for record in records if fits(record)] or records


def _of_best_rank(records: Sequence[_Record[Entry]]) -> Sequence[_Record[Entry]]:
    best = min((record.rank for record in records), default=_ID)
    return [record for record in records if record.rank == best]


def _entries(records: Iterable[_Record[Entry]]) -> set[int]:
    return {id(record.entry) for record in records}
