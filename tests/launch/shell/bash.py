"""The real bash, to compare with: it parses without running, or prints harmless words."""

import shutil
import subprocess
from collections.abc import Sequence

BASH = shutil.which("bash")
_PRELUDE = 'set -f; p() { printf \'%s\\0\' "$#" "$@"; }\n'
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}


def _run(arguments: Sequence[str], text: str) -> subprocess.CompletedProcess[bytes]:
    assert BASH is not None
    return subprocess.run(
        [BASH, "--norc", "--noprofile", *arguments],
        input=text.encode("utf-8", "surrogateescape"),
        capture_output=True,
        env=_ENVIRONMENT,
        timeout=20,
        check=False,
    )


def accepts(text: str) -> bool | None:
    """Return whether ``bash -n`` takes a script; unfinished here-documents are only warned of.

    None where it cannot be told: bash 5.2 stops reading behind some faults (``[[ ]]``) without a
    word, and then does not see the fault that is put behind the text here.
    """
    if not _is_taken(text):
        return False
    return None if _is_taken(f"{text}\n)\n") else True


def _is_taken(text: str) -> bool:
    done = _run(["-n"], text)
    complaints = [line for line in done.stderr.splitlines() if b"warning:" not in line]
    return done.returncode == 0 and not complaints


def words(script: str, arguments: Sequence[str] = ()) -> list[list[str]] | None:
    """Return the words of each ``p …`` in a script; None where bash complains."""
    done = _run(["-s", "--", *arguments], _PRELUDE + script)
    if done.stderr or done.returncode != 0:
        return None
    printed = iter(done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1])
    return [[next(printed) for _ in range(int(count))] for count in printed]
