"""Slurm and MPI: programs that start one process a task, wherever the tasks are."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from vramgate.launch.annotations.read import say_annotations
from vramgate.launch.commands.scripts import Budget, of_file, of_text
from vramgate.launch.draft import Draft
from vramgate.launch.launch import Context
from vramgate.launch.option_words import Split, Syntax, split_options, switches, valued
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.slurm.comment import comment_annotations
from vramgate.launch.slurm.request import say_slurm_request
from vramgate.launch.slurm.words import header_options, slurm_words
from vramgate.launch.step import Step, assignments
from vramgate.launch.words import Word
from vramgate.launch.world import World

Launcher: TypeAlias = Callable[[Step, Context], Step | None]
"""Takes itself off; None where the command starts nothing."""

# Open MPI 4 and 5, Intel MPI and MPICH's hydra: mpirun --help.
_MPI = Syntax(
    values={
        **valued(
            "np n c host H hostfile machinefile f x map-by bind-to rank-by npernode N ppn perhost"
            " hosts iface wdir path prefix tune am output-filename report-uri timeout display stdin"
            " launcher bootstrap genvlist cpus-per-proc cpu-set"
        ),
        **dict.fromkeys(("mca", "gmca", "genv", "env", "prtemca"), 2),
    },
    flags=switches(
        "allow-run-as-root oversubscribe tag-output report-bindings bind-to-none nolocal"
        " display-map display-allocation prepend-rank bynode byslot genvall envall verbose"
        " merge-stderr-to-stdout do-not-launch enable-recovery"
    ),
)
# Horovod 0.28 runner/launch.py, parse_args.
_HOROVOD = Syntax(
    values=valued(
        "np num-proc p ssh-port ssh-identity-file network-interfaces output-filename H hosts"
        " hostfile config-file cycle-time-ms fusion-threshold-mb cache-capacity start-timeout"
        " log-level min-np max-np num-min slots-per-host host-discovery-script reset-limit mpi-args"
        " timeline-filename gloo-timeout-seconds"
    )
)


def _mpi(syntax: Syntax) -> Launcher:
    def peel(step: Step, _context: Context) -> Step | None:
        split = split_options(step.words[1:], syntax)
        if not split.command:
            return None
        given = [*split.every("x"), *_pairs(split)]
        return step.inner(
            split.command, environment=assignments(given), world=_mpi_world(split.settings())
        )

    return peel


def _pairs(split: Split) -> Iterator[Word]:
    """Yield ``-genv NAME value`` as ``NAME=value``."""
    for name, setting in split.options:
        said = setting.said
        if name in {"genv", "env"} and isinstance(said, tuple) and len(said) > 1:
            yield Word(
                text=f"{said[0].text}={said[1].text}",
                source=said[0].source,
                unresolved=said[1].unresolved,
            )


def _mpi_world(options: Settings) -> World | None:
    total = options.whole("np", "n", "c", "num_proc")
    per_node = options.whole("npernode", "N", "ppn", "perhost")
    hosts = options.text("H", "host", "hosts")
    nodes: Reading[int] = None
    if isinstance(hosts, Found):
        slots = dict(host.partition(":")[::2] for host in hosts.value.split(","))
        nodes = Found(len(slots), hosts.source)
        if total is None and all(count.isdecimal() for count in slots.values()):
            total = Found(sum(map(int, slots.values())), hosts.source)
    if isinstance(total, Found) and isinstance(per_node, Found) and per_node.value > 0:
        nodes = Found(-(-total.value // per_node.value), per_node.source)
        return World(total=total, nodes=nodes, of_tasks=True)
    if total is None and per_node is None:
        return None
    return World(total=total, nodes=nodes, per_node=per_node, of_tasks=True)


def _srun(step: Step, context: Context) -> Step | None:
    """Take ``srun`` and ``salloc`` off; what they ask for is said of the machine."""
    split = slurm_words(step.words[1:])
    if not split.rest:
        return None
    asked = _asking(step, split.options, context)
    return asked.inner(split.rest, world=slurm_world(asked.environment))


def of_sbatch(step: Step, context: Context, budget: Budget) -> Iterator[Step]:
    """Yield the commands of ``sbatch script.sh arguments``, where it was sent, or of ``--wrap``.

    Options on the command line win over the script's ``#SBATCH`` lines.
    """
    split = slurm_words(step.words[1:])
    wrapped = split.options.get("wrap")
    if wrapped is not None:
        yield from of_text(_asking(step, split.options, context), wrapped, context, budget)
    elif split.rest:
        path, *arguments = split.rest
        found = context.files.find(path)
        header = header_options(found.value.text) if isinstance(found, Found) else {}
        asked = _asking(step, {**header, **split.options}, context)
        yield from of_file(asked, path, arguments, context, budget)


def _asking(step: Step, options: Mapping[str, Word], context: Context) -> Step:
    """Return the step with what Slurm will set, and what it asks for to be said if it is chosen."""
    scratch = Context(draft=Draft(), files=context.files)
    variables = say_slurm_request(options, scratch)
    comment = comment_annotations(options)
    return step.inner(
        step.words,
        environment=variables,
        first=partial(_say_request, options),
        last=partial(say_annotations, comment) if comment else None,
    )


def _say_request(options: Mapping[str, Word], context: Context) -> None:
    say_slurm_request(options, context)


def slurm_world(environment: Mapping[str, Word]) -> World | None:
    """Return the tasks of a step, from the variables that Slurm sets."""
    variables = Settings(
        {
            name: Setting(said=(word,), source=word.source)
            for name, word in environment.items()
            if name.startswith("SLURM_")
        }
    )
    total = variables.whole("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
    nodes = variables.whole("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    return None if total is None else World(total=total, nodes=nodes, of_tasks=True)


MANAGERS: Mapping[str, Launcher] = {
    **dict.fromkeys(
        ("mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "orterun", "prterun"), _mpi(_MPI)
    ),
    "horovodrun": _mpi(_HOROVOD),
    "srun": _srun,
    "salloc": _srun,
}
"""By the program's name."""
