"""What stands before the trainer and is no launcher: each gives way to the program behind it.

A wrapper's options come from its manual page or its ``--help``; those that take a word are named, so that
the program behind them is found.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from vramgate.launch.option_words import Syntax, split_options, valued
from vramgate.launch.step import Step, assignments

Peel: TypeAlias = Callable[[Step], Step | None]
"""Takes one layer off; None where the command starts nothing."""

# Programs whose options are followed by the command.
_PLAIN: Mapping[str, Syntax] = {
    "exec": Syntax(values=valued("a")),
    "command": Syntax(),
    "builtin": Syntax(),
    "nohup": Syntax(),
    "setsid": Syntax(),
    "time": Syntax(values=valued("f format o output")),
    "nice": Syntax(values=valued("n adjustment")),
    "ionice": Syntax(values=valued("c class n classdata p pid")),
    "chrt": Syntax(own_words=1),
    "taskset": Syntax(own_words=1),
    "numactl": Syntax(
        values=valued(
            "interleave i preferred p preferred-many P physcpubind C cpunodebind N membind m weighted-interleave w"
        )
    ),
    "timeout": Syntax(values=valued("k kill-after s signal"), own_words=1),
    "stdbuf": Syntax(values=valued("i input o output e error")),
    "unbuffer": Syntax(),
    "catchsegv": Syntax(),
    "flock": Syntax(values=valued("w wait timeout E conflict-exit-code"), own_words=1),
    "sudo": Syntax(
        values=valued("u user g group h host p prompt C close-from D chdir T command-timeout")
    ),
    "tini": Syntax(values=valued("p e")),
    "dumb-init": Syntax(values=valued("rewrite r")),
    "catatonit": Syntax(),
    "xvfb-run": Syntax(values=valued("e error-file f auth-file n server-num s server-args")),
    "uvx": Syntax(values=valued("from with python p index-url index i extra-index-url")),
    "nvprof": Syntax(values=valued("o output-profile log-file metrics events")),
    "dlprof": Syntax(values=valued("mode reports nsys_opts output_path")),
    "ncu": Syntax(
        values=valued(
            "o export section metrics set k kernel-name launch-skip s launch-count c target-processes"
            " replay-mode nvtx-include log-file f"
        )
    ),
    "compute-sanitizer": Syntax(values=valued("tool log-file target-processes")),
    "py-spy": Syntax(values=valued("o output r rate d duration f format p pid"), own_words=1),
    "viztracer": Syntax(values=valued("o output_file tracer_entries")),
    "dotenv": Syntax(values=valued("f file"), own_words=1),
    "infisical": Syntax(values=valued("env path projectId"), own_words=1),
    "doppler": Syntax(values=valued("p project c config t token"), own_words=1),
}

# Programs with subcommands, of which some run the command behind them.
_CONDA = Syntax(values=valued("n name p prefix cwd"))
_RUNNERS: Mapping[str, Mapping[str, Syntax]] = {
    "uv": {
        "run": Syntax(
            values=valued(
                "extra group only-group no-group with with-editable with-requirements env-file"
                " python p package directory project index default-index i index-url extra-index-url"
                " find-links f index-strategy link-mode cache-dir config-file prerelease resolution"
                " no-extra no-binary-package no-build-package C config-setting P upgrade-package color"
            )
        )
    },
    "conda": {"run": _CONDA},
    "mamba": {"run": _CONDA},
    "micromamba": {"run": _CONDA},
    "poetry": {"run": Syntax(values=valued("C directory P project"))},
    "pipenv": {"run": Syntax()},
    "pixi": {
        "run": Syntax(
            values=valued("e environment manifest-path m auth-file pypi-keyring-provider")
        )
    },
    "hatch": {"run": Syntax(values=valued("e env"))},
    "pdm": {"run": Syntax(values=valued("s site-packages p project"))},
    "rye": {"run": Syntax()},
    "nsys": {
        "profile": Syntax(
            values=valued(
                "o output t trace s sample b backtrace c capture-range capture-range-end d duration y delay"
                " f force-overwrite w show-output x stop-on-exit kill e env-var p nvtx-capture n inherit-environment"
                " cpuctxsw cuda-memory-usage cuda-graph-trace gpu-metrics-device gpu-metrics-devices stats export"
                " python-sampling python-backtrace pytorch sampling-period wait cudabacktrace osrt-threshold"
                " gpu-metrics-set gpu-metrics-frequency trace-fork-before-exec session-new"
            )
        ),
        "launch": Syntax(values=valued("t trace w show-output e env-var session session-new")),
    },
    "ray": {
        "job": Syntax(
            values=valued(
                "address working-dir runtime-env runtime-env-json submission-id job-id entrypoint-num-cpus"
                " entrypoint-num-gpus entrypoint-memory entrypoint-resources metadata-json headers verify log-style"
            ),
            own_words=1,
        ),
        "submit": Syntax(
            values=valued("cluster-name n port-forward p screen tmux log-style log-color args"),
            own_words=1,
        ),
    },
}


def _of_syntax(syntax: Syntax) -> Peel:
    def peel(step: Step) -> Step | None:
        split = split_options(step.words[1:], syntax)
        return _started(step.inner(split.command))

    return peel


def _of_runner(subcommands: Mapping[str, Syntax]) -> Peel:
    def peel(step: Step) -> Step | None:
        names = [word.text for word in step.words]
        place = next((i for i, name in enumerate(names) if i and name in subcommands), None)
        if place is None:
            return None
        split = split_options(step.words[place + 1 :], subcommands[names[place]])
        return _started(step.inner(split.command))

    return peel


def _started(step: Step) -> Step | None:
    """Return the step with ``NAME=value`` words in front of its command taken as variables."""
    place = next((i for i, one in enumerate(step.words) if not assignments([one])), None)
    if place is None:
        return None
    return step.inner(step.words[place:], environment=assignments(step.words[:place]))


_ENV = Syntax(values=valued("u unset C chdir S split-string"))


def _env(step: Step) -> Step | None:
    """Take ``env [-i] [-u NAME] NAME=value … command`` off."""
    split = split_options(step.words[1:], _ENV)
    options = {name for name, _ in split.options}
    kept = {} if options & {"i", "ignore_environment"} else dict(step.environment)
    for word in split.every("u", "unset"):
        kept.pop(word.text, None)
    return _started(replace(step, words=split.command, environment=kept))


WRAPPERS: Mapping[str, Peel] = {
    **{name: _of_syntax(syntax) for name, syntax in _PLAIN.items()},
    **{name: _of_runner(subcommands) for name, subcommands in _RUNNERS.items()},
    "env": _env,
}
"""By the program's name."""
