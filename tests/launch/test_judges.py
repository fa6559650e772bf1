"""What a framework's own parser makes of a launch is what we read of it."""

import pytest

from tests.launch.judging import Judge, judges, our_reading

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]

JUDGES = list(judges())


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_the_framework_reads_its_launches_as_we_do(judge: Judge) -> None:
    if not judge.python.is_file():
        pytest.skip(f"no environment for {judge.name}: make test-frameworks")
    verdicts = judge.verdicts()
    differences: list[tuple[object, ...]] = []
    judged = 0
    for golden in judge.goldens():
        verdict = verdicts.get(golden.name)
        assert verdict is not None, f"no verdict on {golden.name}"
        if "skipped" in verdict:
            continue
        judged += 1
        parsed, ours = our_reading(golden)
        if "error" in verdict:
            if not parsed.problems:
                differences.append((golden.name, "refused by the framework", verdict["error"]))
            continue
        differences += [
            (golden.name, field, theirs, ours.get(field))
            for field, theirs in verdict["fields"].items()
            if ours.get(field) != theirs
        ]

    if not judged:
        pytest.skip("; ".join(sorted({str(one.get("skipped")) for one in verdicts.values()})))
    assert not differences
