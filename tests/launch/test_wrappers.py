"""Wrappers give way to the command behind them."""

from itertools import pairwise

import pytest

from vramgate.launch.commands.read import ends
from vramgate.launch.draft import Draft
from vramgate.launch.files import Files
from vramgate.launch.launch import Context
from vramgate.launch.shell.read import read_shell
from vramgate.launch.step import Step


def _ends(line: str, files: dict[str, str] | None = None) -> list[Step]:
    context = Context(draft=Draft(), files=Files(files))
    return ends(read_shell(line, environment={}).commands, context)


def _words(step: Step) -> str:
    return " ".join(word.text for word in step.words)


@pytest.mark.parametrize(
    "wrapper",
    [
        "exec",
        "exec -a trainer",
        "nohup",
        "time",
        "/usr/bin/time -f %e -o t.txt",
        "nice -n 10",
        "nice -10",
        "ionice -c2 -n7",
        "chrt --fifo 10",
        "taskset -c 0-7",
        "taskset 0xff",
        "numactl --cpunodebind=0 --membind=0",
        "numactl -N 0 -m 0",
        "timeout 3h",
        "timeout -s KILL --kill-after=10 1d",
        "stdbuf -oL -eL",
        "sudo -E -u me",
        "flock /tmp/lock",
        "env A=1 B=2",
        "env -i PATH=/bin",
        "env -u A -C /tmp",
        "A=1 B=2",
        "tini --",
        "dumb-init --",
        "setsid",
        "xvfb-run -a",
        "dotenv run",
        "doppler run -p x -c y --",
        "py-spy record -o p.svg --",
        "compute-sanitizer --tool memcheck",
        "nsys profile -o r -t cuda,nvtx --stats=true",
        "nsys profile --capture-range cudaProfilerApi -w true",
        "ncu --set full -o r",
        "dlprof --mode=pytorch",
        "uv run",
        "uv run --extra gpu --with trl --",
        "uvx --from trl",
        "conda run -n train",
        "conda run --no-capture-output -p /env",
        "micromamba run -n train",
        "poetry run",
        "pipenv run",
        "pixi run -e cuda",
        "pdm run",
        "hatch run",
        "docker run --rm -it --gpus all -v /a:/b -e A=1 -w /x img:tag",
        "docker run -itv /a:/b img",
        "docker exec -it container",
        "podman run --device nvidia.com/gpu=all --security-opt=label=disable img",
        "singularity exec --nv -B /a:/b x.sif",
        "apptainer run --nv --env A=1,B=2 docker://img",
        "enroot start --rw --mount /a:/b img",
        "shifter --image=img:tag --module=gpu",
        "ray job submit --address http://h:8265 --no-wait --",
        "mpirun -np 2 -H a:1,b:1 --mca btl ^tcp -x A -x B=1 --bind-to none",
        "mpiexec.hydra -n 2 -genv A 1",
        "horovodrun -np 2 -H a:1,b:1",
    ],
)
def test_a_wrapper_gives_way_to_the_command_behind_it(wrapper: str) -> None:
    steps = _ends(f"{wrapper} ./trainer --lr 1e-4 -n 3")

    assert [_words(step) for step in steps] == ["./trainer --lr 1e-4 -n 3"]


@pytest.mark.parametrize(
    "line",
    [
        "docker run --gpus all img",
        "docker build -t x .",
        "conda activate train",
        "uv sync",
        "nsys stats r.qdrep",
        "ray start --head",
        "env",
        "python -c 'print(1)'",
        "python --version",
        "accelerate env",
        "torchrun --nproc_per_node 8",
    ],
)
def test_what_starts_nothing_in_sight_gives_no_program(line: str) -> None:
    assert _ends(line) == []


def test_variables_of_a_wrapper_reach_the_program() -> None:
    (step,) = _ends("A=1 env B=2 docker run -e C=3 img env D=4 ./trainer")

    found = {name: step.environment[name].text for name in "ABCD"}
    assert found == {"A": "1", "B": "2", "C": "3", "D": "4"}


def test_a_clean_environment_is_clean() -> None:
    (step,) = _ends("A=1 env -i B=2 ./trainer")

    assert set(step.environment) == {"B"}


def test_shells_inside_shells_are_read() -> None:
    steps = _ends('bash -lc "cd /x && sh -c \'./trainer --a \\"b c\\"\'"')

    assert [step.words[-1].text for step in steps if step.name == "trainer"] == ["b c"]


def test_a_scripts_arguments_are_its_own() -> None:
    (step,) = _ends(
        "bash -x run.sh 4 two", {"run.sh": './trainer --n "$1" --m "${2:-x}" --all "$@"\n'}
    )

    assert _words(step) == "./trainer --n 4 --m two --all 4 two"


def test_scripts_that_call_each_other_end() -> None:
    files = {"a.sh": "./trainer a\nbash b.sh\nbash b.sh\n", "b.sh": "./trainer b\nbash a.sh\n"}

    assert [_words(step) for step in _ends("bash a.sh", files)] == [
        "./trainer a",
        "./trainer b",
        "./trainer b",
    ]


def test_scripts_do_not_grow_without_end() -> None:
    names = [f"s{index}.sh" for index in range(8)]
    files = {name: f"bash {inner}\n" * 50 for name, inner in pairwise(names)} | {
        names[-1]: "./trainer\n"
    }

    assert len(_ends(f"bash {names[0]}", files)) <= 4096


def test_an_entrypoint_stands_before_the_images_command() -> None:
    (step,) = _ends("docker run --entrypoint ./trainer img --lr 1")

    assert _words(step) == "./trainer --lr 1"
