"""What a script runs, rule by rule; expected words are what bash would pass, by hand."""

import time
from contextlib import suppress

import pytest

from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.shell.read import ShellReading, read_shell
from vramgate.launch.words import Command, Word


def read(text: str, *arguments: str, **environment: str) -> ShellReading:
    given = {name: Word(text=value, source=f"env {name}") for name, value in environment.items()}
    words = tuple(Word(text=text, source="argument") for text in arguments)
    return read_shell(text, environment=given, name="script", arguments=words)


def lines(text: str, *arguments: str, **environment: str) -> list[list[str]]:
    commands = read(text, *arguments, **environment).commands
    return [[word.text for word in command.words] for command in commands]


def last(text: str, *arguments: str, **environment: str) -> list[str]:
    return lines(text, *arguments, **environment)[-1]


def unresolved(text: str, *arguments: str, **environment: str) -> list[tuple[str, ...]]:
    words = read(text, *arguments, **environment).commands[-1].words
    return [word.unresolved for word in words if word.unresolved]


def command(text: str, **environment: str) -> Command:
    return read(text, **environment).commands[-1]


# ---------------------------------------------------------------- places


def test_a_words_place_is_its_index_in_its_own_command() -> None:
    reading = read_shell("cd /x && torchrun train.py $N | tee log", environment={})

    assert [word.source for word in reading.commands[1].words] == ["args[0]", "args[1]", "args[2]"]


def test_in_a_script_the_place_begins_with_the_line_of_the_command() -> None:
    script = "#!/bin/bash\n\ntorchrun \\\n  train.py \\\n  --bf16\n"

    assert [word.source for word in command(script).words] == [
        "line 3, args[0]",
        "line 3, args[1]",
        "line 3, args[2]",
    ]


def test_a_prefix_stands_before_every_place() -> None:
    reading = read_shell("a b", environment={}, prefix="args[2], ")

    assert reading.commands[0].words[1].source == "args[2], args[1]"


# ---------------------------------------------------------------- variables


def test_a_variable_of_the_environment_is_expanded_and_seen_by_commands() -> None:
    one = command("train --n $N", N="8")

    assert [word.text for word in one.words] == ["train", "--n", "8"]
    assert one.environment["N"] == Word(text="8", source="env N")


def test_a_variable_nobody_gives_stays_as_it_is_written_and_is_named() -> None:
    one = command('train --model "$MODEL/x" ${SIZE}')

    assert [word.text for word in one.words] == ["train", "--model", "$MODEL/x", "${SIZE}"]
    assert [word.unresolved for word in one.words[2:]] == [("$MODEL",), ("${SIZE}",)]


def test_a_plain_assignment_is_not_exported() -> None:
    assert "N" not in command("N=8\ntrain $N").environment


@pytest.mark.parametrize(
    "text",
    ["export N=8\ntrain", "N=8\nexport N\ntrain", "declare -x N=8\ntrain", "N=8 train"],
)
def test_an_exported_variable_is_seen_by_commands(text: str) -> None:
    assert command(text).environment["N"].text == "8"


def test_a_prefix_counts_for_its_own_command_only() -> None:
    first, second = read("N=8 train\ntrain\n").commands

    assert first.environment["N"].text == "8"
    assert "N" not in second.environment


def test_a_prefix_has_its_place() -> None:
    assert command("\nN=8 train").environment["N"].source == "line 2, env N"


def test_an_exported_variable_without_a_value_is_known_to_have_none() -> None:
    assert command("export A=$B\ntrain").environment["A"].unresolved == ("$B",)


def test_text_is_added_to_a_variable_and_to_an_array() -> None:
    script = "A=x\nA+=y\nR=(a)\nR+=(b 'c d')\np $A \"${R[@]}\""

    assert last(script) == ["p", "xy", "a", "b", "c d"]


def test_arguments_kept_in_a_text_are_split_like_megatron_scripts_expect() -> None:
    script = 'ARGS="\n  --nproc_per_node $N \\\n  --nnodes 2\n"\ntorchrun $ARGS train.py'

    assert last(script, N="8") == ["torchrun", "--nproc_per_node", "8", "--nnodes", "2", "train.py"]


def test_a_reference_is_never_split() -> None:
    script = 'ARGS="--node_rank $(scontrol show x | head -n1) --n 2"\np $ARGS'

    assert last(script) == ["p", "--node_rank", "$(scontrol show x | head -n1)", "--n", "2"]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("${X:-d}", "d"),
        ("${X-d}", "d"),
        ("${X:=d}", "d"),
        ("${N:-d}", "8"),
        ("${N:+d}", "d"),
        ("${E:-d}", "d"),
        ("${F%.json}", "a.b"),
        ("${F%%.*}", "a"),
        ("${F##*.}", "json"),
        ("${F/b/c}", "a.c.json"),
        ("${F^^}", "A.B.JSON"),
        ("${F:0:3}", "a.b"),
        ("${#F}", "8"),
        ("$((N * 2 + 1))", "17"),
        ("$[N+1]", "9"),
        ("$((N > 4 ? 1 : 0))", "1"),
        ("$(( 2 ** 10 ))", "1024"),
        ("$(expr $N \\* 2)", "16"),
        ("`basename /m/llama.json .json`", "llama"),
        ("$(dirname /m/llama.json)", "/m"),
        ("$(echo 0,1,2 | tr ',' '\\n' | wc -l)", "3"),
        ("$(seq -s, 1 2)", "$(seq -s, 1 2)"),
    ],
)
def test_expansions(written: str, word: str) -> None:
    assert last(f'p "{written}"', N="8", E="", F="a.b.json") == ["p", word]


@pytest.mark.parametrize("written", ["$RANDOM", "${SLURM_NNODES:-1}", "$(nproc)", "${A[@]}", "$1"])
def test_what_the_system_decides_is_unresolved(written: str) -> None:
    assert unresolved(f'p "{written}"') == [(written,)]


def test_arguments_are_counted_and_defaults_apply_without_them() -> None:
    script = 'p ${1:-x} $# "$@"'

    assert last(script, "a", "b c") == ["p", "a", "2", "a", "b c"]
    assert last("p ${1:-x}") == ["p", "x"]


def test_braces_and_tildes() -> None:
    assert last("p {a,b}c ~/x *.json") == ["p", "ac", "bc", "~/x", "*.json"]


def test_the_separators_of_read_are_those_of_its_own_line() -> None:
    script = "IFS=',' read -ra IDS <<< \"$GPUS\"\np ${#IDS[@]} ${IDS[1]}"

    assert last(script, GPUS="0,1,2,3") == ["p", "4", "1"]


# ---------------------------------------------------------------- control flow


def test_a_branch_that_can_be_decided_is_taken() -> None:
    script = "if [ $N -gt 1 ]; then A=many; else A=one; fi\ntrain $A"

    assert last(script, N="8") == ["train", "many"]
    assert last(script, N="1") == ["train", "one"]


def test_of_a_branch_that_cannot_be_decided_every_command_is_kept() -> None:
    script = "if nvidia-smi; then train a; else train b; fi"

    assert lines(script)[1:] == [["train", "a"], ["train", "b"]]


def test_a_variable_set_in_two_ways_has_no_value() -> None:
    script = "A=1\nif test -f x; then A=2; fi\ntrain $A"

    assert unresolved(script) == [("$A",)]


def test_a_variable_set_alike_in_every_branch_keeps_its_value() -> None:
    assert last("if test -f x; then A=2; else A=2; fi\ntrain $A") == ["train", "2"]


def test_a_script_provides_for_a_variable_that_nobody_gives() -> None:
    assert last('if [ -z "$A" ]; then A=2; fi\ntrain $A') == ["train", "2"]
    assert last('[ -n "$A" ] || A=2\ntrain $A') == ["train", "2"]


def test_a_check_that_ends_the_script_does_not_hide_what_follows() -> None:
    script = 'if [ -z "$1" ]; then echo usage; exit 1; fi\n[ -z "$X" ] && exit 1\ntrain $1'

    assert last(script) == ["train", "$1"]
    assert last("if [ $# -lt 1 ]; then exit 1; fi\ntrain") == ["train"]


def test_nothing_behind_exit_is_kept() -> None:
    assert lines("train\nexit 0\ntrain again") == [["train"]]


def test_double_brackets_compare_patterns() -> None:
    script = 'if [[ $M == *70b* && -n "$M" ]]; then T=8; else T=1; fi\ntrain $T'

    assert last(script, M="llama-70b-hf") == ["train", "8"]


def test_a_case_takes_the_clause_that_fits() -> None:
    script = "case $M in 7b|8b) T=1;; 70b) T=8;; *) T=0;; esac\ntrain $T"

    assert last(script, M="70b") == ["train", "8"]
    assert last(script, M="x") == ["train", "0"]
    assert unresolved(script) == [("$T",)]


def test_a_loop_over_few_known_items_is_gone_through() -> None:
    script = "for lr in 1e-4 2e-4; do train --lr $lr; done"

    assert lines(script) == [["train", "--lr", "1e-4"], ["train", "--lr", "2e-4"]]


def test_of_many_items_the_variable_has_no_value() -> None:
    assert lines("for i in {1..9}; do train $i; done") == [["train", "$i"]]


def test_a_counting_loop_is_gone_through() -> None:
    assert lines("for ((i=0; i<2; i++)); do train $i; done") == [["train", "0"], ["train", "1"]]


def test_what_a_loop_changes_has_no_value_in_it() -> None:
    script = "N=1\nwhile test -f x; do train $N; N=$((N*2)); done"

    assert lines(script)[-1] == ["train", "$N"]


def test_without_arguments_a_loop_over_them_changes_nothing() -> None:
    script = "T=1\nwhile [ $# -gt 0 ]; do case $1 in --tp) T=$2; shift 2;; esac; done\ntrain $T"

    assert last(script) == ["train", "1"]


def test_a_functions_body_stands_where_it_is_called() -> None:
    script = 'run() { local n=$1; shift; torchrun --n $n "$@"; }\nrun 8 a.py "b c"'

    assert lines(script) == [["torchrun", "--n", "8", "a.py", "b c"]]


def test_a_function_that_calls_itself_ends() -> None:
    assert len(lines("f() { train; f; }\nf")) < 20


def test_what_a_subshell_or_a_pipe_sets_is_lost() -> None:
    assert last("A=1\n(A=2)\necho x | A=3\ntrain $A") == ["train", "1"]


def test_eval_is_read_again() -> None:
    assert last("CMD=\"torchrun --n '1 2'\"\neval $CMD") == ["torchrun", "--n", "1 2"]


def test_every_command_of_a_list_is_kept() -> None:
    script = "cd x && torchrun a.py 2>&1 | tee log &\nwait || train b"

    assert lines(script) == [
        ["cd", "x"],
        ["torchrun", "a.py"],
        ["tee", "log"],
        ["wait"],
        ["train", "b"],
    ]


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    "script",
    [
        'cat > ds.json <<EOF\n{"a": $N}\nEOF\n',
        'cat <<EOF >ds.json\n{"a": $N}\nEOF\n',
        "F=ds.json\ncat <<'EOF' > $F\n{\"a\": 8}\nEOF\n",
        'cat > ds.json <<-EOF\n\t{"a": $N}\n\tEOF\n',
        "echo '{\"a\": 8}' > ds.json",
        "printf '{\"a\": %d}\\n' $N > ds.json",
        'tee ds.json <<EOF\n{"a": $N}\nEOF\n',
        'cat <<EOF | tee ds.json > /dev/null\n{"a": $N}\nEOF\n',
        "echo '{\"a\": 8}' | sudo tee x; echo '{\"a\": 8}' | tee ds.json",
        "{ printf '{\"a\": '; echo '8}'; } > ds.json",
        "printf '{\"a\": ' > ds.json; echo '8}' >> ds.json",
    ],
)
def test_a_file_that_the_script_writes_is_kept(script: str) -> None:
    assert read(script, N="8").files["ds.json"] == '{"a": 8}\n'


def test_in_a_file_what_has_no_value_stays_as_it_is_written() -> None:
    files = read("cat > a.yaml <<EOF\nbatch: ${B}\nnodes: $(hostname)\nEOF\n").files

    assert files == {"a.yaml": "batch: ${B}\nnodes: $(hostname)\n"}


def test_what_a_program_prints_is_not_known() -> None:
    assert read("envsubst < a > ds.json").files == {}


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    "text",
    [
        "A=xxxxxxxx;" + "A=$A$A;" * 60 + "echo $A",
        "echo " + "{a,b}" * 40,
        "echo {1..999999999}",
        "f() { f; f; f; }; f",
        "for i in 1 2 3 4 5 6 7 8; do " * 12 + "a;" + "done;" * 12,
        "echo " + "$(" * 5000,
        "(" * 50_000,
        "[[ " + "( " * 5000,
        "echo $((" + "(" * 3000 + "1" + ")" * 3000 + "))",
        "echo $((9**99999999999))",
        "X=X; echo $((X))",
        'E=\'eval "$E"; eval "$E"\'; eval "$E"',
        "X=" + "a" * 4000 + "; echo ${X##*a*a*a*b} ${X//a*a*a*b/c}",
        "while a; do " * 30 + "X=1;" + "done;" * 30,
        "if a; then X=1; fi;" * 20_000,
        '"' * 200_001,
        "\\\n" * 200_000,
        "case $x in " + "a) b;; " * 20_000 + "esac",
    ],
    ids=lambda text: text[:20],
)
def test_no_text_takes_long(text: str) -> None:
    start = time.process_time()
    with suppress(UnreadableLaunchError):
        read(text)
    assert time.process_time() - start < 10


def test_more_than_a_mebibyte_is_refused() -> None:
    with pytest.raises(UnreadableLaunchError):
        read("#" * (1024 * 1024 + 1))
