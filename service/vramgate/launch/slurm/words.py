"""Slurm's options, from ``#SBATCH`` lines and from the words behind ``srun``, ``salloc`` and ``sbatch``.

Source: src/sbatch/opt.c (get_argument, _opt_batch_script) and src/common/slurm_opt.c of Slurm at
284c3b95 (2026-08).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vramgate.launch.words import Word


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHORT = {
    "A": "account",
    "a": "array",
    "B": "extra-node-info",
    "b": "begin",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "i": "input",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "o": "output",
    "P": "dependency",
    "p": "partition",
    "q": "qos",
    "r": "relative",
    "S": "core-spec",
    "T": "threads",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
"""Short options that take a word."""
_SHORT_OPTIONAL = {"I": "immediate", "K": "kill-on-bad-exit", "k": "no-kill"}
_VALUED = frozenset(_SHORT.values()) | _named(
    "accel-bind acctg-freq argv batch bbf bb bcast-exclude cluster-constraint cluster comment"
    " container container-id container-image container-mounts container-name container-workdir"
    " container-save container-env runtime context cores-per-socket cpu-bind cpu_bind cpu-freq"
    " cpus-per-gpu deadline delay-boot environment epilog export export-file extra gid gpu-bind"
    " tres-bind gpu-freq gpus-per-node gpus-per-socket gpus-per-task treewidth tres-per-task gres"
    " gres-flags hint ignore-signals jobid kill-on-invalid-dep mail-type mail-user mcs-label mem"
    " mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout network ntasks-per-core"
    " ntasks-per-node ntasks-per-socket ntasks-per-tres ntasks-per-gpu open-mode pack-group"
    " het-group prefer priority profile prolog reservation resources segment signal slurmd-debug"
    " sockets-per-node switches task-epilog task-prolog tasks-per-node thread-spec"
    " threads-per-core time-min tmp uid wait-all-nodes wckey wrap"
)
_SWITCHES = _named(
    "async bcast bell compress contiguous debugger-test disable-status exact exclusive external"
    " get-user-env help hold ignore-pbs immediate interactive kill-on-bad-exit label multi-prog"
    " nice no-allocate no-bell no-kill no-requeue no-shell overcommit overlap oversubscribe parsable"
    " preserve-env propagate pty quiet reboot requeue resv-ports send-libs spread-job stepmgr"
    " test-only unbuffered use-min-nodes usage verbose version wait wait-for-children whole x11"
    " container-mount-home container-remap-root container-writable no-container-mount-home"
)
_NAMES = sorted(_VALUED | _SWITCHES)
_ALIASES = {"tasks-per-node": "ntasks-per-node"}
_MAGIC = ("#SBATCH", "#SLURM")
_COMPONENTS = ("hetjob", "packjob")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmWords:
    """Options by their long names, and the words behind them: a command, or a script."""

    options: Mapping[str, Word]
    """A switch has the text ``""``; of a repeated option the last counts."""
    rest: tuple[Word, ...]


def slurm_words(words: Sequence[Word]) -> SlurmWords:
    """Take the words behind ``srun``, ``salloc`` or ``sbatch`` apart.

    >>> words = [Word(text=text, source=f"args[{i + 1}]") for i, text in enumerate(["-N2", "a.sh"])]
    >>> slurm_words(words).options["nodes"]
    Word(text='2', source='args[1] --nodes', unresolved=())
    """
    options: dict[str, Word] = {}
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word.text == "--":
            break
        if not word.text.startswith("-") or word.text == "-":
            place -= 1
            break
        following = words[place] if place < len(words) else None
        found = _long(word, following) if word.text.startswith("--") else _short(word, following)
        for name, value, takes in found:
            source = f"{word.source} --{name}"
            options[name] = value._replace(source=source)
            place += takes
    return SlurmWords(options=options, rest=tuple(words[place:]))


_Option = tuple[str, Word, int]
"""An option's name, its value, and how many words behind it that took."""


def _long(word: Word, following: Word | None) -> Iterator[_Option]:
    written, equals, value = word.text[2:].partition("=")
    name = _full_name(written)
    if equals:
        yield name, _part(word, value), 0
    elif name in _VALUED and following is not None:
        yield name, following, 1
    else:
        yield name, Word(text="", source=word.source), 0


def _full_name(written: str) -> str:
    """Return an option's name where a beginning of it is written, as getopt_long takes it."""
    name = written
    if written not in _VALUED and written not in _SWITCHES:
        near = [known for known in _NAMES if known.startswith(written)]
        name = near[0] if len(near) == 1 else written
    return _ALIASES.get(name, name)


def _short(word: Word, following: Word | None) -> Iterator[_Option]:
    letters = word.text[1:]
    for index, letter in enumerate(letters):
        behind = letters[index + 1 :]
        if letter in _SHORT:
            if behind:
                yield _SHORT[letter], _part(word, behind), 0
            elif following is not None:
                yield _SHORT[letter], following, 1
            return
        if letter in _SHORT_OPTIONAL:
            yield _SHORT_OPTIONAL[letter], _part(word, behind), 0
            return


def _part(word: Word, text: str) -> Word:
    unresolved = tuple(one for one in word.unresolved if one in text)
    return Word(text=text, source=word.source, unresolved=unresolved)


# ---------------------------------------------------------------- #SBATCH


def header_options(text: str) -> Mapping[str, Word]:
    r"""Return the options of the ``#SBATCH`` lines above the first command.

    Of a job of several components (``#SBATCH hetjob``) those of the first.

    >>> header_options("#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=a100:4 # big\n")["nodes"]
    Word(text='2', source='line 2, #SBATCH --nodes', unresolved=())
    """
    options: dict[str, Word] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        magic = next((one for one in _MAGIC if line.startswith(one)), None)
        if magic is None:
            if line.strip() and not line.lstrip().startswith("#"):
                break
            continue
        words = [
            Word(text=one, source=f"line {number}, {magic}")
            for one in header_words(line[len(magic) :])
        ]
        if words and words[0].text.lower() in _COMPONENTS:
            break
        # An option may stand alone on its line, its value on the next one; nobody writes that.
        options.update(slurm_words(words).options)
    return options


def header_words(line: str) -> list[str]:
    r"""Split a line as ``get_argument`` does: quotes, ``\`` and ``#`` comments."""
    found: list[str] = []
    pos = 0
    while pos < len(line):
        if line[pos].isspace():
            pos += 1
            continue
        if line[pos] == "#":
            break
        word, pos = _header_word(line, pos)
        found.append(word)
    return found


def _header_word(line: str, pos: int) -> tuple[str, int]:
    word: list[str] = []
    quote = ""
    while pos < len(line):
        char = line[pos]
        if char == "\\" and pos + 1 < len(line):
            word.append(line[pos + 1])
            pos += 2
            continue
        if quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "\"'":
            quote = char
        elif char.isspace() or char == "#":
            break
        else:
            word.append(char)
        pos += 1
    return "".join(word), pos
