"""Commands that run inside an image: docker, podman, singularity, apptainer, enroot, shifter."""

from collections.abc import Iterator, Mapping
from functools import partial

from vramgate.launch.launch import Context
from vramgate.launch.option_words import Split, Syntax, split_options, valued
from vramgate.launch.reading import Found
from vramgate.launch.step import Step, assignments
from vramgate.launch.words import Word
from vramgate.launch.world import DEVICES, PER_NODE

# docker 28, podman 5: run --help.
_DOCKER = Syntax(
    values=valued(
        "v volume e env env-file mount gpus name w workdir u user network net ipc shm-size runtime ulimit"
        " m memory memory-swap cpus cpuset-cpus cpuset-mems h hostname l label p publish device entrypoint"
        " add-host cap-add cap-drop security-opt pid platform pull restart log-driver log-opt tmpfs"
        " volumes-from userns group-add dns device-cgroup-rule stop-signal stop-timeout cgroup-parent"
        " hooks-dir a attach c cpu-shares memory-reservation oom-score-adj pids-limit sysctl uts"
        " storage-opt cidfile annotation isolation link ip"
    ),
    own_words=1,
    closed=True,
)
# singularity-ce 4, apptainer 1: exec --help.
_APPTAINER = Syntax(
    values=valued(
        "B bind env env-file mount H home W workdir S scratch o overlay pwd cwd hostname network"
        " network-args fusemount security memory memory-swap cpus cpu-shares cpuset-cpus add-caps"
        " drop-caps apply-cgroups dns pid-file app pem-path authfile docker-host"
    ),
    own_words=1,
    closed=True,
)
_ENROOT = Syntax(values=valued("c conf e env m mount"), own_words=1, closed=True)
_SHIFTER = Syntax(values=valued("image i volume V env e env-file workdir w entrypoint module m"))

_RUN = ("run", "exec")
_SUBCOMMANDS: Mapping[str, tuple[tuple[str, ...], Syntax]] = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "nvidia-docker"), (_RUN, _DOCKER)),
    **dict.fromkeys(("singularity", "apptainer"), (_RUN, _APPTAINER)),
    "enroot": (("start",), _ENROOT),
    "shifter": ((), _SHIFTER),
}
CONTAINERS = frozenset(_SUBCOMMANDS)


def in_container(step: Step) -> Step | None:
    """Return what runs inside; None where only the image says what."""
    subcommands, syntax = _SUBCOMMANDS[step.name]
    place = 0
    if subcommands:
        names = [word.text for word in step.words]
        place = next((i for i, name in enumerate(names) if i and name in subcommands), -1)
    if place < 0:
        return None
    split = split_options(step.words[place + 1 :], syntax)
    words = (*split.every("entrypoint"), *split.command)
    if not words:
        return None
    return step.inner(
        words,
        environment=assignments(_variables(split)),
        first=partial(_say_devices, split),
    )


def _variables(split: Split) -> Iterator[Word]:
    """Yield ``NAME=value`` of ``-e NAME=value`` and of ``--env NAME=value,OTHER=value``."""
    for word in split.every("e", "env"):
        for part in word.text.split(","):
            unresolved = tuple(one for one in word.unresolved if one in part)
            yield Word(text=part, source=word.source, unresolved=unresolved)


def _say_devices(split: Split, context: Context) -> None:
    """Say the devices that ``--gpus`` lets in: a number, or ``device=0,1``."""
    said = split.settings().text("gpus")
    if not isinstance(said, Found):
        return
    _, is_list, names = said.value.strip("\"'").partition("device=")
    count = len(names.split(",")) if is_list else None
    if count is None and said.value.isdecimal():
        count = int(said.value)
    if count:
        context.draft.say(DEVICES, Found(count, said.source))
        context.draft.say(PER_NODE, Found(count, said.source))
