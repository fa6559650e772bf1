"""The counts of a run in which reports are posted, for a person."""

from collections import Counter

from tests.chaos.run import CLIENTS, POSTGRESQL, SERVICE, Outcome

MOST_FINDINGS = 20


def report_lines(name: str, outcome: Outcome) -> list[str]:
    """Return the counts of a run, for a person."""
    ledger, reader, found = outcome.ledger, outcome.reader, outcome.verdict
    settings = ", ".join(f"{setting} {value}" for setting, value in outcome.settings.items())
    kills = [one for strike in ledger.strikes for one in strike.killed]
    met = ", ".join(
        f"{' + '.join(one.killed)} {one.unanswered}/{one.in_flight}" for one in ledger.strikes
    )
    lines = [
        f"{name} ({settings}), seed {outcome.plan.seed}, {outcome.seconds:.1f} s",
        f"  posted        {outcome.plan.reports:,} reports by {CLIENTS} clients in "
        f"{ledger.requests - ledger.retries.total():,} requests, {ledger.on_purpose:,} of them "
        "once more on purpose",
        f"  killed        {kills.count(SERVICE)} times the service, {kills.count(POSTGRESQL)} "
        "times PostgreSQL",
        f"  unanswered    {sum(one.unanswered for one in ledger.strikes)} requests in flight at the "
        f"kills ({met}); at least {ledger.stored_unacknowledged} of them had been stored",
        f"  retried       {ledger.retries.total():,} times: {_counts(ledger.retries)}",
        f"  answered      {_counts(ledger.receipts)}",
        f"  acknowledged  {len(ledger.acknowledged):,} reports",
        f"  stored        {found.stored:,} reports",
        f"  read          {len(reader.last_seen):,} reports, {reader.items:,} states of them, by a "
        f"reader that was interrupted {reader.interruptions} times",
        f"  lost          {len(found.lost)} reports; {len(found.doubled)} doubled, "
        f"{len(found.half)} half, {len(found.stray)} never acknowledged, {len(outcome.misread)} "
        f"read wrongly or not at all, {len(outcome.faults)} other faults",
    ]
    return lines + [f"    {one}" for one in outcome.findings[:MOST_FINDINGS]]


def _counts(of: Counter[str]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in of.most_common()) or "none"
